"""Limits on concurrent requests over raw connections: in all, per caller, and while bodies arrive."""

import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import httpx2
import pytest
from django.contrib.auth.models import User
from pytest_django import Settings

from convmemory.accounts.keys import create_key
from convmemory.http_limits.concurrency import RETRY_AFTER_S
from tests.factories import make_user
from tests.support.raw_http import connect, head, talk

pytestmark = pytest.mark.django_db(transaction=True)

ATTACKING_CONNECTIONS = 1_010


@pytest.fixture
def ada(db: None) -> User:
    return make_user("ada")


@contextmanager
def requests_without_body(address: str, count: int, request: bytes) -> Iterator[None]:
    """Hold connections on which a head announces a body that never comes."""
    with ExitStack() as stack:
        for _ in range(count):
            stack.enter_context(connect(address)).sendall(request)
        yield


def get_as(key: str, address: str) -> httpx2.Response:
    headers = {"Authorization": f"Bearer {key}"}
    return httpx2.get(f"{address}/api/v1/conversations", headers=headers, trust_env=False, timeout=20)


@pytest.mark.parametrize(
    "request_head",
    [
        pytest.param(head("/static/x", "Content-Length: 1000"), id="static-post"),
        pytest.param(head("/health", "Content-Length: 1000"), id="health-post"),
        pytest.param(head("/health", "Content-Length: 1000", method="GET"), id="health-get-with-body"),
        pytest.param(head("/login", "Content-Length: 1000"), id="login"),
        pytest.param(head("/api/v1/conversations", "Transfer-Encoding: chunked"), id="chunked"),
    ],
)
def test_user_with_new_key_is_served_while_their_address_withholds_bodies(
    address: str, ada: User, request_head: bytes
) -> None:
    key = create_key(person=ada)
    with requests_without_body(address, ATTACKING_CONNECTIONS, request_head):
        assert get_as(key, address).status_code == 200


@pytest.mark.parametrize("path", ["/login", "/settings/password"])
def test_withheld_password_forms_leave_places_to_check_passwords(address: str, ada: User, path: str) -> None:
    form = {"username": "ada", "password": "not it"}
    with requests_without_body(address, 40, head(path, "Content-Length: 1000")):
        answer = httpx2.post(f"{address}/login", data=form, trust_env=False, timeout=20)
    assert answer.status_code == 403, "the form is read, and has no CSRF token"


def test_requests_over_limit_are_refused_and_health_checks_are_not(address: str, settings: Settings) -> None:
    settings.MAX_CONCURRENT_REQUESTS = 8
    upload = head("/chat/send", "Content-Length: 9")
    deadline = time.monotonic() + 20
    with requests_without_body(address, 8, upload):
        while (answer := talk(address, upload)).status not in (429, 503):
            assert time.monotonic() < deadline
        assert answer.status == 503
        assert answer.headers["retry-after"] == str(RETRY_AFTER_S)
        assert "MAX_CONCURRENT_REQUESTS" in answer.body
        assert talk(address, head("/health", "Connection: close", method="GET")).status == 200
    while talk(address, head("/chat/send", "Content-Length: 9", "Connection: close"), [bytes(9)]).status != 403:
        assert time.monotonic() < deadline
