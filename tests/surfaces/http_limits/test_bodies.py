"""Request bodies over real HTTP: size limits by caller, and that an oversized body is never stored."""

import json
import tempfile
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import OperationalError
from pytest_django import Settings

from convmemory.accounts.keys import create_key
from convmemory.accounts.scim.tokens import create_token
from convmemory.http_limits import bodies, senders
from tests.factories import make_user
from tests.support.api import signed_in
from tests.support.raw_http import RawAnswer, chunked, connect, head, talk

pytestmark = pytest.mark.django_db(transaction=True)

KB, MB = 1024, 1024 * 1024
PROGRAM_PATHS = (
    "/api/v1/conversations",
    "/api/v1/imports",
    "/api/v1/tools/ConversationSearch",
    "/v1/chat/completions",
)
PAGE_PATHS = ("/login", "/import", "/admin/login/", "/no/such/page", "/chat/send", "/logout")


@pytest.fixture(autouse=True)
def short_linger(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bodies, "LINGER_S", 0.1)


@pytest.fixture
def user() -> User:
    return make_user("ada")


@pytest.fixture
def key_header(user: User) -> str:
    return f"Authorization: Bearer {create_key(person=user)}"


@pytest.fixture
def cookie_header(user: User) -> str:
    browser = signed_in(user)
    return f"Cookie: convmemory_session={browser.cookies['convmemory_session'].value}"


@pytest.fixture
def stored(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The sizes of the pieces that Django stored, in memory or on disk, of all bodies."""
    sizes: list[int] = []

    class Watched(tempfile.SpooledTemporaryFile[bytes]):
        def write(self, data: Any) -> int:
            sizes.append(len(data))
            return super().write(data)

    monkeypatch.setattr(tempfile, "SpooledTemporaryFile", Watched)
    return sizes


def post_declared(address: str, path: str, size: int, *headers: str) -> RawAnswer:
    """A request that declares so many bytes, and sends them as long as it has no answer."""
    pieces = (bytes(64 * KB) for _ in range(size // (64 * KB)))
    return talk(address, head(path, f"Content-Length: {size}", *headers), pieces)


def post_chunked(address: str, path: str, size: int, *headers: str) -> RawAnswer:
    return talk(address, head(path, "Transfer-Encoding: chunked", *headers), chunked(64 * KB, size // (64 * KB)))


POSTS = pytest.mark.parametrize("post", [post_declared, post_chunked])


@POSTS
@pytest.mark.parametrize("path", PROGRAM_PATHS)
def test_anonymous_api_body_over_limit_gets_413(address: str, stored: list[int], post: Any, path: str) -> None:
    answer = post(address, path, 20 * MB)
    assert answer.status == 413
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.headers["connection"] == "close"
    assert answer.headers["cache-control"] == "no-store"
    detail = json.loads(answer.body)["detail"]
    assert "1024 kB" in detail
    assert "MAX_ANONYMOUS_REQUEST_KB" in detail
    assert "Authorization: Bearer KEY" in detail
    assert sum(stored) <= MB
    assert answer.sent < 12 * MB, "the connection is closed rather than read to the end"


@POSTS
@pytest.mark.parametrize("path", PAGE_PATHS)
def test_anonymous_page_body_over_limit_gets_413(address: str, stored: list[int], post: Any, path: str) -> None:
    answer = post(address, path, 20 * MB)
    assert answer.status == 413
    assert "text/html" in answer.headers["content-type"]
    assert "MAX_ANONYMOUS_REQUEST_KB" in answer.body
    assert "Sign in" in answer.body
    assert sum(stored) <= MB


def test_mcp_reads_no_body_of_strangers(address: str) -> None:
    declared, streamed = (post(address, "/mcp", 20 * MB) for post in (post_declared, post_chunked))
    assert (declared.status, streamed.status) == (
        413,
        401,
    )  # without a length there is nothing to object to but the key
    for answer in (declared, streamed):
        assert answer.headers["connection"] == "close"
        assert answer.sent < 12 * MB


def test_proxy_reports_limit_in_openai_error_shape(address: str) -> None:
    answer = post_chunked(address, "/v1/chat/completions", 2 * MB)
    assert "MAX_ANONYMOUS_REQUEST_KB" in json.loads(answer.body)["error"]["message"]


def test_declared_length_over_limit_is_refused_unread(address: str, stored: list[int]) -> None:
    answer = talk(address, head("/login", f"Content-Length: {600 * MB}"))
    assert answer.status == 413
    assert stored == []


def test_oversized_expect_100_continue_request_gets_413(address: str) -> None:
    answer = talk(address, head("/login", f"Content-Length: {2 * MB}", "Expect: 100-continue"))
    assert answer.status == 413


@pytest.mark.parametrize(
    "lie", ["Content-Length: 9999999999999999999999", "Content-Length: -1", "Content-Length: x", "Content-Length: 5, 6"]
)
def test_invalid_content_length_is_refused_unread(address: str, stored: list[int], lie: str) -> None:
    answer = talk(address, head("/login", lie), [b"x" * KB])
    assert answer.status in (400, 413)
    assert stored == []


def test_length_and_chunks_together_are_refused(address: str, stored: list[int]) -> None:
    first = head("/login", "Content-Length: 5", "Transfer-Encoding: chunked")
    assert talk(address, first, chunked(64 * KB, 320)).status in (400, 413)
    assert sum(stored) <= MB


@POSTS
@pytest.mark.parametrize("path", ["/api/v1/conversations", "/v1/chat/completions", "/api/v1/tools/x"])
def test_key_sends_up_to_limit_of_requests(
    address: str, settings: Settings, stored: list[int], key_header: str, post: Any, path: str
) -> None:
    settings.MAX_REQUEST_MB = 3
    answer = post(address, path, 20 * MB, key_header)
    assert answer.status == 413
    detail = json.loads(answer.body)["detail"]
    assert "3 MB (MAX_REQUEST_MB)" in detail
    assert "POST /api/v1/imports" in detail
    assert sum(stored) <= 3 * MB
    assert post(address, path, 2 * MB, key_header, "Connection: close").status != 413


@POSTS
def test_read_only_key_gets_limit_of_users(address: str, settings: Settings, user: User, post: Any) -> None:
    settings.MAX_REQUEST_MB = 3
    header = f"Authorization: Bearer {create_key(person=user, read_only=True)}"
    assert "3 MB (MAX_REQUEST_MB)" in post(address, "/api/v1/memory/recall", 20 * MB, header).body
    answer = post(address, "/api/v1/conversations", 2 * MB, header, "Connection: close")
    assert (answer.status, "only reads" in answer.body) == (403, True)


def test_scim_token_has_limit_of_users_for_scim_alone(address: str, key_header: str) -> None:
    header = f"Authorization: Bearer {create_token(name='entra')}"
    assert post_declared(address, "/scim/v2/Groups", 2 * MB, header, "Connection: close").status == 400
    for path, given in (("/api/v1/conversations", header), ("/scim/v2/Groups", key_header)):
        assert "MAX_ANONYMOUS_REQUEST_KB" in post_declared(address, path, 2 * MB, given).body


@POSTS
def test_session_sends_up_to_limit_of_requests(
    address: str, settings: Settings, stored: list[int], cookie_header: str, post: Any
) -> None:
    settings.MAX_REQUEST_MB = 3
    answer = post(address, "/chat/send", 20 * MB, cookie_header)
    assert answer.status == 413
    assert "3 MB (MAX_REQUEST_MB)" in answer.body
    assert sum(stored) <= 3 * MB
    assert post(address, "/chat/send", 2 * MB, cookie_header, "Connection: close").status == 403  # no CSRF token


@pytest.mark.parametrize(
    "header",
    ["Authorization: Bearer cvm_wrong", "Cookie: convmemory_session=wrong", "Authorization: Bearer", "Cookie: =;;\xff"],
)
def test_wrong_credentials_get_anonymous_limit(address: str, stored: list[int], header: str) -> None:
    answer = post_chunked(address, "/api/v1/imports", 20 * MB, header)
    assert answer.status == 413
    assert "MAX_ANONYMOUS_REQUEST_KB" in answer.body
    assert sum(stored) <= MB


def test_wrong_key_with_session_gets_anonymous_limit(address: str, cookie_header: str) -> None:
    answer = post_chunked(address, "/api/v1/imports", 2 * MB, cookie_header, "Authorization: Bearer cvm_wrong")
    assert "MAX_ANONYMOUS_REQUEST_KB" in answer.body


@POSTS
def test_uploads_are_limited_by_max_upload_mb(
    address: str, settings: Settings, key_header: str, cookie_header: str, post: Any
) -> None:
    settings.MAX_REQUEST_MB, settings.MAX_UPLOAD_MB = 1, 4
    for path, header in (("/api/v1/imports", key_header), ("/import", cookie_header)):
        assert post(address, path, 4 * MB, header, "Connection: close").status in (403, 422)
        answer = post(address, path, 20 * MB, header)
        assert answer.status == 413
        assert "4 MB (MAX_UPLOAD_MB)" in answer.body
        assert "import_conversations" in answer.body


def test_only_post_to_import_route_is_upload(address: str, settings: Settings, key_header: str) -> None:
    settings.MAX_REQUEST_MB, settings.MAX_UPLOAD_MB = 1, 8
    for method, path in (("PUT", "/api/v1/imports"), ("POST", "/api/v1/imports/x"), ("GET", "/import")):
        answer = talk(address, head(path, f"Content-Length: {3 * MB}", key_header, method=method))
        assert answer.status == 413
        assert "1 MB (MAX_REQUEST_MB)" in answer.body


def test_key_is_not_looked_up_for_small_bodies(address: str, key_header: str, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[object] = []
    monkeypatch.setattr(senders, "caller_of_key", lambda key, *, writes: asked.append(key))
    answer = post_chunked(address, "/api/v1/conversations", 512 * KB, key_header, "Connection: close")
    assert answer.status != 413
    assert asked == []
    post_chunked(address, "/api/v1/conversations", 2 * MB, key_header)
    assert len(asked) == 1


def test_unreachable_database_during_body_gets_503(
    address: str, key_header: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(key: str, *, writes: bool) -> None:
        raise OperationalError("connection refused")

    monkeypatch.setattr(senders, "caller_of_key", fail)
    answer = talk(address, head("/api/v1/conversations", f"Content-Length: {2 * MB}", key_header))
    assert answer.status == 503
    assert "The database does not answer" in answer.body
    assert answer.headers["retry-after"] == "5"


@pytest.mark.usefixtures("heads_may_begin_late")
@pytest.mark.parametrize("path", ["/api/v1/conversations", "/v1/chat/completions", "/login"])
def test_stalled_body_gets_408(address: str, settings: Settings, path: str) -> None:
    settings.REQUEST_IDLE_S = 0.2
    answer = talk(address, head(path, "Content-Length: 1000"), [b"x"])
    assert answer.status == 408
    assert "REQUEST_IDLE_S" in answer.body
    assert answer.headers["connection"] == "close"


@pytest.mark.usefixtures("heads_may_begin_late")
def test_mcp_gives_body_that_stops_up(address: str, settings: Settings, key_header: str) -> None:
    settings.REQUEST_IDLE_S = 0.2
    json_headers = ("Content-Type: application/json", "Accept: application/json, text/event-stream")
    answer = talk(address, head("/mcp", "Content-Length: 1000", key_header, *json_headers), [b"{"])
    assert answer.status == 408


@pytest.mark.usefixtures("heads_may_begin_late")
def test_body_byte_at_time_is_given_up(address: str, settings: Settings) -> None:
    settings.REQUEST_IDLE_S, settings.REQUEST_MIN_BYTES_PER_S = 0.5, 1_000_000
    answer = talk(address, head("/login", "Content-Length: 1000"), (b"x" for _ in range(1000)), pause_s=0.05)
    assert answer.status == 408
    assert answer.sent < 1000
    assert "REQUEST_MIN_BYTES_PER_S" in answer.body


@pytest.fixture
def long_linger(short_linger: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bodies, "LINGER_S", 20.0)


def answer_after_whole_body(address: str, path: str, size: int, *headers: str) -> bytes:
    """Send all of a body before anything is read, as many clients do."""
    with connect(address) as connection:
        connection.sendall(head(path, f"Content-Length: {size}", "Content-Type: application/json", *headers))
        connection.sendall(bytes(size))
        return connection.recv(65536)


@pytest.mark.parametrize("size_mb", [2, 5, 7.5])
def test_large_mcp_request_of_user_is_answered_413(
    address: str, key_header: str, long_linger: None, size_mb: float
) -> None:
    answer = answer_after_whole_body(address, "/mcp", int(size_mb * MB), key_header)
    assert answer.startswith(b"HTTP/1.1 413 ")
    assert b"of one MCP request" in answer


def test_answer_before_end_of_body_reaches_client_that_sends_all_first(
    address: str, settings: Settings, long_linger: None
) -> None:
    settings.MAX_ANONYMOUS_REQUEST_KB = 8 * KB
    answer = answer_after_whole_body(address, "/mcp", 7 * MB, "Authorization: Bearer wrong")
    assert answer.startswith(b"HTTP/1.1 401 ")
