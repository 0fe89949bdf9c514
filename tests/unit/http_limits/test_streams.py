"""Streams are not counted as requests, users have many, and callers without an account few in all."""

import pytest

from convmemory.core.measuring import Measurement, measured
from convmemory.core.web.asgi_types import Scope
from convmemory.http_limits import concurrency, senders
from convmemory.http_limits.concurrency import STRANGERS, STREAMS_OF_ADDRESS
from tests.unit.http_limits.site import SECOND_STREAM, STREAM, Site, on_site, settle, statuses


@on_site(REQUESTS_PER_USER=1)
async def test_stream_that_receives_only_after_answering_holds_no_place(site: Site) -> None:
    listening = site.ask("ada", "/listening")
    await settle()
    assert listening.status == 200
    search = site.ask("ada", "/search")
    await site.let_go_on("/search")
    assert search.status == 200
    await site.let_go_on("/listening")
    assert not site.limit.callers


@on_site(REQUESTS_PER_USER=1)
async def test_streams_are_not_counted_as_requests(site: Site) -> None:
    site.ask("ada", STREAM)
    site.ask("ada", "/0")
    await settle()
    assert site.running == [STREAM, "/0"]
    site.ask("ada", SECOND_STREAM)
    await site.let_go_on("/0")
    assert site.running == [STREAM], "a second stream waits for the first"
    site.ask("ada", "/3")
    await settle()
    assert site.running == [STREAM, "/3"]
    await site.let_go_on(STREAM, SECOND_STREAM, "/3")
    assert not site.limit.callers


@on_site(REQUESTS_PER_USER=1)
async def test_streaming_answer_frees_its_place_up_to_stream_limit(site: Site) -> None:
    for path in ("/file/1", "/export/2", "/3"):
        site.ask("ada", path)
    await settle()
    assert site.running == ["/file/1", "/export/2"]
    await site.let_go_on("/export/2")
    assert site.running == ["/file/1", "/3"]
    await site.let_go_on("/file/1", "/3")
    assert not site.limit.callers


@on_site(STREAMS_PER_USER=3)
async def test_pieces_of_streams_of_one_caller_are_made_in_turn(site: Site) -> None:
    paths = ["/export/1", "/export/2", "/export/3"]
    for path in paths:
        site.ask("ada", path)
    await settle()
    await site.let_take(*paths)
    await site.let_go_on("/export/3", "/export/2")
    assert site.running == paths, "they wait until the first has made its piece"
    page = site.ask("ada", "/page")
    await site.let_go_on("/page")
    assert page.status == 200
    await site.let_go_on("/export/1")
    assert site.running == []
    assert not site.limit.callers


@pytest.mark.usefixtures("endless_pauses")
@on_site(REQUESTS_PER_USER=1, STREAMS_PER_USER=2)
async def test_caller_whose_streams_keep_process_busy_pauses_between_pieces(site: Site) -> None:
    await site.answer("bob", "/bob", seconds=0.1)
    stream = site.ask("ada", "/export")
    await site.let_take("/export")
    site.now += 9.0
    site.ask("bob", "/bob/2")
    await site.let_go_on("/export", "/bob/2")
    assert stream.task.done()
    second = site.ask("ada", "/export/2")
    await settle()
    assert (second.status, len(second.sent)) == (200, 1), "its first piece waits"


@on_site(REQUESTS_PER_USER=4, STREAMS_PER_USER=64, WAITING_PER_USER=64)
async def test_address_without_account_streams_few_answers_at_once(site: Site) -> None:
    asked = await site.send(8, path="/export")
    assert statuses(asked) == [200] * STREAMS_OF_ADDRESS + [None] * 6
    await site.send(64, caller="ada", path=STREAM)
    assert site.running.count(STREAM) == 64
    await site.let_go_on("/export", STREAM)
    assert statuses(asked) == [200] * 8, "the others waited in line"
    assert not site.limit.callers


@on_site(DATABASE_POOL_SIZE=8, REQUESTS_PER_USER=4, WAITING_PER_USER=64)
async def test_all_addresses_without_account_together_stream_half_as_many_answers_as_pool_has(site: Site) -> None:
    asked = await site.send(30, addresses="192.0.2.", path="/export")
    assert statuses(asked) == [200] * 4 + [None] * 26
    user = site.ask("ada", "/export/hers", address="192.0.2.29")
    await settle()
    assert user.status == 200
    gone = asked[4]
    gone.task.cancel()
    await site.let_go_on("/export", "/export/hers")
    assert statuses(asked) == [200] * 4 + [None] + [200] * 25
    assert not site.limit.callers


@on_site(DATABASE_POOL_SIZE=8)
async def test_pieces_for_all_addresses_without_account_are_made_in_turn(site: Site) -> None:
    paths = [f"/export/{number}" for number in range(3)]
    for number, path in enumerate(paths):
        site.ask(path=path, address=f"192.0.2.{number}")
    await settle()
    await site.let_take(*paths)
    await site.let_go_on("/export/2", "/export/1")
    assert site.running == paths
    await site.let_go_on("/export/0")
    assert not site.limit.callers


@on_site(DATABASE_POOL_SIZE=2)
async def test_stream_to_address_that_waited_too_long_is_refused_ended_and_counted(site: Site) -> None:
    ended: list[tuple[str, str, bool]] = []

    def note(measurement: Measurement, **_: object) -> None:
        ended.append((measurement.name, measurement.label, measurement.failed))

    measured.connect(note)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(concurrency, "WAIT_S", 0.01)
        site.ask(path="/export/1")
        refused = site.ask(path="/export/2", address="192.0.2.2")
        await refused.task
    assert (refused.status, len(site.limit.callers[STRANGERS].streams.line)) == (503, 0)
    await site.let_go_on("/export/1")
    assert site.running == ["/export/2"], "its application was cancelled and sends nothing"
    site.ask("ada", "/export/3")
    await site.let_go_on("/export/3")
    assert ended == [("stream", "stranger", True), ("stream", "stranger", False), ("stream", "user", False)]
    assert not site.limit.callers


@on_site(STREAMS_PER_USER=64, WAITING_PER_USER=64)
async def test_users_whose_keys_are_new_to_process_share_no_streams(site: Site) -> None:
    async def look_up(scope: Scope) -> bool:
        vars(senders)["known"].note("new key", 9)
        return True

    site.limit.knows_sender = look_up
    assert STREAMS_OF_ADDRESS < len(await site.send(8, caller="new key", path=STREAM)) == site.running.count(STREAM)
    await site.let_go_on(STREAM)
