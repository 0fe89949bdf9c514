"""Requests that count as streams, so that a caller's other requests do not wait for them, or that are not counted."""

from typing import Any

import pytest

from convmemory.core.web.middleware import StaticFilesMiddleware
from convmemory.http_limits.concurrency import is_answered_from_memory, waits_for_others


def scope_of(method: str, path: str, *headers: tuple[bytes, bytes]) -> dict[str, Any]:
    return {"type": "http", "method": method, "path": path, "headers": list(headers)}


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/v1/chat/completions"),
        ("GET", "/api/v1/conversations/7/stream"),
        ("POST", "/chat/send"),
        ("POST", "/conversations/7/send"),
        ("POST", "/api/v1/imports"),
    ],
)
def test_request_that_waits_for_model_or_worker_is_stream(method: str, path: str) -> None:
    assert waits_for_others(scope_of(method, path))


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/"),
        ("GET", "/api/v1/conversations/search"),
        ("GET", "/api/v1/imports"),
        ("GET", "/api/v1/imports/7"),
        ("POST", "/import"),
        ("GET", "/no/such/page/stream"),
    ],
)
def test_request_that_this_process_answers_itself_is_no_stream(method: str, path: str) -> None:
    assert not waits_for_others(scope_of(method, path))


@pytest.mark.parametrize(
    ("method", "path", "headers", "is_free"),
    [
        ("GET", "/health", (), True),
        ("HEAD", "/static/app.css", (), True),
        ("GET", "/static/no-such-file", (), False),
        ("GET", "/healthy", (), False),
        ("POST", "/static/app.css", (), False),
        ("POST", "/health", (), False),
        ("GET", "/health", ((b"content-length", b"9"),), False),
        ("GET", "/static/app.css", ((b"transfer-encoding", b"chunked"),), False),
    ],
)
def test_only_bodiless_reads_of_known_addresses_are_not_counted(
    monkeypatch: pytest.MonkeyPatch,
    method: str,
    path: str,
    headers: tuple[tuple[bytes, bytes], ...],
    is_free: bool,
) -> None:
    monkeypatch.setattr(StaticFilesMiddleware, "paths", frozenset({"/static/app.css"}))
    assert is_answered_from_memory(scope_of(method, path, *headers)) is is_free
