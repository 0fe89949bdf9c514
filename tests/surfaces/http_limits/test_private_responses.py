"""`no-store` and `nosniff` stand on every answer to a program: of all routes, right or wrong, with a key or without."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import httpx2
import pytest
from pytest_django import Settings

from convmemory.accounts.keys import create_key
from convmemory.api import api
from convmemory.core.web.asgi_types import Receive, Scope, Send
from convmemory.http_limits.refusals import PrivateResponses
from convmemory.tools.registry import tool_definitions
from tests.factories import exchange, make_conversation, make_user
from tests.support import asgi_server
from tests.support.asgi_thread import running_application
from tests.support.patience import ANSWER_S

pytestmark = pytest.mark.django_db(transaction=True)

FULL_DEVICE = Path("/dev/full")
OTHERS = [
    ("GET", "/api/v1/docs"), ("GET", "/api/v1/openapi.json"), ("GET", "/api/v1/no/such/route"), ("GET", "/api/%00"),
    ("GET", "/api/v1/conversations?agent=%00"), ("POST", "/mcp"), ("GET", "/mcp"), ("DELETE", "/mcp/"),
    ("GET", "/v1/models"), ("POST", "/v1/models"), ("POST", "/v1/chat/completions"), ("GET", "/v1/chat/completions"),
    ("GET", "/v1/embeddings"), ("GET", "/health"), ("GET", "/ready"), ("GET", "/metrics"),
]  # fmt: skip


@pytest.fixture
def http() -> Iterator[httpx2.Client]:
    with asgi_server.serve() as address, httpx2.Client(base_url=address, timeout=ANSWER_S, trust_env=False) as http:
        yield http


@pytest.fixture
def full_file() -> Iterator[IO[bytes]]:
    """Yield a file that takes not one byte: each write fails as on a full disk."""
    if not FULL_DEVICE.exists():
        pytest.skip("the system has no device that is always full")
    with FULL_DEVICE.open("wb", buffering=0) as file:
        yield file


def routes(conversation_id: int) -> list[tuple[str, str]]:
    found = [
        (method.upper(), re.sub(r"\{[^}]*\}", str(conversation_id), path))
        for path, methods in api.get_openapi_schema()["paths"].items()
        for method in methods
    ]
    tools = [("POST", f"/api/v1/tools/{tool.name}") for tool in tool_definitions()]
    return sorted(found + tools + OTHERS, key=lambda route: route[0] == "DELETE")


def assert_private(answer: Any) -> None:
    where = (answer.request.method, answer.request.url, answer.status_code)
    assert answer.headers.get_list("cache-control") == ["no-store"], where
    assert answer.headers.get_list("x-content-type-options") == ["nosniff"], where


def test_every_api_answer_has_private_headers(http: httpx2.Client) -> None:
    owner = make_user()
    conversation = make_conversation(owner, exchange(("bread?", "Yes.")))
    statuses = set()
    for headers in ({"Authorization": f"Bearer {create_key(person=owner)}"}, {}):
        for method, path in routes(conversation.pk):
            body = {"query": "bread and butter"} if method in ("POST", "PATCH", "PUT") else None
            answer = http.request(method, path, headers=headers, json=body)
            assert_private(answer)
            statuses.add(answer.status_code)
    assert {200, 400, 401, 404, 405, 422} <= statuses


def test_failed_answer_has_private_headers() -> None:
    async def broken(scope: Scope, receive: Receive, send: Send) -> None:
        raise RuntimeError("a bug")

    with running_application(PrivateResponses(broken)) as address:
        answer = httpx2.get(f"{address}/mcp", timeout=ANSWER_S, trust_env=False)
    assert answer.status_code == 500
    assert answer.headers["content-type"] == "application/problem+json"
    assert_private(answer)


def test_full_disk_while_django_stores_body_is_507_on_every_surface(
    http: httpx2.Client, monkeypatch: pytest.MonkeyPatch, full_file: IO[bytes]
) -> None:
    monkeypatch.setattr("django.core.handlers.asgi.tempfile.SpooledTemporaryFile", lambda **_: full_file)
    answers = [http.post(path, json={"messages": []}) for path in ("/api/v1/conversations", "/login")]
    for answer in answers:
        assert answer.status_code == 507
        assert "disk is full" in answer.text
    assert_private(answers[0])


def test_full_disk_while_form_is_read_is_507(
    http: httpx2.Client, monkeypatch: pytest.MonkeyPatch, settings: Settings, full_file: IO[bytes]
) -> None:
    settings.FILE_UPLOAD_MAX_MEMORY_SIZE = 10
    monkeypatch.setattr("convmemory.core.files.uploads.TemporaryFile", lambda: full_file)
    headers = {"Authorization": f"Bearer {create_key(person=make_user())}"}
    http.get("/login")  # sets the cookie without which forms are not read
    for path in ("/login", "/api/v1/documents"):
        answer = http.post(path, headers=headers, files={"file": ("note.txt", b"bread and butter")})
        assert answer.status_code == 507, (path, answer.text)
        assert "disk is full" in answer.text


def test_static_files_may_be_cached(http: httpx2.Client) -> None:
    assert "no-store" not in http.get("/static/css/tokens.css").headers.get("cache-control", "")
