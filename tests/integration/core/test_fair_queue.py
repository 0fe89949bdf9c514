"""The queue goes round by owner, in slices; nothing in it is lost or done twice."""

import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from django_q import brokers
from django_q.brokers import orm, redis_broker
from django_q.conf import Conf
from django_q.models import OrmQ, Schedule
from django_q.scheduler import scheduler
from django_q.signing import SignedPackage
from redis import Redis
from redis.exceptions import RedisError

from convmemory.core.models import OwnerTask
from convmemory.core.queue import fair_queue, queueing
from convmemory.core.queue.fair_queue import claim, enqueue_for, revive, ticket_every_second, tickets_wanted, work
from convmemory.core.queue.queueing import enqueue
from convmemory.ops.observability import measures
from convmemory.ops.privacy.task_arguments import drop_queued
from convmemory.ops.runtime import schedules
from tests.factories import make_user
from tests.support.fleet import free_port, wait_until

pytestmark = pytest.mark.django_db(transaction=True)

FUNC, LONG = "search.tasks.index", "convmemory.documents.tasks.process"
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)

Answer = Callable[..., dict[str, Any]]


@pytest.fixture
def answer(monkeypatch: pytest.MonkeyPatch) -> Callable[[Answer], None]:
    """Puts a function in the place of every task."""
    return lambda function: monkeypatch.setattr(fair_queue, "function_of", lambda path: function)


@pytest.fixture(scope="module")
def redis_port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    if not shutil.which("redis-server"):
        pytest.skip("redis-server is not installed")
    folder, port = tmp_path_factory.mktemp("redis"), free_port()
    command = ["redis-server", "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--dir", str(folder)]
    with Path(folder / "log").open("wb") as log, subprocess.Popen(command, stdout=log, stderr=log) as server:
        wait_until(lambda: _answers(port), "Redis")
        yield port
        server.terminate()


def _answers(port: int) -> bool:
    try:
        with Redis(port=port) as client:
            return bool(client.ping())
    except RedisError:
        return False


@pytest.fixture(params=["orm", "redis"])
def broker(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> brokers.Broker:
    """The queue that the tickets are in."""
    if request.param == "orm":
        return orm.ORM()
    port = request.getfixturevalue("redis_port")
    monkeypatch.setattr(Conf, "ORM", None)
    monkeypatch.setattr(Conf, "REDIS", f"redis://127.0.0.1:{port}/0")
    broker = redis_broker.Redis()
    broker.delete_queue()
    return broker


def take(broker: brokers.Broker) -> dict[str, Any] | None:
    """Return the next task of the queue as a worker gets it, or None."""
    tasks = broker.dequeue()
    if not tasks:
        return None
    (number, payload), *_ = tasks
    if number:
        broker.acknowledge(number)
    task: dict[str, Any] = SignedPackage.loads(payload)
    return task


def work_off(broker: brokers.Broker, *, at_most: int = 1_000) -> int:
    """Work on tickets as one worker does until none is left; how many there were."""
    for count in range(at_most):
        if broker.queue_size() == 0:
            return count
        task = take(broker)
        assert task is not None
        assert task["func"] == fair_queue.TICKET
        work()
    raise AssertionError(f"still tickets after {at_most}")


def owners_served(user_by_id: dict[int, str], count: int) -> list[str]:
    served = []
    for number in range(count):
        task = claim(NOON + timedelta(seconds=number))
        served.append(user_by_id[task.owner_id] if task else "-")
        if task:
            task.delete()
    return served


def ask(owner: User, *numbers: int, at: datetime = NOON, func: str = FUNC) -> None:
    """Tasks with these numbers, each asked for a second after the one before."""
    for seconds, number in enumerate(numbers):
        enqueue_for(owner.pk, func, number)
        asked_at = at - timedelta(hours=1) + timedelta(seconds=seconds)
        OwnerTask.objects.filter(key=f"{func}:{number}").update(asked_at=asked_at, due_at=asked_at)


def numbers_of(*tasks: OwnerTask | None) -> list[int | None]:
    return [task.args[0] if task else None for task in tasks]


# --- whose task is next -----------------------------------------------------------------------------


def test_owners_take_turns_however_much_one_asked_for() -> None:
    ada, bob, cy = make_user(), make_user(), make_user()
    ask(ada, *range(100, 120))
    ask(bob, 200, 201)
    ask(cy, 300)
    names = {ada.pk: "ada", bob.pk: "bob", cy.pk: "cy"}
    assert owners_served(names, 7) == ["ada", "bob", "cy", "ada", "bob", "ada", "ada"]


def test_owner_served_least_recently_is_next() -> None:
    ada, bob = make_user(), make_user()
    ask(ada, 1, 2)
    assert owners_served({ada.pk: "ada"}, 1) == ["ada"]
    ask(bob, 3)
    assert owners_served({ada.pk: "ada", bob.pk: "bob"}, 2) == ["bob", "ada"]


def test_owner_with_running_task_waits_for_owners_without() -> None:
    ada, bob = make_user(), make_user()
    ask(ada, *range(100, 110))
    first = claim(NOON)
    ask(bob, 200, 201)
    claims = [first, *(claim(NOON + timedelta(seconds=number)) for number in (1, 2, 3))]
    owners = [task.owner_id if task else None for task in claims]
    assert owners == [ada.pk, bob.pk, ada.pk, bob.pk]


def test_own_newest_short_task_is_claimed_first() -> None:
    ada = make_user()
    ask(ada, 1, 2, 3)
    OwnerTask.objects.filter(key=f"{FUNC}:3").update(slices=1)  # it has had a slice, and is not done
    order = [task.args[0] for _ in range(3) if (task := claim(NOON))]
    assert order == [2, 1, 3]


def test_long_tasks_leave_worker_free_and_place_for_another_owner(settings: Any) -> None:
    settings.WORKERS = 3
    ada, bob, cy = make_user(), make_user(), make_user()
    ask(ada, 1, 2, func=LONG)
    assert numbers_of(claim(NOON), claim(NOON)) == [2, None]
    ask(bob, 3, func=LONG)
    ask(cy, 4, func=LONG)
    assert numbers_of(claim(NOON), claim(NOON)) == [3, None], "the last worker is for tasks that are not long"
    ask(cy, 5)
    assert numbers_of(claim(NOON)) == [5]


def test_owner_may_run_one_long_task_fewer_than_there_are_places(settings: Any) -> None:
    settings.WORKERS = 5
    ask(make_user(), 1, 2, 3, 4, func=LONG)
    assert numbers_of(*(claim(NOON) for _ in range(4))) == [4, 3, 2, None]


def test_own_long_task_goes_before_short_ones_while_worker_is_kept_free(settings: Any) -> None:
    ada = make_user()
    ask(ada, 1, func=LONG)
    ask(ada, 2)
    for workers, order in ((1, [2, 1]), (3, [1, 2])):
        settings.WORKERS = workers
        OwnerTask.objects.update(leased_until=None)
        assert numbers_of(claim(NOON), claim(NOON)) == order


def test_single_worker_takes_long_tasks(settings: Any) -> None:
    settings.WORKERS = 1
    ask(make_user(), 1, 2, func=LONG)
    assert claim(NOON)
    assert claim(NOON) is None


@pytest.mark.parametrize(
    "func",
    [
        "convmemory.conversations.tasks.run",
        "convmemory.documents.tasks.process",
        "convmemory.documents.tasks.draw",
        "convmemory.ops.tasks.write_own_archive",
        "summaries.tasks.make",
    ],
)
def test_task_that_cannot_stop_is_always_long(func: str) -> None:
    enqueue_for(make_user().pk, func, 1)
    assert OwnerTask.objects.get().is_long


def test_lease_is_renewed_while_child_process_runs(answer: Callable[[Answer], None]) -> None:
    leases: list[datetime | None] = []

    def convert_in_child(number: int, *, owner_id: int) -> dict[str, Any]:
        before = OwnerTask.objects.get().leased_until
        fair_queue.keep_task()
        leases.extend([before, OwnerTask.objects.get().leased_until])
        return {}

    answer(convert_in_child)
    enqueue_for(make_user().pk, FUNC, 1)
    work()
    before, after = leases
    assert before is not None
    assert after is not None
    assert after > before
    assert not OwnerTask.objects.exists(), "the lease is still this worker's"


# --- nothing is lost, nothing is done twice ---------------------------------------------------------


def test_task_enqueued_twice_is_stored_once() -> None:
    ada = make_user()
    ask(ada, 1, 1)
    assert OwnerTask.objects.count() == 1


def test_two_people_can_ask_for_task_that_has_no_arguments() -> None:
    people = make_user(), make_user()
    for person in people:
        assert enqueue_for(person.pk, "convmemory.conversations.tasks.count_for_statistics")
    assert set(OwnerTask.objects.values_list("owner_id", flat=True)) == {person.pk for person in people}


def test_task_of_deleted_owner_is_not_enqueued() -> None:
    ada = make_user()
    number = ada.pk
    ada.delete()
    assert not enqueue_for(number, FUNC, 1)
    assert not OwnerTask.objects.exists()


def test_task_enqueued_during_its_run_is_run_again(answer: Callable[[Answer], None]) -> None:
    ada, done = make_user(), []

    def index(number: int, *, owner_id: int) -> dict[str, Any]:
        done.append(number)
        if len(done) == 1:
            enqueue_for(ada.pk, FUNC, number)
        return {}

    answer(index)
    enqueue_for(ada.pk, FUNC, 1)
    work_off(orm.ORM())
    assert done == [1, 1]
    assert not OwnerTask.objects.exists()


def test_task_of_killed_worker_is_claimed_after_its_lease() -> None:
    ask(make_user(), 1)
    assert claim(NOON)
    assert claim(NOON + timedelta(seconds=60)) is None
    again = claim(NOON + fair_queue.LEASE)
    assert again
    assert again.attempts == 2


def test_task_whose_workers_were_stopped_need_not_wait_for_end_of_its_lease() -> None:
    ask(make_user(), 1, 2)
    with subprocess.Popen(["true"]) as ended:
        pass
    now = timezone.now()
    alive, dead = claim(now), claim(now)
    assert alive
    assert dead
    OwnerTask.objects.filter(pk=dead.pk).update(cluster=alive.cluster.rpartition(":")[0] + f":{ended.pid}")
    revive()
    assert dict(OwnerTask.objects.values_list("pk", "leased_until")) == {alive.pk: alive.leased_until, dead.pk: None}


def test_task_that_kills_its_worker_is_given_up() -> None:
    ask(make_user(), 1)
    claims = [claim(NOON + fair_queue.LEASE * number) for number in range(fair_queue.MAX_ATTEMPTS + 1)]
    assert [task is None for task in claims] == [False] * fair_queue.MAX_ATTEMPTS + [True]
    assert not OwnerTask.objects.exists()


def test_task_that_fails_waits_longer_each_time(answer: Callable[[Answer], None]) -> None:
    def fail(number: int, *, owner_id: int) -> dict[str, Any]:
        raise OSError("the disk is full")

    answer(fail)
    ask(make_user(), 1)
    pauses = []
    for _ in range(2):
        OwnerTask.objects.update(due_at=timezone.now())
        with pytest.raises(OSError, match="full"):
            work()
        pauses.append(OwnerTask.objects.get().due_at - timezone.now())
    assert timedelta(minutes=1) < pauses[0] <= timedelta(minutes=2) < pauses[1] <= timedelta(minutes=4)


def test_task_with_progress_may_take_any_number_of_slices(answer: Callable[[Answer], None]) -> None:
    left = [3 * fair_queue.MAX_ATTEMPTS]

    def index(number: int, *, owner_id: int) -> dict[str, Any]:
        left[0] -= 1
        return {"again_in_s": 0.0} if left[0] else {}

    answer(index)
    enqueue_for(make_user().pk, FUNC, 1)
    work_off(orm.ORM())
    assert left == [0]
    assert not OwnerTask.objects.exists()


def test_waiting_task_keeps_its_attempts(answer: Callable[[Answer], None]) -> None:
    answer(lambda number, owner_id: {"again_in_s": 600.0})
    ask(make_user(), 1)
    OwnerTask.objects.update(attempts=3)
    work()
    task = OwnerTask.objects.get()
    assert task.attempts == 3
    assert timedelta(0) < task.due_at - timezone.now() <= timedelta(seconds=600)


def test_function_of_accepts_only_known_tasks() -> None:
    for path in ("os.getcwd", "search.tasks.enqueue_index", "search.tasks.nothing", "convmemory.ops.tasks.erase", ""):
        assert fair_queue.function_of(path) is None
    assert fair_queue.function_of(FUNC) is not None


def test_erasure_drops_queued_tasks_of_owner_only() -> None:
    ada, bob = make_user(), make_user()
    ask(ada, 1, 2)
    ask(bob, 3)
    assert drop_queued(ada.pk) >= 2
    assert list(OwnerTask.objects.values_list("owner", flat=True)) == [bob.pk]


def test_history_shows_task_and_not_ticket(answer: Callable[[Answer], None]) -> None:
    answer(lambda number, owner_id: {})
    ask(make_user(), 7)
    ticket: dict[str, Any] = {"id": "0" * 32, "name": "ticket", "func": fair_queue.TICKET, "args": (), "success": True}
    measures.on_start(None, task=ticket)
    work()
    measures.on_end(None, task=ticket)
    assert (ticket["func"], ticket["args"], ticket["group"], ticket["save"]) == (FUNC, (7,), "", True)
    idle: dict[str, Any] = {"id": "0" * 32, "name": "ticket", "func": fair_queue.TICKET, "args": (), "success": True}
    measures.on_end(None, task=idle)
    assert (idle["func"], "save" in idle) == (fair_queue.TICKET, False)


# --- tickets, on both brokers -----------------------------------------------------------------------


def test_every_task_is_done_in_rounds(broker: brokers.Broker, answer: Callable[[Answer], None]) -> None:
    ada, bob = make_user(), make_user()
    done: list[int] = []
    slices = {number: 3 if number < 100 else 1 for number in (1, 2, 3, 100, 101)}

    def index(number: int, *, owner_id: int) -> dict[str, Any]:
        done.append(number)
        slices[number] -= 1
        return {"again_in_s": 0.0} if slices[number] else {}

    answer(index)
    for number in (1, 2, 3):
        enqueue_for(ada.pk, FUNC, number)
    for number in (100, 101):
        enqueue_for(bob.pk, FUNC, number)
    work_off(broker)
    assert not any(slices.values())
    assert {done.index(100), done.index(101)} <= set(range(4))
    assert not OwnerTask.objects.exists()


def test_tickets_stay_bounded_during_large_import(broker: brokers.Broker, answer: Callable[[Answer], None]) -> None:
    answer(lambda number, owner_id: {})
    ada = make_user()
    for number in range(3 * tickets_wanted()):
        enqueue_for(ada.pk, FUNC, number)
    assert broker.queue_size() <= tickets_wanted() + 1
    worked = 0
    while OwnerTask.objects.exists():
        assert take(broker), "a task without a ticket"
        work()
        worked += 1
        assert broker.queue_size() <= tickets_wanted() + 1
    assert worked == 3 * tickets_wanted()


def test_tasks_requested_in_one_block_have_tickets_at_once_and_at_its_end(broker: brokers.Broker) -> None:
    ada = make_user()
    with ticket_every_second():
        enqueue_for(ada.pk, FUNC, 1)
        assert take(broker)  # by a worker that has not claimed the task yet
        with CaptureQueriesContext(connection) as ran:
            enqueue_for(ada.pk, FUNC, 2)
        assert len(ran) == 1
        assert broker.queue_size() == 0
    assert broker.queue_size() == 1


def test_asking_again_and_again_adds_no_ticket_while_workers_are_busy(broker: brokers.Broker) -> None:
    ada = make_user()
    for _ in range(100):
        enqueue_for(ada.pk, FUNC, 1)
    assert broker.queue_size() == 1
    for number in range(100):
        enqueue_for(ada.pk, LONG, number)
    assert broker.queue_size() == tickets_wanted()


def test_many_sweeps_without_free_worker_add_one_ticket_for_each_task(broker: brokers.Broker) -> None:
    ask(make_user(), 1, 2)
    for _ in range(10):
        revive()
    assert broker.queue_size() == 2


def test_queue_entries_of_installation_are_no_tickets(broker: brokers.Broker) -> None:
    for number in range(20):
        enqueue("convmemory.ops.tasks.erase", number)
    enqueue_for(make_user().pk, FUNC, 1)
    assert broker.queue_size() == 21


@pytest.mark.parametrize("fails", [False, True])
def test_end_of_long_task_calls_one_that_waited_for_its_place(
    broker: brokers.Broker, answer: Callable[[Answer], None], settings: Any, fails: bool
) -> None:
    settings.WORKERS = 2
    ada, bob = make_user(), make_user()
    enqueue_for(ada.pk, LONG, 1)
    enqueue_for(bob.pk, LONG, 2)
    done: list[int] = []

    def convert(number: int, *, owner_id: int) -> dict[str, Any]:
        if not done:
            while take(broker):
                assert work() == {}, "the other worker may do no long task"
        done.append(number)
        if fails and len(done) == 1:
            raise OSError("the disk is full")
        return {}

    answer(convert)
    assert take(broker)
    with suppress(OSError):
        work()
    assert broker.queue_size() == 1
    work_off(broker)
    assert sorted(done) == [1, 2]  # one that failed is tried again later


def test_periodic_task_waits_once_however_many_schedulers_there_are(broker: brokers.Broker) -> None:
    schedules.ensure_schedules()
    for _ in range(3):
        Schedule.objects.update(next_run=timezone.now() - timedelta(hours=1))
        scheduler(broker)
        schedules.enqueue_sweep()
    assert broker.queue_size() == len(schedules.SCHEDULES)
    assert not Schedule.objects.filter(next_run__lt=timezone.now()).exists()
    while broker.queue_size():
        take(broker)
    Schedule.objects.update(next_run=timezone.now() - timedelta(hours=1))
    scheduler(broker)
    assert broker.queue_size() == len(schedules.SCHEDULES), "those that a worker took are added again"


def test_lost_tickets_are_found(broker: brokers.Broker, answer: Callable[[Answer], None]) -> None:
    answer(lambda number, owner_id: {})
    ask(make_user(), 1, 2)
    broker.delete_queue()
    assert revive() == 2
    work_off(broker)
    assert not OwnerTask.objects.exists()
    assert revive() == 0


def test_without_redis_tasks_wait_for_their_tickets(broker: brokers.Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    if isinstance(broker, orm.ORM):
        pytest.skip("the database is the queue")
    monkeypatch.setattr(Conf, "REDIS", f"redis://127.0.0.1:{free_port()}/0")
    enqueue_for(make_user().pk, FUNC, 1)
    assert OwnerTask.objects.count() == 1
    assert not OrmQ.objects.exists()


def test_process_that_keeps_its_connection_to_queue_opens_no_other(
    broker: brokers.Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queueing._held, "broker", None)
    queueing.keep_connection()
    monkeypatch.setattr(Conf, "REDIS", f"redis://127.0.0.1:{free_port()}/0")
    enqueue_for(make_user().pk, FUNC, 1)
    enqueue_for(make_user().pk, FUNC, 2)
    assert broker.queue_size() == 2
