"""The capture proxy with the plain openai client: bytes as they are, the exchange remembered, errors passed on."""

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, suppress
from typing import Any

import httpx2
import openai
import pytest
from django.contrib.auth.models import User
from pytest_django import Settings

from convmemory.accounts.keys import create_key
from convmemory.chat.capture import ReplyReader
from convmemory.chat.deltas import CompletionDraft
from convmemory.chat.models import Reply
from convmemory.chat.wires import CHAT
from convmemory.conversations.messages.parts import TextPart, ThinkingPart
from convmemory.conversations.models import Conversation, Message
from convmemory.core.endpoints.streams import UNREADABLE, EventReader
from tests.factories import make_user
from tests.support import asgi_server
from tests.support.api import signed_in
from tests.support.chat_server import Call, ChatServer, Cut, Hold, Raw, Say, Script, Think, calls, fails, says
from tests.support.patience import ANSWER_S

pytestmark = pytest.mark.django_db(transaction=True)

HELLO = {"role": "user", "content": "What is the capital of Peru?"}
FOLLOW_UPS = 20  # each is sent as soon as the reply before has ended


@pytest.fixture
def client(site: str, owner: User) -> Iterator[openai.OpenAI]:
    http = openai.DefaultHttpxClient(trust_env=False)
    with openai.OpenAI(
        base_url=f"{site}/v1", api_key=create_key(person=owner), max_retries=0, http_client=http
    ) as made:
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


def eventually(look: Callable[[], Any], *, within_s: float = 10) -> Any:
    for _ in range(int(within_s / 0.02)):
        if found := look():
            return found
        time.sleep(0.02)
    return pytest.fail("it never happened")


def texts(conversation: Conversation) -> list[str]:
    return [message.parts[0].get("text", "") for message in conversation.messages.order_by("position")]


@pytest.mark.parametrize("streams", [False, True])
def test_conversation_is_recorded_and_continued(client: openai.OpenAI, endpoint: ChatServer, streams: bool) -> None:
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
        "Authorization": f"Bearer {create_key(person=owner)}",
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


def test_edited_history_is_another_conversation(client: openai.OpenAI, endpoint: ChatServer) -> None:
    endpoint.scripts.extend([says("Lima."), says("Quito."), says("Lima!")])
    stream(client, HELLO)
    recorded()
    edited = {"role": "user", "content": "And of Ecuador?"}
    stream(client, {"role": "user", "content": "Other"}, {"role": "assistant", "content": "Lima."}, edited)
    assert texts(recorded(2)) == ["Other", "Lima.", "And of Ecuador?", "Quito."]
    stream(client, HELLO)
    assert texts(recorded(3)) == [HELLO["content"], "Lima!"]


def test_same_history_of_another_user_starts_new_conversation(
    client: openai.OpenAI, site: str, endpoint: ChatServer
) -> None:
    endpoint.scripts.extend([says("Lima."), says("Santiago.")])
    stream(client, HELLO)
    first = recorded()
    stranger = client.with_options(api_key=create_key(person=make_user()))
    stream(stranger, HELLO, {"role": "assistant", "content": "Lima."}, {"role": "user", "content": "And of Chile?"})
    second = recorded(2)
    assert second.archive_id != first.archive_id
    assert first.messages.count() == 2


@pytest.mark.parametrize("streams", [False, True])
def test_errors_of_endpoint_are_passed_on_and_nothing_is_recorded(
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
def test_failure_of_servers_own_settings_is_told_without_endpoints_words(
    site: str, owner: User, endpoint: ChatServer, status: int, answered: int
) -> None:
    endpoint.scripts.append(fails(status, "Incorrect API key provided: sk-of-the-operator"))
    with start_streaming(site, owner, HELLO) as response:
        response.read()
    assert response.status_code == answered
    message = response.json()["error"]["message"]
    assert f"The chat endpoint of this server (model test-model) answered {status}" in message
    assert endpoint.url not in message
    assert "sk-of" not in message


def test_error_that_quotes_servers_key_is_passed_on_without_it(client: openai.OpenAI, endpoint: ChatServer) -> None:
    endpoint.scripts.append(fails(400, f"bad key: {endpoint.key}"))
    with pytest.raises(openai.BadRequestError, match=r"bad key: \*\*\*"):
        ask(client, HELLO)


def test_streamed_reply_over_limit_is_cut_with_note_for_client_and_reader(
    client: openai.OpenAI, endpoint: ChatServer, owner: User
) -> None:
    chunk = b'data: {"choices":[{"delta":{"content":"' + b"x" * 100 + b'"}}]}\n\n'
    endpoint.scripts.append(Script((Raw(chunk * 7_000),) * 100))
    with pytest.raises(openai.APIError, match="cut after 1,000,000 characters"):
        stream(client, HELLO)
    conversation = recorded()
    assert [len(text) for text in texts(conversation)] == [len(HELLO["content"]), 1_000_000]
    assert "cut after 1,000,000 characters" in interrupted().error


def test_whole_reply_over_limit_is_refused_or_recorded_in_part(client: openai.OpenAI, endpoint: ChatServer) -> None:
    endpoint.scripts.append(says("x" * (17 * 1024**2)))
    with pytest.raises(openai.InternalServerError, match="more than 16 MB"):
        ask(client, HELLO)
    endpoint.scripts.append(says("x" * 1_000_001))
    assert len(ask(client, HELLO).choices[0].message.content) == 1_000_001
    eventually(lambda: Reply.objects.count() == 2)
    assert [len(text) for text in texts(recorded())] == [len(HELLO["content"]), 1_000_000]
    refused, cut = Reply.objects.order_by("pk").values_list("error", flat=True)
    assert refused.endswith("ended the reply before it was complete.")
    assert "cut after 1,000,000 characters" in cut
    endpoint.scripts.append(Script(tuple(Call("t", "{}", f"c{at}") for at in range(300))))
    assert len(ask(client, HELLO).choices[0].message.tool_calls) == 300
    assert len(recorded(2).messages.get(role="assistant").parts) == 100


def test_reply_that_breaks_off_breaks_off_here_too_and_its_beginning_is_recorded(
    client: openai.OpenAI, endpoint: ChatServer
) -> None:
    endpoint.scripts.append(Script((Say("Li"), Cut())))
    with pytest.raises(openai.APIConnectionError):
        stream(client, HELLO)
    assert texts(recorded()) == [HELLO["content"], "Li"]


def interrupted() -> Reply:
    """The one interrupted reply, as soon as it is recorded."""
    found: Reply = eventually(lambda: Reply.objects.select_related("question").first())
    assert (Reply.objects.count(), found.status) == (1, "interrupted")
    return found


def page_of(owner: User, conversation: Conversation) -> str:
    client = signed_in(owner)
    return client.get(f"/conversations/{conversation.pk}").content.decode()


def start_streaming(site: str, owner: User, *messages: dict[str, Any]) -> AbstractContextManager[httpx2.Response]:
    headers = {"Authorization": f"Bearer {create_key(person=owner)}"}
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
def test_reply_that_endpoint_cuts_is_marked_as_interrupted(
    client: openai.OpenAI, endpoint: ChatServer, owner: User, has_spoken: bool
) -> None:
    endpoint.scripts.append(Script((Say("Li") if has_spoken else Think("Hm"), Cut())))
    with pytest.raises(openai.APIConnectionError):
        stream(client, HELLO)
    conversation = recorded()
    reply = interrupted()
    assert (reply.archive_id, reply.conversation_id, reply.model) == (owner.pk, conversation.pk, "test-model")
    assert reply.question is not None
    assert reply.question.parts[0]["text"] == HELLO["content"]
    assert reply.error.endswith("ended the reply before it was complete.")
    assert reply.ended_at
    assert (conversation.status, conversation.turn_count) == ("idle", 1)
    assert f"The reply was interrupted. {reply.error}" in page_of(owner, conversation)


def test_stream_without_end_is_marked_as_interrupted(client: openai.OpenAI, endpoint: ChatServer) -> None:
    endpoint.scripts.append(Script((Say("Li"),), has_end=False))
    assert stream(client, HELLO) == "Li"
    assert texts(recorded()) == [HELLO["content"], "Li"]
    assert interrupted().error.endswith("ended the reply before it was complete.")


def test_reply_that_goes_silent_is_marked_as_interrupted(
    site: str, owner: User, endpoint: ChatServer, settings: Settings
) -> None:
    settings.CHAT_TIMEOUT_S = 3  # time enough for what comes before the silence
    release = threading.Event()
    endpoint.scripts.append(Script((Say("Li"), Hold(release))))
    with pytest.raises(httpx2.TransportError), start_streaming(site, owner, HELLO) as response:
        response.read()
    assert texts(recorded()) == [HELLO["content"], "Li"]
    assert "went silent" in interrupted().error
    release.set()


def test_reply_whose_client_leaves_is_marked_as_interrupted(site: str, owner: User, endpoint: ChatServer) -> None:
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
def test_reply_with_end_is_not_marked(site: str, owner: User, endpoint: ChatServer, script: Script) -> None:
    endpoint.scripts.append(script)
    with suppress(httpx2.TransportError), start_streaming(site, owner, HELLO) as response:
        response.read()
    conversation = recorded()
    assert texts(conversation) == [HELLO["content"], "Lima."]
    assert not Reply.objects.exists()
    assert "interrupted" not in page_of(owner, conversation)


def test_client_that_leaves_once_it_has_whole_reply_marks_nothing(site: str, owner: User, endpoint: ChatServer) -> None:
    release = threading.Event()
    end = Raw(b'data: {"choices":[{"delta":{},"finish_reason":"stop"}]}\n\n')
    endpoint.scripts.append(Script((Say("Lima."), end, Hold(release))))
    with start_streaming(site, owner, HELLO) as response:
        read_until(response, b'"stop"')
    assert texts(recorded()) == [HELLO["content"], "Lima."]
    assert not Reply.objects.exists()
    release.set()


@pytest.mark.parametrize("body", [b"not json", b"[]", b'{"messages": [{"role": "wizard", "content": "x"}]}'])
def test_unrecordable_request_is_forwarded(site: str, owner: User, endpoint: ChatServer, body: bytes) -> None:
    endpoint.scripts.append(says("Whatever."))
    headers = {"Authorization": f"Bearer {create_key(person=owner)}"}
    with httpx2.Client(timeout=ANSWER_S, trust_env=False) as http:
        response = http.post(f"{site}/v1/chat/completions", content=body, headers=headers)
    assert response.status_code in (200, 500)
    assert not Conversation.objects.exists()


def test_messages_that_no_format_documents_are_recorded_with_the_others(
    site: str, owner: User, endpoint: ChatServer
) -> None:
    odd: list[dict[str, Any]] = [
        {"role": "wizard", "content": "Abracadabra."},
        {"role": "assistant", "content": [{"type": "hologram", "of": "Lima"}]},
        {"role": "tool", "content": None, "tool_call_id": "c"},
        {"role": "assistant", "content": None, "tool_calls": [{"id": "d", "function": {"name": "f"}}]},
    ]
    endpoint.scripts.append(says("Lima."))
    post(site, "chat/completions", {"messages": [HELLO, *odd, HELLO]}, create_key(person=owner))
    parts = [part for message in spoken(recorded()) for part in message]
    assert [kind for kind, _ in parts] == ["text", "text", "text", "tool_result", "tool_call", "text", "text"]
    assert '{"role": "wizard"' in parts[1][1]


def test_only_documented_parameters_of_query_reach_endpoint(site: str, owner: User, endpoint: ChatServer) -> None:
    headers = {"Authorization": f"Bearer {create_key(person=owner)}"}
    odd = "team_id=7&key=x&include=all"
    with httpx2.Client(timeout=ANSWER_S, trust_env=False, headers=headers) as http:
        assert http.get(f"{site}/v1/models/some-model?{odd}").status_code == 200
        for path in ("chat/completions", "responses", "messages", "messages/count_tokens", "embeddings"):
            assert http.post(f"{site}/v1/{path}?{odd}", json={"messages": [HELLO]}).status_code == 200
        http.get(f"{site}/v1/models?limit=5&after_id=a%26key=b&{odd}")
    assert not [address for address in endpoint.addresses[:-1] if "?" in address]
    assert endpoint.addresses[-1] == "/v1/models?limit=5&after_id=a%26key%3Db"


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


def post(site: str, path: str, body: dict[str, Any], key: str, **headers: str) -> httpx2.Response:
    with httpx2.Client(timeout=ANSWER_S, trust_env=False) as http:
        return http.post(f"{site}/v1/{path}", json=body, headers={"Authorization": f"Bearer {key}", **headers})


def spoken(conversation: Conversation) -> list[list[tuple[str, str]]]:
    """The kinds and beginnings of the parts of each message."""
    return [
        [(part["type"], str(part.get("text") or part.get("input") or "")[:40]) for part in message.parts]
        for message in conversation.messages.order_by("position")
    ]


ANSWERED = [("thinking", "Hm."), ("text", "I look."), ("tool_call", "{'city': 'Lima'}")]
WEATHER = Script((Think("Hm."), Say("I look."), Call("weather", '{"city": "Lima"}', index=1)))


@pytest.mark.parametrize("streams", [True, False])
def test_responses_are_recorded_with_reasoning_and_calls(
    site: str, owner: User, endpoint: ChatServer, streams: bool
) -> None:
    key = create_key(person=owner)
    question = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Weather in Lima?"}]}
    items: list[dict[str, Any]] = [
        question,
        {"type": "reasoning", "summary": [{"type": "summary_text", "text": "Hm."}]},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "I look."}]},
        {"type": "function_call", "call_id": "call_1", "name": "weather", "arguments": '{"city": "Lima"}'},
        {"type": "function_call_output", "call_id": "call_1", "output": "sun"},
    ]
    endpoint.scripts.extend([WEATHER, says("Sunny.")])
    asked = {"model": "some-model", "instructions": "Be brief.", "stream": streams}
    headers = {"User-Agent": "codex_cli_rs/0.9 (Linux)", "X-Convmemory-Project": "/home/ada/weather"}
    assert post(site, "responses", {**asked, "input": [question]}, key, **headers).status_code == 200
    assert post(site, "responses", {**asked, "input": items}, key, **headers).status_code == 200
    conversation = eventually(lambda: Conversation.objects.filter(message_count=5).first())
    assert Conversation.objects.count() == 1
    assert (conversation.agent, conversation.project) == ("codex", "/home/ada/weather")
    assert spoken(conversation) == [
        [("text", "Be brief.")],
        [("text", "Weather in Lima?")],
        ANSWERED,
        [("tool_result", "sun")],
        [("text", "Sunny.")],
    ]


@pytest.mark.parametrize("streams", [True, False])
def test_messages_are_recorded_with_anthropics_key_header(
    site: str, owner: User, endpoint: ChatServer, streams: bool
) -> None:
    headers = {"X-Api-Key": create_key(person=owner), "Anthropic-Version": "2023-06-01", "User-Agent": "claude-cli/2.1"}
    answer = [
        {"type": "thinking", "thinking": "Hm.", "signature": "x"},
        {"type": "text", "text": "I look."},
        {"type": "tool_use", "id": "call_1", "name": "weather", "input": {"city": "Lima"}},
    ]
    history: list[dict[str, Any]] = [
        {"role": "user", "content": "Weather in Lima?"},
        {"role": "assistant", "content": answer},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "call_1", "content": "sun"}]},
    ]
    endpoint.scripts.extend([WEATHER, says("Sunny.")])
    asked = {"model": "some-model", "max_tokens": 9, "system": [{"type": "text", "text": "Be brief."}]}
    with httpx2.Client(timeout=ANSWER_S, trust_env=False, headers=headers) as http:
        for messages in (history[:1], history):
            body = {**asked, "stream": streams, "messages": messages}
            assert http.post(f"{site}/v1/messages?beta=true", json=body).status_code == 200
    conversation = eventually(lambda: Conversation.objects.filter(message_count=5).first())
    assert endpoint.headers[0]["x-api-key"] == endpoint.key
    assert endpoint.headers[0]["anthropic-version"] == "2023-06-01"
    assert endpoint.addresses == ["/v1/messages?beta=true"] * 2
    assert (Conversation.objects.count(), conversation.agent) == (1, "claude-code")
    assert spoken(conversation)[2:] == [ANSWERED, [("tool_result", "sun")], [("text", "Sunny.")]]


def test_injected_reminders_are_neither_question_nor_title(site: str, owner: User, endpoint: ChatServer) -> None:
    key = create_key(person=owner)
    said = {"type": "text", "text": "How tall is the dam?"}
    history: list[dict[str, Any]] = []
    for time_of_day in ("noon", "one o'clock"):
        added = {"type": "text", "text": f"<system-reminder>\nIt is {time_of_day}.\n</system-reminder>"}
        history[:1] = [{"role": "user", "content": [added, said]}]
        post(site, "messages", {"model": "m", "max_tokens": 9, "messages": history}, key)
        history += [{"role": "assistant", "content": "Yes."}, {"role": "user", "content": "And the weir?"}]
    conversation = eventually(lambda: Conversation.objects.filter(turn_count=2).first())
    assert (Conversation.objects.count(), conversation.title) == (1, "How tall is the dam?")


def test_server_accepts_anthropics_key_header_below_v1_alone(owner: User, settings: Settings) -> None:
    settings.CHAT_MODEL = ""
    headers = {"X-Api-Key": create_key(person=owner)}
    with asgi_server.serve() as address, httpx2.Client(timeout=ANSWER_S, trust_env=False, headers=headers) as http:
        assert "CHAT_BASE_URL" in http.get(f"{address}/v1/models").json()["error"]["message"]
        assert http.get(f"{address}/api/v1/conversations").status_code == 401


def test_immediate_follow_ups_make_one_conversation(site: str, owner: User, endpoint: ChatServer) -> None:
    messages: list[dict[str, Any]] = []
    headers = {"Authorization": f"Bearer {create_key(person=owner)}"}
    with httpx2.Client(timeout=ANSWER_S, trust_env=False, headers=headers) as http:
        for number in range(FOLLOW_UPS):
            messages.append({"role": "user", "content": f"number {number}"})
            asked = {"model": "some-model", "messages": messages, "stream": number % 2 == 0}
            with http.stream("POST", f"{site}/v1/chat/completions", json=asked) as response:
                said = b"".join(response.iter_raw())
            assert f"number {number}".encode() in said
            messages.append({"role": "assistant", "content": f"You said: number {number}"})
    eventually(lambda: Message.objects.count() >= len(messages), within_s=ANSWER_S)
    assert texts(Conversation.objects.get()) == [message["content"] for message in messages]


ODD_STREAMS = {
    "byte order mark": b'\xef\xbb\xbfdata: {"choices":[{"delta":{"content":"Lima."}}]}\n\n',
    "event without data": b'data:\n\ndata: {"choices":[{"delta":{"content":"Lima."}}]}\n\n',
    "keepalive as data": b'data: : keepalive\n\ndata: {"choices":[{"delta":{"content":"Lima."}}]}\n\n',
    "list of parts": b'data: {"choices":[{"delta":{"content":[{"type":"text","text":"Lima."}]}}]}\n\n',
    "whole message": b'data: {"choices":[{"message":{"role":"assistant","content":"Lima."}}]}\n\n',
    "one JSON body": b'{"choices":[{"message":{"content":"Lima."},"finish_reason":"stop"}]}',
}


@pytest.mark.parametrize("said", ODD_STREAMS.values(), ids=ODD_STREAMS)
def test_odd_streams_are_recorded_and_read(said: bytes) -> None:
    reply = ReplyReader(CHAT)
    for at in range(0, len(said), 5):
        reply.feed(said[at : at + 5])
    draft = CompletionDraft()
    reader = EventReader()
    for data in [*reader.feed(said), *reader.finish()]:
        draft.add(json.loads(data))
    assert reply.received().draft.parts == draft.spoken_parts == (TextPart("Lima."),)
    assert "unreadable" not in reply.received().note


def test_parts_of_reasoning_models_are_thinking() -> None:
    draft = CompletionDraft()
    thought = {"type": "thinking", "thinking": [{"type": "text", "text": "Hm."}]}
    draft.add({"choices": [{"delta": {"content": [thought]}}]})
    draft.add({"choices": [{"delta": {"content": "Lima."}}]})
    assert draft.spoken_parts == (ThinkingPart("Hm."), TextPart("Lima."))


def test_unreadable_event_is_skipped_and_exchange_marked_as_broken(
    site: str, owner: User, endpoint: ChatServer, caplog: pytest.LogCaptureFixture
) -> None:
    endpoint.scripts.append(Script((Say("Li"), Raw(b"data: {not json\n\n"), Say("ma."))))
    with start_streaming(site, owner, HELLO) as response:
        response.read()
    assert texts(recorded()) == [HELLO["content"], "Lima."]
    assert interrupted().error == UNREADABLE.format(count=1)


def test_question_without_readable_reply_is_stored_and_retry_continues_it(
    client: openai.OpenAI, site: str, owner: User, endpoint: ChatServer
) -> None:
    endpoint.scripts.append(Script((Raw(b"data: {not json\n\n"),), has_end=False))
    with start_streaming(site, owner, HELLO) as response:
        response.read()
    assert texts(recorded()) == [HELLO["content"]]
    assert interrupted().error == UNREADABLE.format(count=1)
    endpoint.scripts.append(says("Lima."))
    ask(client, HELLO)
    eventually(lambda: Conversation.objects.get().message_count == 2)


def test_other_routes_are_passed_through_or_refused_in_form_of_their_api(
    client: openai.OpenAI, site: str, owner: User, endpoint: ChatServer
) -> None:
    key = create_key(person=owner)
    assert client.models.retrieve("hub/some-model:free").id == "hub/some-model:free"
    assert post(site, "embeddings", {"input": "x"}, key).json()["data"][0]["embedding"] == [1.0]
    assert post(site, "messages/count_tokens", {"messages": []}, key).json() == {"input_tokens": 5}
    unknown = post(site, "audio/speech", {}, key)
    assert unknown.status_code == 404
    assert "POST /v1/chat/completions" in unknown.json()["error"]["message"]
    assert unknown.json()["error"]["type"] == "invalid_request_error"
    batches = post(site, "messages/batches", {}, key).json()
    assert (batches["type"], batches["error"]["type"]) == ("error", "not_found_error")
    up = httpx2.get(f"{site}/v1/models/..%2Fembeddings", headers={"Authorization": f"Bearer {key}"}, trust_env=False)
    assert up.status_code == 404
    wrong = post(site, "messages", {"messages": []}, "cvm_wrong")
    assert (wrong.status_code, wrong.json()["error"]["type"]) == (401, "authentication_error")
    assert not Conversation.objects.exists()
