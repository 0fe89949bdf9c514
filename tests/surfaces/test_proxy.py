"""The capture proxy with the plain openai client: bytes as they are, the exchange remembered, errors passed on."""

import time
from collections.abc import Callable, Iterator
from typing import Any

import httpx2
import openai
import pytest
from django.contrib.auth.models import User
from pytest_django import Settings

from convmemory.accounts.keys import create_key
from convmemory.conversations.models import Conversation
from tests.factories import make_user
from tests.support.chat_server import ChatServer, Cut, Raw, Say, Script, calls, fails, running_chat_server, says
from tests.support.site import running_site

pytestmark = pytest.mark.django_db(transaction=True)

HELLO = {"role": "user", "content": "What is the capital of Peru?"}


@pytest.fixture(scope="module")
def endpoint_process() -> Iterator[ChatServer]:
    with running_chat_server() as server:
        yield server


@pytest.fixture
def endpoint(endpoint_process: ChatServer, settings: Settings) -> ChatServer:
    endpoint_process.scripts.clear()
    endpoint_process.bodies.clear()
    endpoint_process.headers.clear()
    settings.CHAT_BASE_URL = endpoint_process.url
    settings.CHAT_API_KEY = endpoint_process.key
    settings.CHAT_MODEL = "test-model"
    return endpoint_process


@pytest.fixture
def site(endpoint: ChatServer) -> Iterator[str]:
    with running_site() as address:
        yield address


@pytest.fixture
def owner() -> User:
    return make_user()


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


def test_bytes_go_through_as_they_are(site: str, owner: User, endpoint: ChatServer) -> None:
    body = b'{ "model":"m",  "messages": [{"role":"user","content":"h\\u00e9"}], "stream": true, "made_up": [1, 2.50] }'
    odd = b'data: {"choices":[{"delta":{"content":"x"}}],   "extra": "\xc3\xa9"}\n\n: comment\n\n'
    endpoint.scripts.append(Script((Raw(odd),)))
    headers = {
        "Authorization": f"Bearer {create_key(owner=owner)}",
        "Content-Type": "application/json",
        "Cookie": "a=b",
    }
    with httpx2.Client(trust_env=False) as http:
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


def test_nobody_continues_anothers_conversation(client: openai.OpenAI, site: str, endpoint: ChatServer) -> None:
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


def test_a_reply_that_breaks_off_breaks_off_here_too_and_its_beginning_is_recorded(
    client: openai.OpenAI, endpoint: ChatServer
) -> None:
    endpoint.scripts.append(Script((Say("Li"), Cut())))
    with pytest.raises(openai.APIConnectionError):
        stream(client, HELLO)
    assert texts(recorded()) == [HELLO["content"], "Li"]


@pytest.mark.parametrize("body", [b"not json", b"[]", b'{"messages": [{"role": "wizard", "content": "x"}]}'])
def test_what_cannot_be_recorded_is_forwarded_all_the_same(
    site: str, owner: User, endpoint: ChatServer, body: bytes
) -> None:
    endpoint.scripts.append(says("Whatever."))
    headers = {"Authorization": f"Bearer {create_key(owner=owner)}"}
    with httpx2.Client(trust_env=False) as http:
        response = http.post(f"{site}/v1/chat/completions", content=body, headers=headers)
    assert response.status_code in (200, 500)
    assert not Conversation.objects.exists()


def test_models_are_passed_on(client: openai.OpenAI) -> None:
    assert [model.id for model in client.models.list()] == ["test-model"]


def test_a_wrong_key_a_missing_endpoint_and_a_silent_one_are_told_in_openais_shape(
    client: openai.OpenAI, settings: Settings
) -> None:
    with pytest.raises(openai.AuthenticationError, match="API keys"):
        ask(client.with_options(api_key="wrong"), HELLO)
    settings.CHAT_BASE_URL = "http://127.0.0.1:9/v1"
    with pytest.raises(openai.InternalServerError, match="cannot be reached"):
        ask(client, HELLO)
    settings.CHAT_MODEL = ""
    with pytest.raises(openai.InternalServerError, match="CHAT_BASE_URL"):
        ask(client, HELLO)
