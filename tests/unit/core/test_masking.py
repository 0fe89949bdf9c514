"""Secrets of addresses: shown nowhere, whatever text they stand in."""

import logging
from collections.abc import Iterator
from dataclasses import replace

import httpx2
import pytest
from pytest_django import Settings

from convmemory.core import conf
from convmemory.core.endpoints.completions import Endpoint, failure_of
from convmemory.core.errors import EndpointUnavailable, SettingError
from convmemory.core.logs import JsonFormatter, PlainFormatter
from convmemory.core.text import masked
from convmemory.embeddings.models import EmbeddingSpace
from convmemory.embeddings.openai_compatible import OpenAIEmbedder
from convmemory.embeddings.options import OPENAI, EmbeddingOptions
from convmemory.ops.doctor.examining import examine
from convmemory.ops.doctor.findings import Area, Fact, Finding, Severity
from convmemory.ops.reembed.targets import settings_for

URL = "http://ada:hunter2@models.example:8000/v1?api_key=hunter2"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("http://ada:hunter2@h:1/v1", "http://h:1/v1"),
        ("redis://:hunter2@h:6379/0?socket_timeout=5", "redis://h:6379/0?socket_timeout=5"),
        ("postgres://ada:hunt%40er2@h/db", "postgres://h/db"),
        ("postgres://ada:hunt@er2@h/db", "postgres://h/db"),
        ("postgres://ada:hun/ter2?x#y@h/db", "postgres://h/db"),
        ("http://hunter2@h", "http://h"),
        ("http://ada:hunter2@[::1]:80/v1", "http://[::1]:80/v1"),
        ("http://h/v1?api-key=hunter2&b=1", "http://h/v1?api-key=***&b=1"),
        ("http://h/v1?b=1&access_token=hunter2#x", "http://h/v1?b=1&access_token=***#x"),
        ("http://h/v1?PASSWORD=hunter2", "http://h/v1?PASSWORD=***"),
        ("twice http://a:hunter2@h/, 'http://b:hunter2@i/' end", "twice http://h/, 'http://i/' end"),
        ("a://u:hunter2@h,b://u:hunter2@i", "a://h,b://i"),
    ],
)
def test_secrets_are_left_out(text: str, shown: str) -> None:
    assert masked(text) == shown


@pytest.mark.parametrize(
    "text",
    [
        "nothing to hide", "", "ada@example.org", "http://h:8000/v1?page=2", "http://h/@ada", "http://[::1]:80/v1",
        'see {"url":"http://h","mail":"ada@example.org"}', "?keyless and ?b=1", "http://h:80, ada@example.org",
    ],
)  # fmt: skip
def test_text_without_secrets_is_unchanged(text: str) -> None:
    assert masked(text) == text


def test_failing_endpoint_is_named_without_its_address() -> None:
    from openai import APIConnectionError

    endpoint = Endpoint(base_url=URL, model="m", context_window=1_024)
    message = str(failure_of(APIConnectionError(request=httpx2.Request("POST", URL)), endpoint))
    assert "CHAT_BASE_URL" in message
    assert "models.example" not in message
    assert "hunter2" not in message
    assert "hunter2" not in str(EndpointUnavailable(f"quoted: {URL}"))


def test_embedding_endpoint_is_named_without_its_secrets() -> None:
    options = replace(
        EmbeddingOptions.from_settings(), provider=OPENAI, model="text-embedding-3-small", base_url=URL, timeout_s=1.0
    )
    description = OpenAIEmbedder(options)._where()
    assert "text-embedding-3-small" in description
    assert "models.example" not in description
    assert "hunter2" not in description
    told = " ".join(settings_for(EmbeddingSpace(provider=OPENAI, model="m", dimensions=8, location=URL)))
    assert "models.example:8000" in told
    assert "hunter2" not in told


@pytest.mark.parametrize("formatter", [PlainFormatter(), JsonFormatter()])
def test_log_lines_hold_no_secret_of_address(formatter: logging.Formatter) -> None:
    try:
        raise ValueError(f"no answer from {URL}")
    except ValueError as error:
        info = (type(error), error, error.__traceback__)
    line = formatter.format(logging.LogRecord("x", logging.ERROR, __file__, 1, "POST %s", (URL,), info))
    assert "models.example" in line
    assert "hunter2" not in line


def test_settings_in_force_hold_no_secret_of_address(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("THING_URL", URL)
    assert conf.env_address("THING_URL") == URL
    assert conf.IN_FORCE.pop("THING_URL") == "http://models.example:8000/v1?api_key=***"


@pytest.mark.parametrize("url", ["http://ada:hun/ter2@h", "redis://:hun/ter2@h", "no address"])
def test_setting_that_is_no_address_is_not_repeated(monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    monkeypatch.setenv("THING_URL", url)
    with pytest.raises(SettingError, match="THING_URL is not an address") as caught:
        conf.env_address("THING_URL")
    assert "hun" not in str(caught.value).replace("THING", "")


def test_doctor_shows_no_secret_of_address(settings: Settings) -> None:
    def facts() -> Iterator[Fact]:
        yield "endpoint", URL

    def check() -> Iterator[Finding]:
        yield Finding("x.y", Severity.ERROR, f"{URL} is silent.", f"Ask {URL}")

    report = examine([Area("x", facts, (check,))])
    assert "hunter2" not in repr(report)
    assert repr(report).count("models.example") == 3
