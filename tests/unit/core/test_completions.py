"""Whole replies from a chat endpoint over real HTTP, mostly one in trouble."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from convmemory.core.endpoints.completions import (
    Completion,
    Endpoint,
    complete,
    endpoint_from_settings,
    make_async_client,
    make_client,
    reply_limit,
)
from convmemory.core.errors import (
    EndpointBusy,
    EndpointError,
    EndpointMisconfigured,
    EndpointRefused,
    EndpointUnavailable,
)
from tests.support.openai_server import FakeEndpoint, Fault, running_endpoint

MESSAGES = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "hello"}]


@pytest.fixture
def server() -> Iterator[FakeEndpoint]:
    with running_endpoint() as endpoint:
        yield endpoint


def endpoint_at(server: FakeEndpoint, **changes: Any) -> Endpoint:
    values = {"api_key": server.key, "max_retries": 0, "timeout_s": 60.0, **changes}
    return Endpoint(base_url=server.url, model="some-model", context_window=4_096, **values)


def ask(endpoint: Endpoint) -> Completion:
    with make_client(endpoint) as client:
        return complete(client, endpoint, messages=MESSAGES, max_tokens=100)


def failure(endpoint: Endpoint) -> EndpointError:
    with pytest.raises(EndpointError) as caught:
        ask(endpoint)
    return caught.value


def test_completion_returns_text_model_reason_and_tokens(server: FakeEndpoint) -> None:
    reply = ask(endpoint_at(server))
    assert reply == Completion("You said: hello", "some-model", "stop", prompt_tokens=7, completion_tokens=5)
    assert server.requests == [{"model": "some-model", "messages": MESSAGES, "max_tokens": 100}]


def test_characters_that_no_database_takes_are_left_out(server: FakeEndpoint) -> None:
    endpoint = endpoint_at(server)
    with make_client(endpoint) as client:
        messages = [{"role": "user", "content": "a\x00b"}]
        assert complete(client, endpoint, messages=messages, max_tokens=100).text == "You said: ab"


async def _ask_later(endpoint: Endpoint) -> Any:
    async with make_async_client(endpoint) as client:
        return await client.chat.completions.create(model=endpoint.model, messages=[{"role": "user", "content": "hi"}])


def test_asynchronous_client_reaches_same_server(server: FakeEndpoint) -> None:
    import asyncio

    response = asyncio.run(_ask_later(endpoint_at(server)))
    assert response.choices[0].message.content == "You said: hi"


def test_without_key_none_is_taken_from_environment(server: FakeEndpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "the-key-of-another-service")
    assert "set CHAT_API_KEY" in str(failure(endpoint_at(server, api_key="")))
    assert "secret" not in repr(endpoint_at(server))


@pytest.mark.parametrize(
    ("fault", "kind", "advice"),
    [
        (Fault(401, {"error": {"message": "bad key"}}), EndpointMisconfigured, "set CHAT_API_KEY"),
        (Fault(404, {"error": {"message": "no model"}}), EndpointMisconfigured, "check CHAT_MODEL"),
        (Fault(400, {"error": {"message": "context length exceeded"}}), EndpointRefused, "context length exceeded"),
        (Fault(500, {"error": {"message": "out of memory"}}), EndpointUnavailable, "out of memory"),
        (Fault(429, {"error": {"message": "slow down"}}), EndpointBusy, "too many requests"),
        (Fault(200, b"<html>hello</html>"), EndpointUnavailable, "usually ends in /v1"),
        (Fault(200, {"choices": []}), EndpointUnavailable, "usually ends in /v1"),
        (Fault(200, {"choices": [{"message": {"content": 7}}]}), EndpointUnavailable, "usually ends in /v1"),
        (Fault(200, {"choices": [{"message": {"content": ""}}]}), EndpointUnavailable, "empty reply"),
    ],
)
def test_every_failure_says_what_to_do(
    server: FakeEndpoint, fault: Fault, kind: type[EndpointError], advice: str
) -> None:
    server.faults.append(fault)
    error = failure(endpoint_at(server))
    assert type(error) is kind
    assert advice in str(error)
    assert server.url not in str(error), "people do not learn addresses of the server's network"


def test_invalid_json_reply_raises_endpoint_unavailable(server: FakeEndpoint) -> None:
    server.faults.append(Fault(200, b"{not json", {"Content-Type": "application/json"}))
    assert isinstance(failure(endpoint_at(server)), EndpointUnavailable)


def test_retry_after_travels_with_error(server: FakeEndpoint) -> None:
    body = {"error": {"message": "slow down"}}
    for header, seconds in (("7", 7.0), ("soon", None)):
        server.faults.append(Fault(429, body, {"Retry-After": header}))
        error = failure(endpoint_at(server))
        assert isinstance(error, EndpointBusy)
        assert error.retry_after_s == seconds


def test_rate_limited_request_is_retried_up_to_max_retries(server: FakeEndpoint) -> None:
    fault = Fault(429, {"error": {"message": "slow down"}}, {"Retry-After": "0.01"})
    server.faults.extend([fault, fault])
    assert ask(endpoint_at(server, max_retries=2)).text == "You said: hello"
    server.faults.extend([fault] * 9)
    assert isinstance(failure(endpoint_at(server, max_retries=2)), EndpointBusy)
    assert len(server.requests) == 6


def test_stalled_or_missing_server_error_names_setting(server: FakeEndpoint) -> None:
    server.faults.append(Fault(delay_s=60.0))
    assert "raise CHAT_TIMEOUT_S" in str(failure(endpoint_at(server, timeout_s=0.1)))
    gone = replace(endpoint_at(server), base_url="http://127.0.0.1:9/v1")
    assert "cannot be reached: check CHAT_BASE_URL" in str(failure(gone))


def test_reply_limit_parameter_depends_on_server(server: FakeEndpoint) -> None:
    plain = endpoint_at(server)
    assert reply_limit(plain, 5) == {"max_tokens": 5}
    assert reply_limit(replace(plain, base_url="https://api.openai.com/v1"), 5) == {"max_completion_tokens": 5}


def test_endpoint_is_set_up_by_model_and_address_or_key(settings: Any) -> None:
    settings.CHAT_BASE_URL, settings.CHAT_API_KEY, settings.CHAT_MODEL = "", "", "gpt-4.1-mini"
    assert endpoint_from_settings() is None
    settings.CHAT_API_KEY = "k"
    endpoint = endpoint_from_settings()
    assert endpoint is not None
    assert (endpoint.base_url, endpoint.encoding) == ("https://api.openai.com/v1", "o200k_base")
    settings.CHAT_BASE_URL, settings.CHAT_API_KEY = "http://localhost:11434/v1", ""
    assert endpoint_from_settings() is not None
    settings.CHAT_MODEL = ""
    assert endpoint_from_settings() is None
