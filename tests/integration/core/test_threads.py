"""The threads in which asynchronous code uses the database."""

import asyncio
from functools import partial
from threading import Event

import pytest
from django.db import OperationalError, connection

from convmemory.core.measuring import Measurement, measured
from convmemory.core.postgres.base import MEASURED_WAIT_S
from convmemory.core.threads import DatabaseThreads
from tests.support.own_logins import POOL, own_logins

pytestmark = pytest.mark.django_db(transaction=True)


def process_id() -> int:
    """Of the server's process that answers this thread."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_backend_pid()")
        return int(cursor.fetchone()[0])


def is_connected() -> bool:
    return connection.connection is not None


def test_calls_that_wait_share_connection_and_last_one_gives_it_back() -> None:
    async def run() -> None:
        threads, go_on = DatabaseThreads(1, "one"), Event()
        blocking = asyncio.create_task(threads.run(go_on.wait))
        calls = [asyncio.create_task(threads.run(call)) for call in (process_id, is_connected, process_id)]
        await asyncio.sleep(0)  # all of them are in the queue
        go_on.set()
        first, kept, second = await asyncio.gather(*calls)
        assert await blocking
        assert kept
        assert first == second
        assert not await threads.run(is_connected)

    asyncio.run(run())


def test_failed_call_raises_to_its_waiter_and_drops_its_connection() -> None:
    def breaks() -> None:
        process_id()
        raise ValueError("no")

    async def run() -> None:
        threads, go_on = DatabaseThreads(1, "one"), Event()
        blocking = asyncio.create_task(threads.run(go_on.wait))
        calls = [asyncio.create_task(threads.run(call)) for call in (breaks, is_connected)]
        await asyncio.sleep(0)
        go_on.set()
        failed, connected = await asyncio.gather(*calls, return_exceptions=True)
        await blocking
        assert isinstance(failed, ValueError)
        assert connected is False

    asyncio.run(run())


def test_calls_run_in_order_of_their_patience() -> None:
    async def run() -> None:
        threads, go_on, order = DatabaseThreads(1, "one"), Event(), list[str]()
        blocking = asyncio.create_task(threads.run(go_on.wait))
        patience = {"patient": 3600.0, "at ease": 60.0, "first": 0.0, "second": 0.0}
        calls = [
            asyncio.create_task(threads.run(partial(order.append, name), patience_s=patience_s))
            for name, patience_s in patience.items()
        ]
        await asyncio.sleep(0)
        go_on.set()
        await asyncio.gather(blocking, *calls)
        assert order == ["first", "second", "at ease", "patient"]

    asyncio.run(run())


def test_cancelled_call_is_not_run() -> None:
    async def run() -> None:
        threads, go_on, was_run = DatabaseThreads(1, "one"), Event(), Event()
        blocking = asyncio.create_task(threads.run(go_on.wait))
        forgotten = asyncio.create_task(threads.run(was_run.set))
        await asyncio.sleep(0)
        forgotten.cancel()
        await asyncio.wait([forgotten])
        go_on.set()
        await blocking
        await threads.run(lambda: None)
        assert not was_run.is_set()

    asyncio.run(run())


def test_call_that_gets_no_connection_of_full_pool_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    reported: list[Measurement] = []

    def note(measurement: Measurement, **_: object) -> None:
        reported.append(measurement)

    async def run() -> None:
        threads, taken, go_on = DatabaseThreads(2, "two"), Event(), Event()

        def keep() -> None:
            process_id()
            taken.set()
            go_on.wait()

        keeping = asyncio.create_task(threads.run(keep))
        await asyncio.to_thread(taken.wait)
        with pytest.raises(OperationalError, match="couldn't get a connection"):
            await threads.run(process_id)
        go_on.set()
        await keeping

    monkeypatch.setitem(POOL, "max_size", 1)
    monkeypatch.setitem(POOL, "timeout", 2 * MEASURED_WAIT_S)
    measured.connect(note)
    try:
        with own_logins():
            asyncio.run(run())
    finally:
        measured.disconnect(note)
    assert [(each.name, each.label, each.failed) for each in reported] == [("pool_wait", "app", True)]
