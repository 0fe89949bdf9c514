"""Limits on concurrent requests over raw connections: in all, per caller, and while bodies arrive."""

import asyncio
import functools
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack, contextmanager

import httpx2
import pytest
from django.contrib.auth.models import User
from pytest_django import Settings

from convmemory.accounts.keys import create_key
from convmemory.core.web import callers
from convmemory.core.web.asgi_types import Message, Receive, Scope, Send
from convmemory.http_limits.concurrency import RETRY_AFTER_S, SMALLEST_SHARE, ConcurrencyLimit
from tests.factories import make_user
from tests.support import asgi_server
from tests.support.raw_http import connect, head, talk

pytestmark = pytest.mark.django_db(transaction=True)

ATTACKING_CONNECTIONS = 1_010


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with asgi_server.serve() as address:
        yield address


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
    key = create_key(owner=ada)
    with requests_without_body(address, ATTACKING_CONNECTIONS, request_head):
        assert get_as(key, address).status_code == 200


@pytest.mark.parametrize("path", ["/login", "/settings/password"])
def test_withheld_password_forms_leave_places_to_check_passwords(address: str, ada: User, path: str) -> None:
    form = {"username": "ada", "password": "not it"}
    with requests_without_body(address, 40, head(path, "Content-Length: 1000")):
        answer = httpx2.post(f"{address}/login", data=form, trust_env=False, timeout=20)
    assert answer.status_code == 403, "the form is read, and has no CSRF token"


class Site:
    """An application behind the limits that reads a request's body and then answers it when the test ends."""

    def __init__(self) -> None:
        self.reading = 0
        self.running: list[str] = []
        self.disconnected = 0
        self.end = asyncio.Event()
        self.limited = ConcurrencyLimit(self._answer, knows_sender=self._knows_sender)

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.reading += 1
        while (message := await receive()).get("more_body", False):
            pass
        if message["type"] == "http.disconnect":
            self.disconnected += 1
            return
        self.running.append(scope["client"][0])
        await self.end.wait()
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    async def _knows_sender(self, scope: Scope) -> bool:
        return False

    async def request(self, address: str, *, key: str = "", path: str = "/", has_body: bool = False) -> "Asked":
        headers = [(b"authorization", f"Bearer {key}".encode())] if key else []
        headers += [(b"content-length", b"4")] if has_body else []
        asked = Asked({"type": "http", "method": "POST", "path": path, "headers": headers, "client": (address, 1)})
        asked.arrive(b"ab" if has_body else b"", more_body=has_body)
        asked.task = asyncio.ensure_future(self.limited(asked.scope, asked.incoming.get, asked.send))
        await settle()
        return asked


class Asked:
    """A request and the status of its answer."""

    def __init__(self, scope: Scope) -> None:
        self.scope = scope
        self.status: int | None = None
        self.incoming: asyncio.Queue[Message] = asyncio.Queue()
        self.task: asyncio.Future[None] | None = None

    def arrive(self, body: bytes, *, more_body: bool) -> None:
        self.incoming.put_nowait({"type": "http.request", "body": body, "more_body": more_body})

    async def send(self, message: Message) -> None:
        self.status = message.get("status", self.status)


async def settle() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


def on_site(scenario: Callable[[Site], Awaitable[None]]) -> Callable[[Settings], None]:
    """Run a scenario on a site with 40 places."""

    @functools.wraps(scenario, assigned=("__module__", "__name__", "__doc__"), updated=())
    def run(settings: Settings) -> None:
        async def whole() -> None:
            site = Site()
            try:
                await asyncio.wait_for(scenario(site), 30)
            finally:
                site.end.set()
                await settle()

        settings.MAX_CONCURRENT_REQUESTS = 40
        asyncio.run(whole())

    del run.__wrapped__  # pytest would read its arguments
    return run


@on_site
async def test_one_address_takes_at_most_its_share_of_places(site: Site) -> None:
    asked = [await site.request("192.0.2.1") for _ in range(12)]
    other = await site.request("192.0.2.2")
    assert [one.status for one in asked] == [None] * 10 + [429] * 2
    assert other.status is None
    assert len(site.running) == 11


@on_site
async def test_unknown_callers_leave_last_places_to_known_users(site: Site) -> None:
    callers.known.note("cvm_known", 7)
    asked = [await site.request(f"192.0.2.{number}") for number in range(32)]
    known = [await site.request("198.51.100.1", key="cvm_known") for _ in range(10)]
    assert [one.status for one in asked] == [None] * 30 + [503] * 2
    assert {one.status for one in known} == {None}
    assert len(site.running) == 40


@on_site
async def test_requests_with_unfinished_bodies_take_no_places(site: Site) -> None:
    unfinished = [await site.request(f"192.0.2.{number}", has_body=True) for number in range(17)]
    assert [one.status for one in unfinished] == [None] * 15 + [503] * 2, "half as many as there are places"
    whole = [await site.request(f"198.51.100.{number}") for number in range(30)]
    assert {one.status for one in whole} == {None}
    unfinished[0].arrive(b"cd", more_body=False)
    await settle()
    assert unfinished[0].status == 503
    assert (site.disconnected, len(site.running)) == (1, 30)


@on_site
async def test_one_address_has_at_most_its_share_of_unfinished_bodies(site: Site) -> None:
    unfinished = [await site.request("192.0.2.1", has_body=True) for _ in range(SMALLEST_SHARE + 2)]
    assert [one.status for one in unfinished] == [None] * SMALLEST_SHARE + [429] * 2
    for one in unfinished[:3]:
        one.arrive(b"cd", more_body=False)
    await settle()
    assert len(site.running) == 3
    another = await site.request("192.0.2.1", has_body=True)
    assert another.status is None, "a body that has arrived makes room for the next"


@on_site
async def test_users_behind_one_address_have_share_each(site: Site) -> None:
    for user_id in (7, 8):
        callers.known.note(f"cvm_known_{user_id}", user_id)
    asked = [await site.request("192.0.2.1", key=f"cvm_known_{7 + number % 2}") for number in range(20)]
    assert {one.status for one in asked} == {None}


@on_site
async def test_places_are_free_again_when_requests_end(site: Site) -> None:
    for _ in range(10):
        await site.request("192.0.2.1")
    site.end.set()
    await settle()
    assert [(await site.request("192.0.2.1")).status for _ in range(12)] == [200] * 12


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
