"""The capture proxy with the plain openai client: bytes as they are, the exchange remembered, errors passed on."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, suppress
from typing import Any

import httpx2
import openai
import pytest
from django.contrib.auth.models import User
from django.test import Client
from pytest_django import Settings

from convmemory.accounts.keys import create_key
from convmemory.chat.models import Reply
from convmemory.conversations.models import Conversation
from tests.factories import make_user
from tests.support.chat_server import Call, ChatServer, Cut, Hold, Raw, Say, Script, Think, calls, fails, says
from tests.support.patience import ANSWER_S

pytestmark = pytest.mark.django_db(transaction=True)

HELLO = {"role": "user", "content": "What is the capital of Peru?"}


@pytest.fixture
def client(site: str, owner: User) -> Iterator[openai.OpenAI]:
    http = openai.DefaultHttpxClient(trust_env=False)
    with openai.OpenAI(base_url=f"{site}/v1", api_key=create_key(owner=owner), max_retries=0, http_client=http) as made:
        yield made


def ask(client: openai.OpenAI, *messages: dict[str, Any], **values: Any) -> Any:
    create: Any = client.chat.completions.create
    return create(model="some-model", messages=list(messages), **values)


def stream(client: openai.OpenAI, *messages: dict[str, Any]) -> str:
    return "".join(chunk.choices[0].delta.content or "" for chunk in ask(client, *messages, stream=True))


def recorded(count: int = 1) -> Conversation:
    """The newest of `count` conversations, as soon as it is recorded."""
    found: Conversation = eventually(
        lambda: Conversation.objects.count() == count and Conversation.objects.order_by("-pk")[0]
    )
    return found


def eventually(look: Callable[[], Any]) -> Any:
    for _ in range(500):
        if found := look():
            return found
        time.sleep(0.02)
    return pytest.fail("it never happened")


def texts(conversation: Conversation) -> list[str]:
    return [message.parts[0].get("text", "") for message in conversation.messages.order_by("position")]


@pytest.mark.parametrize("streams", [False, True])
def test_a_conversation_is_recorded_and_continued(client: openai.OpenAI, endpoint: ChatServer, streams: bool) -> None:
    def answer(*messages: dict[str, Any]) -> str:
        return stream(client, *messages) if streams else ask(client, *messages).choices[0].message.content

    endpoint.scripts.extend([says("Lima."), says("Santiago.")])
    system = {"role": "system", "content": "You know capitals."}
    assert answer(system, HELLO) == "Lima."
    conversation = recorded()
    assert texts(conversation) == ["You know capitals.", HELLO["content"], "Lima."]
    assert (conversation.source, conversation.turn_count, conversation.status) == ("proxy", 1, "idle")
    changed = {"role": "system", "content": "It is now 12:01."}
    more = {"role": "user", "content": "And of Chile?"}
    assert answer(changed, HELLO, {"role": "assistant", "content": "Lima."}, more) == "Santiago."
    eventually(lambda: conversation.messages.count() == 5)
    assert texts(conversation)[3:] == ["And of Chile?", "Santiago."]
    conversation.refresh_from_db()
    assert conversation.turn_count == 2
    assert Conversation.objects.count() == 1


def test_proxy_forwards_bytes_unchanged(site: str, owner: User, endpoint: ChatServer) -> None:
    body = b'{ "model":"m",  "messages": [{"role":"user","content":"h\\u00e9"}], "stream": true, "made_up": [1, 2.50] }'
    odd = b'data: {"choices":[{"delta":{"content":"x"}}],   "extra": "\xc3\xa9"}\n\n: comment\n\n'
    endpoint.scripts.append(Script((Raw(odd),)))
    headers = {
        "Authorization": f"Bearer {create_key(owner=owner)}",
        "Content-Type": "application/json",
        "Cookie": "a=b",
    }
    with httpx2.Client(timeout=ANSWER_S, trust_env=False) as http:
        response = http.post(f"{site}/v1/chat/completions", content=body, headers=headers)
    assert endpoint.bodies == [body]
    assert endpoint.headers[0]["authorization"] == "Bearer secret"
    assert "cookie" not in endpoint.headers[0]
    assert odd in response.content
    assert response.content.endswith(b"data: [DONE]\n\n")
    assert texts(recorded()) == ["hé", "x"]


def test_tool_calls_are_recorded_with_their_results(client: openai.OpenAI, endpoint: ChatServer) -> None:
    endpoint.scripts.extend([calls("weather", {"city": "Lima"}), says("Sunny.")])
    called = ask(client, HELLO).choices[0].message
    recorded()
    result = {"role": "tool", "tool_call_id": called.tool_calls[0].id, "content": "sun"}
    ask(client, HELLO, called.to_dict(), result)
    conversation = eventually(lambda: Conversation.objects.filter(message_count=4).first())
    kinds = [message.parts[0]["type"] for message in conversation.messages.order_by("position")]
    assert kinds == ["text", "tool_call", "tool_result", "text"]
    assert Conversation.objects.count() == 1


def test_an_edited_history_is_another_conversation(client: openai.OpenAI, endpoint: ChatServer) -> None:
    endpoint.scripts.extend([says("Lima."), says("Quito."), says("Lima!")])
    stream(client, HELLO)
    recorded()
    edited = {"role": "user", "content": "And of Ecuador?"}
    stream(client, {"role": "user", "content": "Other"}, {"role": "assistant", "content": "Lima."}, edited)
    assert texts(recorded(2)) == ["Other", "Lima.", "And of Ecuador?", "Quito."]
    stream(client, HELLO)
    assert texts(recorded(3)) == [HELLO["content"], "Lima!"]


def test_same_history_of_another_user_starts_a_new_conversation(
    client: openai.OpenAI, site: str, endpoint: ChatServer
) -> None:
    endpoint.scripts.extend([says("Lima."), says("Santiago.")])
    stream(client, HELLO)
    first = recorded()
    stranger = client.with_options(api_key=create_key(owner=make_user()))
    stream(stranger, HELLO, {"role": "assistant", "content": "Lima."}, {"role": "user", "content": "And of Chile?"})
    second = recorded(2)
    assert second.owner_id != first.owner_id
    assert first.messages.count() == 2


@pytest.mark.parametrize("streams", [False, True])
def test_errors_of_the_endpoint_are_passed_on_and_nothing_is_recorded(
    client: openai.OpenAI, endpoint: ChatServer, streams: bool
) -> None:
    endpoint.scripts.append(fails(429, "slow down", retry_after="7"))
    with pytest.raises(openai.RateLimitError, match="slow down") as caught:
        ask(client, HELLO, stream=streams)
    assert caught.value.response.headers["retry-after"] == "7"
    endpoint.scripts.append(fails(500, "boom"))
    with pytest.raises(openai.InternalServerError, match="boom"):
        ask(client, HELLO, stream=streams)
    assert not Conversation.objects.exists()


@pytest.mark.parametrize(("status", "answered"), [(401, 502), (403, 502), (301, 502), (404, 404)])
def test_failure_of_the_servers_own_settings_is_told_without_the_endpoints_words(
    site: str, owner: User, endpoint: ChatServer, status: int, answered: int
) -> None:
    endpoint.scripts.append(fails(status, "Incorrect API key provided: sk-of-the-operator"))
    with start_streaming(site, owner, HELLO) as response:
        response.read()
    assert response.status_code == answered
    message = response.json()["error"]["message"]
    assert f"The chat endpoint {endpoint.url} (model test-model) answered {status}" in message
    assert "sk-of" not in message


def test_error_that_quotes_the_servers_key_is_passed_on_without_it(client: openai.OpenAI, endpoint: ChatServer) -> None:
    endpoint.scripts.append(fails(400, f"bad key: {endpoint.key}"))
    with pytest.raises(openai.BadRequestError, match=r"bad key: \*\*\*"):
        ask(client, HELLO)


def test_streamed_reply_over_the_limit_is_cut_with_a_note_for_client_and_reader(
    client: openai.OpenAI, endpoint: ChatServer, owner: User
) -> None:
    chunk = b'data: {"choices":[{"delta":{"content":"' + b"x" * 100 + b'"}}]}\n\n'
    endpoint.scripts.append(Script((Raw(chunk * 7_000),) * 100))
    with pytest.raises(openai.APIError, match="cut after 1,000,000 characters"):
        stream(client, HELLO)
    conversation = recorded()
    assert [len(text) for text in texts(conversation)] == [len(HELLO["content"]), 1_000_000]
    assert "cut after 1,000,000 characters" in interrupted().error


def test_whole_reply_over_the_limit_is_refused_or_recorded_in_part(client: openai.OpenAI, endpoint: ChatServer) -> None:
    endpoint.scripts.append(says("x" * (17 * 1024**2)))
    with pytest.raises(openai.InternalServerError, match="more than 16 MB"):
        ask(client, HELLO)
    endpoint.scripts.append(says("x" * 1_000_001))
    assert len(ask(client, HELLO).choices[0].message.content) == 1_000_001
    assert [len(text) for text in texts(recorded())] == [len(HELLO["content"]), 1_000_000]
    assert "cut after 1,000,000 characters" in interrupted().error
    endpoint.scripts.append(Script(tuple(Call("t", "{}", f"c{at}") for at in range(300))))
    assert len(ask(client, HELLO).choices[0].message.tool_calls) == 300
    assert len(recorded(2).messages.get(role="assistant").parts) == 100


def test_a_reply_that_breaks_off_breaks_off_here_too_and_its_beginning_is_recorded(
    client: openai.OpenAI, endpoint: ChatServer
) -> None:
    endpoint.scripts.append(Script((Say("Li"), Cut())))
    with pytest.raises(openai.APIConnectionError):
        stream(client, HELLO)
    assert texts(recorded()) == [HELLO["content"], "Li"]


# --- replies that break off -----------------------------------------------------------------------


def interrupted() -> Reply:
    """The one interrupted reply, as soon as it is recorded."""
    found: Reply = eventually(lambda: Reply.objects.select_related("question").first())
    assert (Reply.objects.count(), found.status) == (1, "interrupted")
    return found


def page_of(owner: User, conversation: Conversation) -> str:
    client = Client()
    client.force_login(owner)
    return client.get(f"/conversations/{conversation.pk}").content.decode()


def start_streaming(site: str, owner: User, *messages: dict[str, Any]) -> AbstractContextManager[httpx2.Response]:
    headers = {"Authorization": f"Bearer {create_key(owner=owner)}"}
    asked = {"model": "some-model", "messages": list(messages), "stream": True}
    address = f"{site}/v1/chat/completions"
    return httpx2.stream("POST", address, json=asked, headers=headers, timeout=ANSWER_S, trust_env=False)


def read_until(response: httpx2.Response, text: bytes) -> Iterator[bytes]:
    """Read as far as `text`; what comes after it is left to the caller."""
    pieces, seen = response.iter_raw(), b""
    while text not in seen:
        seen += next(pieces)
    return pieces


@pytest.mark.parametrize("has_spoken", [True, False])
def test_a_reply_that_the_endpoint_cuts_is_marked_as_interrupted(
    client: openai.OpenAI, endpoint: ChatServer, owner: User, has_spoken: bool
) -> None:
    endpoint.scripts.append(Script((Say("Li") if has_spoken else Think("Hm"), Cut())))
    with pytest.raises(openai.APIConnectionError):
        stream(client, HELLO)
    conversation = recorded()
    reply = interrupted()
    assert (reply.owner_id, reply.conversation_id, reply.model) == (owner.pk, conversation.pk, "test-model")
    assert reply.question is not None
    assert reply.question.parts[0]["text"] == HELLO["content"]
    assert reply.error.endswith("ended the reply before it was complete.")
    assert reply.ended_at
    assert (conversation.status, conversation.turn_count) == ("idle", 1)
    assert f"The reply was interrupted. {reply.error}" in page_of(owner, conversation)


def test_a_stream_without_an_end_is_marked_as_interrupted(client: openai.OpenAI, endpoint: ChatServer) -> None:
    endpoint.scripts.append(Script((Say("Li"),), has_end=False))
    assert stream(client, HELLO) == "Li"
    assert texts(recorded()) == [HELLO["content"], "Li"]
    assert interrupted().error.endswith("ended the reply before it was complete.")


def test_a_reply_that_goes_silent_is_marked_as_interrupted(
    site: str, owner: User, endpoint: ChatServer, settings: Settings
) -> None:
    settings.CHAT_TIMEOUT_S = 10  # time enough for what comes before the silence
    release = threading.Event()
    endpoint.scripts.append(Script((Say("Li"), Hold(release))))
    with pytest.raises(httpx2.TransportError), start_streaming(site, owner, HELLO) as response:
        response.read()
    assert texts(recorded()) == [HELLO["content"], "Li"]
    assert "went silent" in interrupted().error
    release.set()


def test_a_reply_whose_client_leaves_is_marked_as_interrupted(site: str, owner: User, endpoint: ChatServer) -> None:
    release = threading.Event()
    left = endpoint.disconnects
    endpoint.scripts.append(Script((Say("Li"), Hold(release), Say("ma."))))
    with start_streaming(site, owner, HELLO) as response:
        read_until(response, b"Li")
    conversation = recorded()
    reply = interrupted()
    assert texts(conversation) == [HELLO["content"], "Li"]
    assert reply.error == "The connection to the client ended before the reply was complete."
    assert f"The reply was interrupted. {reply.error}" in page_of(owner, conversation)
    eventually(lambda: endpoint.disconnects == left + 1)
    release.set()


def test_interrupted_mark_is_shown_at_its_turn(
    client: openai.OpenAI, site: str, endpoint: ChatServer, owner: User
) -> None:
    more = {"role": "user", "content": "And of Chile?"}
    last = {"role": "user", "content": "Go on."}
    history = [HELLO, {"role": "assistant", "content": "Lima."}, more]
    endpoint.scripts.extend([says("Lima."), Script((Say("San"), Cut())), says("Santiago.")])
    stream(client, HELLO)
    recorded()
    with pytest.raises(openai.APIConnectionError):
        stream(client, *history)
    reply = interrupted()
    assert reply.question is not None
    assert reply.question.parts[0]["text"] == more["content"]
    assert stream(client, *history, {"role": "assistant", "content": "San"}, last) == "Santiago."
    conversation = eventually(lambda: Conversation.objects.filter(message_count=6).first())
    assert conversation.turn_count == 3
    page = page_of(owner, conversation)
    assert page.count("The reply was interrupted.") == 1
    assert page.index(">San<") < page.index("The reply was interrupted.") < page.index("Go on.")


@pytest.mark.parametrize(
    "script",
    [
        says("Lima."),
        Script((Say("Lima."), Raw(b'data: {"choices":[{"delta":{},"finish_reason":"stop"}]}\n\n')), has_end=False),
        Script((Say("Lima."), Raw(b"data: [DONE]\n\n")), has_end=False),
        Script((Say("Lima."), Raw(b'data: {"choices":[{"delta":{},"finish_reason":"stop"}]}\n\n'), Cut())),
    ],
    ids=["whole", "without [DONE]", "without a reason", "cut after its end"],
)
def test_a_reply_with_an_end_is_not_marked(site: str, owner: User, endpoint: ChatServer, script: Script) -> None:
    endpoint.scripts.append(script)
    with suppress(httpx2.TransportError), start_streaming(site, owner, HELLO) as response:
        response.read()
    conversation = recorded()
    assert texts(conversation) == [HELLO["content"], "Lima."]
    assert not Reply.objects.exists()
    assert "interrupted" not in page_of(owner, conversation)


def test_a_client_that_leaves_once_it_has_the_whole_reply_marks_nothing(
    site: str, owner: User, endpoint: ChatServer
) -> None:
    release = threading.Event()
    end = Raw(b'data: {"choices":[{"delta":{},"finish_reason":"stop"}]}\n\n')
    endpoint.scripts.append(Script((Say("Lima."), end, Hold(release))))
    with start_streaming(site, owner, HELLO) as response:
        read_until(response, b'"stop"')
    assert texts(recorded()) == [HELLO["content"], "Lima."]
    assert not Reply.objects.exists()
    release.set()


# --- what is not recorded -------------------------------------------------------------------------


@pytest.mark.parametrize("body", [b"not json", b"[]", b'{"messages": [{"role": "wizard", "content": "x"}]}'])
def test_unrecordable_request_is_forwarded(site: str, owner: User, endpoint: ChatServer, body: bytes) -> None:
    endpoint.scripts.append(says("Whatever."))
    headers = {"Authorization": f"Bearer {create_key(owner=owner)}"}
    with httpx2.Client(timeout=ANSWER_S, trust_env=False) as http:
        response = http.post(f"{site}/v1/chat/completions", content=body, headers=headers)
    assert response.status_code in (200, 500)
    assert not Conversation.objects.exists()


def test_models_are_passed_on(client: openai.OpenAI) -> None:
    assert [model.id for model in client.models.list()] == ["test-model"]


def test_proxy_errors_have_openais_shape(client: openai.OpenAI, settings: Settings) -> None:
    with pytest.raises(openai.AuthenticationError, match="API keys"):
        ask(client.with_options(api_key="wrong"), HELLO)
    settings.CHAT_BASE_URL = "http://127.0.0.1:9/v1"
    with pytest.raises(openai.InternalServerError, match="cannot be reached"):
        ask(client, HELLO)
    settings.CHAT_MODEL = ""
    with pytest.raises(openai.InternalServerError, match="CHAT_BASE_URL"):
        ask(client, HELLO)
