"""One caller's requests wait for each other, never for another's, and no caller takes a whole process."""

import asyncio
import json

import pytest
from pytest_django import Settings

from convmemory.core.web.asgi_types import Receive, Scope, Send
from convmemory.core.web.callers import KnownCallers
from convmemory.http_limits import concurrency, senders
from convmemory.http_limits.concurrency import SMALLEST_SHARE, is_answered_from_memory, waits_for_others
from convmemory.http_limits.senders import caller_of
from tests.unit.http_limits.site import STATIC, STREAM, Site, on_site, scope_of, settle, statuses


@on_site()
async def test_requests_over_limit_wait_for_their_own_caller_only(site: Site) -> None:
    flood = [site.ask("ada", f"/{number}") for number in range(5)]
    await settle()
    assert site.running == ["/0", "/1"]
    bob = site.ask("bob", "/bob")
    await settle()
    assert site.running == ["/0", "/1", "/bob"]
    await site.let_go_on("/1")
    assert site.running == ["/0", "/bob", "/2"]
    await site.let_go_on("/0", "/2", "/3", "/4", "/bob")
    assert statuses([*flood, bob]) == [200] * 6
    assert not site.limit.callers


@on_site(REQUESTS_PER_USER=3, REQUESTS_BESIDE_OTHERS=1, WAITING_PER_USER=9)
async def test_heavy_caller_gets_fewer_concurrent_requests_during_others_requests(site: Site) -> None:
    await site.answer("ada", "/long", seconds=9.0)
    flood = [site.ask("ada", f"/{number}") for number in range(8)]
    site.ask("", "/login")
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
    assert statuses(flood) == [200] * 9


@on_site(REQUESTS_PER_USER=3, REQUESTS_BESIDE_OTHERS=1, WAITING_PER_USER=9)
async def test_light_caller_keeps_full_concurrency_during_others_requests(site: Site) -> None:
    site.ask("bob", "/bob")
    for number in range(4):
        site.ask("ada", f"/{number}")
    await settle()
    assert site.running == ["/bob", "/0", "/1", "/2"]
    await site.let_go_on("/bob", *(f"/{number}" for number in range(4)))
    assert not site.limit.callers


@on_site(REQUESTS_PER_USER=3, REQUESTS_BESIDE_OTHERS=1, WAITING_PER_USER=9)
async def test_flood_gets_fewer_concurrent_requests_once_one_waits_in_line(site: Site) -> None:
    await site.answer("bob", "/bob", seconds=0.1)
    flood = [site.ask("ada", f"/{number}") for number in range(6)]
    await settle()
    assert site.running == ["/0", "/1", "/2"]
    await site.let_go_on("/0", "/1")
    assert site.running == ["/2"], "the line waits until one is under way"
    await site.let_go_on("/2")
    assert site.running == ["/3"]
    await site.let_go_on(*(f"/{number}" for number in range(6)))
    assert statuses(flood) == [200] * 6


@pytest.mark.usefixtures("endless_pauses")
@on_site(REQUESTS_PER_USER=1)
async def test_only_caller_that_keeps_process_busy_pauses(site: Site) -> None:
    await site.answer("bob", "/bob", seconds=0.1)
    await site.answer("ada", "/first", seconds=9.0)
    await site.answer("bob", "/bob/2", seconds=0.1)
    site.ask("ada", "/second")
    await settle()
    assert site.running == [], "Ada waits, though nothing else of hers is under way"
    await site.answer("bob", "/bob/3", seconds=0.1)
    await site.answer("bob", "/bob/4", seconds=0.1)


@on_site(REQUESTS_PER_USER=3, REQUESTS_BESIDE_OTHERS=1)
async def test_person_who_reads_between_searches_is_not_delayed_by_flood(site: Site) -> None:
    await site.answer("flood", "/long", seconds=9.0)
    for number in range(20):  # a third of the time, on a machine that is slow just now
        await site.answer("ada", f"/search/{number}", seconds=0.5)
        site.now += 1.0
    site.ask("ada", "/page")
    site.ask("ada", "/search")
    await settle()
    assert site.running == ["/page", "/search"]


@pytest.mark.usefixtures("endless_pauses")
@on_site(REQUESTS_PER_USER=1)
async def test_waiting_in_line_counts_towards_pause(site: Site) -> None:
    await site.answer("ada", "/ada", seconds=0.1)
    flood = [site.ask("flood", f"/{number}") for number in range(4)]
    await settle()
    for number in range(3):  # each takes a second: six seconds are spent in line, three at work
        site.now += 1.0
        await site.let_go_on(f"/{number}")
    site.ask("ada", "/ada/2")
    site.now += 1.0
    await site.let_go_on("/3", "/ada/2")
    assert statuses(flood) == [200] * 4
    site.ask("flood", "/after")
    await settle()
    assert site.running == [], "it pauses"


@pytest.mark.usefixtures("endless_pauses")
def test_pause_ends_with_its_event_loop(settings: Settings) -> None:
    settings.REQUESTS_PER_USER = 1
    site = Site()

    async def first() -> None:
        await site.answer("bob", "/bob", seconds=0.1)
        await site.answer("ada", "/first", seconds=9.0)

    asyncio.run(first())
    assert site.limit.callers["user:1"].requests.taken == 1, "she pauses"
    asyncio.run(site.answer("ada", "/second", seconds=0.1))


@pytest.mark.parametrize(("idle_s", "pauses"), [(None, False), (10.0, False), (0.0, True)])
@pytest.mark.usefixtures("endless_pauses")
def test_caller_pauses_for_active_users_only(settings: Settings, idle_s: float | None, pauses: bool) -> None:
    """Ada keeps the process busy while Bob was never there, has gone, or is there."""

    async def scenario() -> None:
        site = Site()
        if idle_s is not None:
            await site.answer("bob", "/bob", seconds=0.1)
            site.now += idle_s
        await site.answer("ada", "/ada", seconds=9.0)
        assert bool(site.limit.callers) is pauses

    asyncio.run(scenario())


@on_site(REQUESTS_PER_USER=1, WAITING_PER_USER=2)
async def test_full_line_answers_429_and_still_takes_streams(site: Site) -> None:
    kept = [site.ask("ada", f"/{number}") for number in range(3)]
    await settle()
    refused = [site.ask("ada", path) for path in ("/api/v1/conversations/search", "/search")]
    await settle()
    assert statuses(refused) == [429, 429]
    headers = [dict(one.sent[0]["headers"]) for one in refused]
    assert [int(each[b"retry-after"]) > 0 for each in headers] == [True, True]
    assert headers[0][b"content-type"] == b"application/problem+json"
    assert json.loads(refused[0].sent[1]["body"])["status"] == 429
    assert headers[1][b"content-type"].startswith(b"text/html")
    site.ask("ada", STREAM)
    await site.let_go_on(STREAM, *(f"/{number}" for number in range(3)))
    assert statuses(kept) == [200] * 3
    assert not site.limit.callers


@on_site(REQUESTS_PER_USER=1)
async def test_request_that_waited_too_long_gets_429(site: Site) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(concurrency, "WAIT_S", 0.01)
        site.ask("ada", "/0")
        waiting = site.ask("ada", "/1")
        await waiting.task
    assert waiting.status == 429
    assert site.disconnected == ["/1"]
    await site.let_go_on("/0")
    assert not site.limit.callers


@on_site(REQUESTS_PER_USER=1)
async def test_disconnected_or_cancelled_request_leaves_line(site: Site) -> None:
    site.ask("ada", "/0")
    gone, cancelled, patient = (site.ask("ada", path) for path in ("/gone", "/cancelled", "/patient"))
    await settle()
    gone.incoming.put_nowait({"type": "http.disconnect"})
    cancelled.task.cancel()
    await settle()
    assert gone.task.done()
    assert cancelled.task.done()
    await site.let_go_on("/0")
    assert site.running == ["/patient"]
    await site.let_go_on("/patient")
    assert statuses([gone, cancelled, patient]) == [None, None, 200]
    assert not site.limit.callers


@on_site(REQUESTS_PER_USER=1)
async def test_failed_request_frees_its_place(site: Site) -> None:
    async def fail(scope: Scope, receive: Receive, send: Send) -> None:
        await receive()
        raise OSError

    site.limit.application = fail
    for asked in [*await site.send(1, caller="ada"), *await site.send(1, caller="ada")]:
        assert isinstance(asked.task.exception(), OSError)
    assert not site.limit.callers


@on_site()
async def test_static_files_wait_in_no_line(site: Site) -> None:
    await site.send(SMALLEST_SHARE, caller="ada", path=STATIC)
    assert len(site.running) == SMALLEST_SHARE
    await site.let_go_on(STATIC)


@on_site(MAX_CONCURRENT_REQUESTS=40, REQUESTS_PER_USER=20)
async def test_flood_of_one_address_takes_only_its_share_of_places(site: Site) -> None:
    asked = await site.send(12)
    [other] = await site.send(1, address="192.0.2.2")
    assert statuses(asked) == [None] * 10 + [429] * 2
    assert other.status is None
    assert len(site.running) == 11
    await site.let_go_on("/")
    assert statuses(await site.send(12)) == [200] * 12, "places are free again when their requests end"


@on_site(MAX_CONCURRENT_REQUESTS=40, REQUESTS_PER_USER=40)
async def test_unknown_callers_leave_last_places_to_known_users(site: Site) -> None:
    asked = await site.send(32, addresses="192.0.2.")
    known = await site.send(10, caller="ada")
    assert statuses(asked) == [None] * 30 + [503] * 2
    assert statuses(known) == [None] * 10
    assert len(site.running) == 40
    await site.let_go_on("/")


@on_site(REQUESTS_PER_USER=3, REQUESTS_BESIDE_OTHERS=1, WAITING_PER_USER=64)
async def test_addresses_without_account_work_one_after_other_while_user_is_active(site: Site) -> None:
    flood = [site.ask(path=f"/{number}", address=f"192.0.2.{number}") for number in range(6)]
    await settle()
    assert site.running == ["/0", "/1", "/2"], "no user is active"
    site.ask("ada", "/ada")
    await site.let_go_on("/ada", "/0", "/1")
    assert site.running == ["/2"]
    await site.let_go_on("/2")
    assert site.running == ["/3"]
    await site.let_go_on("/3", "/4", "/5")
    assert statuses(flood) == [200] * 6
    assert not site.limit.callers


@on_site(REQUESTS_PER_USER=1, STREAMS_PER_USER=8, WAITING_PER_USER=64)
async def test_answer_that_address_without_account_does_not_read_stops_no_other(site: Site) -> None:
    unread = [site.ask(path="/export", address=f"192.0.2.{number}") for number in range(9)]
    await settle()
    other = site.ask(path="/login", address="198.51.100.1")
    await site.let_go_on("/login")
    assert other.status == 200
    await site.let_go_on("/export")
    assert statuses(unread) == [200] * 9
    assert not site.limit.callers


@on_site(MAX_CONCURRENT_REQUESTS=12, REQUESTS_PER_USER=1, WAITING_PER_USER=1)
async def test_refusals_pause_for_as_many_requests_as_may_be_answered_at_once(site: Site) -> None:
    slow_to_refuse = Site(refusal_pause_s=3_600.0)
    flood = await slow_to_refuse.send(17, caller="flood")
    assert statuses(flood) == [None] * 14 + [429] * 3, "one runs, one is in line, twelve wait for their refusal"


@on_site(REQUESTS_PER_USER=1)
async def test_address_that_waited_too_long_behind_others_gets_503(site: Site) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(concurrency, "WAIT_S", 0.01)
        site.ask(path="/slow")
        refused = site.ask(path="/late", address="192.0.2.2")
        await refused.task
    assert refused.status == 503
    await site.let_go_on("/slow")
    await site.answer("", "/again", seconds=0.1)
    assert not site.limit.callers


@on_site(REQUESTS_PER_USER=1)
async def test_user_whose_key_is_new_to_process_does_not_wait_behind_addresses(site: Site) -> None:
    async def look_up(scope: Scope) -> bool:
        vars(senders)["known"].note("new key", 9)
        return True

    site.limit.knows_sender = look_up
    flood = [site.ask(path="/slow", address=f"192.0.2.{number}") for number in range(3)]
    await settle()
    user = site.ask("new key", "/hers", address="198.51.100.1")
    await site.let_go_on("/hers")
    assert user.status == 200
    await site.let_go_on("/slow")
    assert statuses(flood) == [200] * 3


@on_site(MAX_CONCURRENT_REQUESTS=40, REQUESTS_PER_USER=40)
async def test_requests_with_unfinished_bodies_take_no_places(site: Site) -> None:
    unfinished = await site.send(17, addresses="192.0.2.", has_body=True)
    assert statuses(unfinished) == [None] * 15 + [503] * 2, "half as many as there are places"
    whole = await site.send(30, addresses="198.51.100.")
    assert statuses(whole) == [None] * 30
    unfinished[0].arrive(b"cd")
    await settle()
    assert unfinished[0].status == 503
    assert (site.disconnected, len(site.running)) == (["/"], 30)
    await site.let_go_on("/")


@on_site(MAX_CONCURRENT_REQUESTS=40, REQUESTS_PER_USER=20)
async def test_address_with_its_share_of_unfinished_bodies_is_refused_more(site: Site) -> None:
    unfinished = await site.send(SMALLEST_SHARE + 2, has_body=True)
    assert statuses(unfinished) == [None] * SMALLEST_SHARE + [429] * 2
    for one in unfinished[:3]:
        one.arrive(b"cd")
    await settle()
    assert len(site.running) == 3
    [another] = await site.send(1, has_body=True)
    assert another.status is None, "a body that has arrived makes room for the next"
    await site.let_go_on("/")


@on_site(REQUESTS_PER_USER=1)
async def test_unfinished_bodies_take_no_place_of_their_caller(site: Site) -> None:
    await site.send(2, caller="ada", has_body=True)
    await site.answer("ada", "/quick", seconds=0.1)


@on_site(MAX_CONCURRENT_REQUESTS=40, REQUESTS_PER_USER=10)
async def test_users_behind_one_address_have_share_each(site: Site) -> None:
    asked = [*await site.send(10, caller="ada"), *await site.send(10, caller="bob")]
    assert statuses(asked) == [None] * 20
    await site.let_go_on("/")


def named(address: str = "192.0.2.1", **headers: str) -> str:
    pairs = [(name.encode(), value.encode()) for name, value in headers.items()]
    return caller_of(scope_of("GET", "/", *pairs, address=address))


def test_all_keys_and_sessions_of_user_are_one_caller(known: KnownCallers) -> None:
    for credential in ("key-1", "key-2", "abc"):
        known.note(credential, 7)
    found = {
        named(authorization="Bearer key-1"),
        named(authorization="bearer  key-2", cookie="convmemory_session=other"),
        named(cookie="theme=dark; convmemory_session=abc", address="192.0.2.9"),
        named(authorization="Basic OmZvcl90aGVfcHJveHk=", cookie="convmemory_session=abc"),
    }
    assert found == {"user:7"}


def test_unknown_caller_is_identified_by_address() -> None:
    guesses = {named(authorization=f"Bearer guess-{number}") for number in range(5)}
    assert guesses | {named(), named(cookie="convmemory_session=made-up")} == {"address:192.0.2.1"}
    assert named("2001:db8:1:2::3") == named("2001:db8:1:2:ffff::9") != named("2001:db8::1")
    assert named("::ffff:192.0.2.1") == named()


def test_wrong_key_is_not_covered_by_right_session(known: KnownCallers) -> None:
    known.note("abc", 7)
    for key in ("Bearer wrong", "Bearer", "bearer "):
        assert named(authorization=key, cookie="convmemory_session=abc") == "address:192.0.2.1"


def test_known_callers_drop_oldest_credential_when_full() -> None:
    callers = KnownCallers(size=2)
    for number in range(3):
        callers.note(f"key-{number}", number)
    assert [callers.user_of(f"key-{number}") for number in range(3)] == [None, 1, 2]


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
        ("HEAD", STATIC, (), True),
        ("GET", "/static/no-such-file", (), False),
        ("GET", "/healthy", (), False),
        ("POST", STATIC, (), False),
        ("POST", "/health", (), False),
        ("GET", "/health", ((b"content-length", b"9"),), False),
        ("GET", STATIC, ((b"transfer-encoding", b"chunked"),), False),
    ],
)
def test_only_bodiless_reads_of_known_addresses_are_answered_from_memory(
    method: str, path: str, headers: tuple[tuple[bytes, bytes], ...], is_free: bool
) -> None:
    assert is_answered_from_memory(scope_of(method, path, *headers)) is is_free
