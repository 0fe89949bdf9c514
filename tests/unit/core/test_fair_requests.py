"""One caller's requests wait for each other, never for another's."""

import asyncio
import json
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

import pytest

from convmemory.core.web import fair_requests
from convmemory.core.web.callers import KnownCallers, caller_of_request
from convmemory.core.web.fair_requests import FairRequests, RequestLimits

Message = MutableMapping[str, Any]

WHOLE: Message = {"type": "http.request", "body": b"", "more_body": False}


class Site:
    """An application whose requests are answered when the test says so, behind the limits."""

    def __init__(self, *, at_once: int = 2, beside: int = 0, streams: int = 1, waiting: int = 3, wait_s: float = 60.0):
        self.now = 0.0
        self.running: list[str] = []
        self.disconnected: list[str] = []
        self.go_on: dict[str, asyncio.Event] = {}
        self.wrapped = FairRequests(
            self._answer,
            limits=RequestLimits(at_once, beside or at_once, streams, waiting, wait_s, others_s=60.0),
            name_caller=lambda scope: str(scope["caller"]),
            is_stream=lambda scope: scope["path"].startswith("/stream"),
            is_free=lambda scope: scope["path"].startswith("/static/"),
            is_user=lambda name: name != "anonymous",
            clock=lambda: self.now,
        )

    async def _answer(self, scope: Any, receive: Any, send: Any) -> None:
        name = scope["path"]
        if name == "/listening":
            await send({"type": "http.response.start", "status": 200, "headers": []})
        if (await receive())["type"] == "http.disconnect":
            self.disconnected.append(name)
            return
        self.running.append(name)
        is_streamed = name.startswith("/export")
        headers = [] if is_streamed else [(b"content-length", b"2")]
        if is_streamed:
            await send({"type": "http.response.start", "status": 200, "headers": headers})
        await self.go_on.setdefault(name, asyncio.Event()).wait()
        if not is_streamed and name != "/listening":
            await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": b"ok"})
        self.running.remove(name)

    def ask(self, caller: str, path: str) -> "Asked":
        return Asked(self, caller, path)

    async def answer(self, caller: str, path: str, *, seconds: float) -> None:
        """A request from beginning to end that takes so long."""
        asked = self.ask(caller, path)
        await settle()
        assert self.running == [path]
        self.now += seconds
        await self.let_go_on(path)
        assert asked.status == 200

    async def let_go_on(self, *names: str) -> None:
        for name in names:
            self.go_on.setdefault(name, asyncio.Event()).set()
        await settle()


class Asked:
    """A request that a caller sent, and its response."""

    def __init__(self, site: Site, caller: str, path: str) -> None:
        self.sent: list[Message] = []
        self.incoming: asyncio.Queue[Message] = asyncio.Queue()
        self.incoming.put_nowait(WHOLE)
        scope = {"type": "http", "path": path, "caller": caller, "headers": []}
        self.task = asyncio.ensure_future(site.wrapped(scope, self.incoming.get, self._send))

    async def _send(self, message: Message) -> None:
        self.sent.append(message)

    @property
    def status(self) -> int | None:
        return self.sent[0]["status"] if self.sent else None


@pytest.fixture
def endless_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pause passes in real time, whatever a site's clock says: here none ends, however slow the machine is."""
    for name in ("LONGEST_PAUSE_S", "PAUSE_BY_REQUEST"):
        monkeypatch.setattr(fair_requests, name, 3_600.0)


async def settle() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


def run(scenario: Callable[[], Awaitable[None]]) -> None:
    async def whole() -> None:
        await asyncio.wait_for(scenario(), 30)

    asyncio.run(whole())


def test_requests_over_limit_wait_for_their_own_caller_only() -> None:
    async def scenario() -> None:
        site = Site()
        flood = [site.ask("ada", f"/{number}") for number in range(5)]
        await settle()
        assert site.running == ["/0", "/1"]
        bob = site.ask("bob", "/bob")
        await settle()
        assert site.running == ["/0", "/1", "/bob"]
        await site.let_go_on("/1")
        assert site.running == ["/0", "/bob", "/2"]
        await site.let_go_on("/0", "/2", "/3", "/4", "/bob")
        assert [asked.status for asked in (*flood, bob)] == [200] * 6
        assert not site.wrapped.callers

    run(scenario)


def test_heavy_caller_gets_fewer_concurrent_requests_during_others_requests() -> None:
    async def scenario() -> None:
        site = Site(at_once=3, beside=1, waiting=9)
        await site.answer("ada", "/long", seconds=9.0)
        flood = [site.ask("ada", f"/{number}") for number in range(8)]
        site.ask("anonymous", "/login")
        await settle()
        assert site.running == ["/0", "/1", "/2", "/login"], "nobody else has signed in"
        site.ask("bob", "/bob")
        await site.let_go_on("/login", "/0", "/1", "/bob")
        assert site.running == ["/2"], "those that began before Bob came are the last to run at once"
        await site.let_go_on("/2")
        assert site.running == ["/3"]
        site.now += 61
        flood.append(site.ask("ada", "/8"))
        await site.let_go_on("/3")
        assert set(site.running) == {"/8", "/4", "/5"}, "Bob has gone"
        await site.let_go_on(*(f"/{number}" for number in range(9)))
        assert [asked.status for asked in flood] == [200] * 9

    run(scenario)


def test_light_caller_keeps_full_concurrency_during_others_requests() -> None:
    async def scenario() -> None:
        site = Site(at_once=3, beside=1, waiting=9)
        site.ask("bob", "/bob")
        for number in range(4):
            site.ask("ada", f"/{number}")
        await settle()
        assert site.running == ["/bob", "/0", "/1", "/2"]
        await site.let_go_on("/bob", *(f"/{number}" for number in range(4)))
        assert not site.wrapped.callers

    run(scenario)


def test_flood_gets_fewer_concurrent_requests_once_one_waits_in_line() -> None:
    async def scenario() -> None:
        site = Site(at_once=3, beside=1, waiting=9)
        await site.answer("bob", "/bob", seconds=0.1)
        flood = [site.ask("ada", f"/{number}") for number in range(6)]
        await settle()
        assert site.running == ["/0", "/1", "/2"]
        await site.let_go_on("/0", "/1")
        assert site.running == ["/2"], "the line waits until one is under way"
        await site.let_go_on("/2")
        assert site.running == ["/3"]
        await site.let_go_on(*(f"/{number}" for number in range(6)))
        assert [asked.status for asked in flood] == [200] * 6

    run(scenario)


@pytest.mark.usefixtures("endless_pauses")
def test_only_caller_that_keeps_process_busy_pauses() -> None:
    async def scenario() -> None:
        site = Site(at_once=1, waiting=9)
        await site.answer("bob", "/bob", seconds=0.1)
        await site.answer("ada", "/first", seconds=9.0)
        await site.answer("bob", "/bob/2", seconds=0.1)
        site.ask("ada", "/second")
        await settle()
        assert site.running == [], "Ada waits, though nothing else of hers is under way"
        await site.answer("bob", "/bob/3", seconds=0.1)
        await site.answer("bob", "/bob/4", seconds=0.1)

    run(scenario)


def test_person_who_reads_between_searches_is_not_delayed_by_flood() -> None:
    async def scenario() -> None:
        site = Site(at_once=3, beside=1, waiting=9)
        await site.answer("flood", "/long", seconds=9.0)
        for number in range(20):  # a third of the time, on a machine that is slow just now
            await site.answer("ada", f"/search/{number}", seconds=0.5)
            site.now += 1.0
        site.ask("ada", "/page")
        site.ask("ada", "/search")
        await settle()
        assert site.running == ["/page", "/search"]

    run(scenario)


@pytest.mark.usefixtures("endless_pauses")
def test_waiting_in_line_counts_towards_pause() -> None:
    async def scenario() -> None:
        site = Site(at_once=1, waiting=9)
        await site.answer("ada", "/ada", seconds=0.1)
        flood = [site.ask("flood", f"/{number}") for number in range(4)]
        await settle()
        for number in range(3):  # each takes a second: six seconds are spent in line, three at work
            site.now += 1.0
            await site.let_go_on(f"/{number}")
        site.ask("ada", "/ada/2")
        site.now += 1.0
        await site.let_go_on("/3", "/ada/2")
        assert [asked.status for asked in flood] == [200] * 4
        site.ask("flood", "/after")
        await settle()
        assert site.running == [], "it pauses"

    run(scenario)


def test_stream_that_receives_only_after_answering_holds_no_place() -> None:
    async def scenario() -> None:
        site = Site(at_once=1)
        listening = site.ask("ada", "/listening")
        await settle()
        assert listening.status == 200
        search = site.ask("ada", "/search")
        await site.let_go_on("/search")
        assert search.status == 200
        await site.let_go_on("/listening")
        assert not site.wrapped.callers

    run(scenario)


@pytest.mark.usefixtures("endless_pauses")
def test_pause_ends_with_its_event_loop() -> None:
    site = Site(at_once=1)

    async def first() -> None:
        await site.answer("bob", "/bob", seconds=0.1)
        await site.answer("ada", "/first", seconds=9.0)

    async def second() -> None:
        await site.answer("ada", "/second", seconds=0.1)

    run(first)
    assert site.wrapped.callers["ada"].requests.taken == 1, "she pauses"
    run(second)


def test_lone_caller_never_pauses() -> None:
    async def scenario() -> None:
        site = Site(at_once=1)
        for number in range(3):
            await site.answer("ada", f"/{number}", seconds=9.0)
        assert not site.wrapped.callers

    run(scenario)


def test_caller_does_not_pause_for_inactive_caller() -> None:
    async def scenario() -> None:
        site = Site(at_once=1)
        await site.answer("bob", "/bob", seconds=0.1)
        site.now += 10.0
        for number in range(3):
            await site.answer("ada", f"/{number}", seconds=9.0)
        assert not site.wrapped.callers

    run(scenario)


def test_full_line_answers_429_and_still_takes_streams() -> None:
    async def scenario() -> None:
        site = Site(at_once=1, streams=1, waiting=2)
        kept = [site.ask("ada", f"/{number}") for number in range(3)]
        await settle()
        refused = site.ask("ada", "/api/v1/conversations/search")
        await settle()
        assert refused.status == 429
        headers = dict(refused.sent[0]["headers"])
        assert int(headers[b"retry-after"]) > 0
        assert headers[b"content-type"] == b"application/problem+json"
        assert json.loads(refused.sent[1]["body"])["status"] == 429
        site.ask("ada", "/stream")
        await site.let_go_on("/stream", *(f"/{number}" for number in range(3)))
        assert [asked.status for asked in kept] == [200] * 3
        assert not site.wrapped.callers

    run(scenario)


def test_request_that_waited_too_long_gets_429() -> None:
    async def scenario() -> None:
        site = Site(at_once=1, wait_s=0.01)
        site.ask("ada", "/0")
        waiting = site.ask("ada", "/1")
        await waiting.task
        assert waiting.status == 429
        assert site.disconnected == ["/1"]
        await site.let_go_on("/0")
        assert not site.wrapped.callers

    run(scenario)


def test_disconnected_client_leaves_line() -> None:
    async def scenario() -> None:
        site = Site(at_once=1)
        site.ask("ada", "/0")
        gone, patient = site.ask("ada", "/1"), site.ask("ada", "/2")
        await settle()
        gone.incoming.put_nowait({"type": "http.disconnect"})
        await settle()
        assert gone.task.done()
        await site.let_go_on("/0")
        assert site.running == ["/2"]
        await site.let_go_on("/2")
        assert (gone.status, patient.status) == (None, 200)
        assert not site.wrapped.callers

    run(scenario)


def test_cancelled_request_leaves_line() -> None:
    async def scenario() -> None:
        site = Site(at_once=1)
        site.ask("ada", "/0")
        cancelled = site.ask("ada", "/1")
        await settle()
        cancelled.task.cancel()
        await site.let_go_on("/0")
        site.ask("ada", "/2")
        await settle()
        assert site.running == ["/2"]
        await site.let_go_on("/2")
        assert not site.wrapped.callers

    run(scenario)


def test_streams_are_not_counted_as_requests() -> None:
    async def scenario() -> None:
        site = Site(at_once=1, streams=1)
        site.ask("ada", "/stream")
        site.ask("ada", "/0")
        await settle()
        assert site.running == ["/stream", "/0"]
        site.ask("ada", "/stream/2")
        await site.let_go_on("/0")
        assert site.running == ["/stream"], "a second stream waits for the first"
        site.ask("ada", "/3")
        await settle()
        assert site.running == ["/stream", "/3"]
        await site.let_go_on("/stream", "/stream/2", "/3")
        assert not site.wrapped.callers

    run(scenario)


def test_streaming_answer_frees_its_place_up_to_stream_limit() -> None:
    async def scenario() -> None:
        site = Site(at_once=1, streams=1)
        for path in ("/export/1", "/export/2", "/3"):
            site.ask("ada", path)
        await settle()
        assert site.running == ["/export/1", "/export/2"]
        await site.let_go_on("/export/2")
        assert site.running == ["/export/1", "/3"]
        await site.let_go_on("/export/1", "/3")
        assert not site.wrapped.callers

    run(scenario)


def test_slow_upload_takes_no_place_before_its_body_is_complete() -> None:
    async def scenario() -> None:
        site = Site(at_once=1)
        received: list[Message] = []

        async def upload(scope: Any, receive: Any, send: Any) -> None:
            while (message := await receive()).get("more_body"):
                received.append(message)
            received.append(message)

        site.wrapped._application = upload
        slow = Asked(site, "ada", "/upload")
        slow.incoming.get_nowait()
        slow.incoming.put_nowait({"type": "http.request", "body": b"a", "more_body": True})
        await settle()
        assert len(received) == 1
        quick = Asked(site, "ada", "/quick")
        await settle()
        assert quick.task.done()
        slow.incoming.put_nowait(WHOLE)
        await settle()
        assert slow.task.done()

    run(scenario)


def test_failed_request_frees_its_place() -> None:
    async def scenario() -> None:
        site = Site(at_once=1)

        async def fail(scope: Any, receive: Any, send: Any) -> None:
            await receive()
            raise OSError

        site.wrapped._application = fail
        for _ in range(3):
            asked = site.ask("ada", "/")
            await settle()
            assert isinstance(asked.task.exception(), OSError)
        assert not site.wrapped.callers

    run(scenario)


def test_static_files_are_not_limited() -> None:
    async def scenario() -> None:
        site = Site(at_once=1)
        for number in range(9):
            site.ask("ada", f"/static/{number}")
        await settle()
        assert len(site.running) == 9
        await site.let_go_on(*(f"/static/{number}" for number in range(9)))

    run(scenario)


# --- who calls --------------------------------------------------------------------------------------


def named(callers: KnownCallers, address: str = "192.0.2.1", **headers: str) -> str:
    pairs = [(name.encode(), value.encode()) for name, value in headers.items()]
    return caller_of_request(pairs, address, session_cookie="session", callers=callers)


def test_all_keys_and_sessions_of_user_are_one_caller() -> None:
    callers = KnownCallers()
    for credential in ("key-1", "key-2", "abc"):
        callers.note(credential, 7)
    found = {
        named(callers, authorization="Bearer key-1"),
        named(callers, authorization="bearer  key-2", cookie="session=other"),
        named(callers, cookie="theme=dark; session=abc", address="192.0.2.9"),
    }
    assert found == {"user:7"}


def test_unknown_caller_is_identified_by_address() -> None:
    callers = KnownCallers()
    guesses = {named(callers, authorization=f"Bearer guess-{number}") for number in range(5)}
    assert guesses | {named(callers), named(callers, cookie="session=made-up")} == {"address:192.0.2.1"}
    assert named(callers, "2001:db8:1:2::3") == named(callers, "2001:db8:1:2:ffff::9") != named(callers, "2001:db8::1")
    assert named(callers, "::ffff:192.0.2.1") == named(callers)


def test_wrong_key_is_not_covered_by_right_session() -> None:
    callers = KnownCallers()
    callers.note("abc", 7)
    assert named(callers, authorization="Bearer wrong", cookie="session=abc") == "address:192.0.2.1"


def test_known_callers_drop_oldest_credential_when_full() -> None:
    callers = KnownCallers(size=2)
    for number in range(3):
        callers.note(f"key-{number}", number)
    assert [callers.user_of(f"key-{number}") for number in range(3)] == [None, 1, 2]
