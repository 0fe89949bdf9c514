"""The queue goes round by owner, in slices; nothing in it is lost or done twice."""

import subprocess
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import transaction
from django.utils import timezone
from django_q.conf import Conf
from django_q.models import Schedule
from django_q.scheduler import scheduler

from convmemory.accounts import spaces
from convmemory.core.acting import acting_for
from convmemory.core.models import OwnerTask
from convmemory.core.queue import broker as brokers
from convmemory.core.queue import fair_queue
from convmemory.core.queue.broker import FairBroker
from convmemory.core.queue.fair_queue import claim, enqueue, enqueue_for, release_leases, work
from convmemory.ops.observability import measures
from convmemory.ops.privacy.task_arguments import drop_queued
from convmemory.ops.runtime import schedules
from tests.factories import make_user

pytestmark = pytest.mark.django_db(transaction=True)

FUNC, LONG = "search.tasks.index", "convmemory.documents.tasks.process"
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)

Answer = Callable[..., dict[str, Any]]


@pytest.fixture
def answer(monkeypatch: pytest.MonkeyPatch) -> Callable[[Answer], None]:
    """Puts a function in the place of every task."""
    return lambda function: monkeypatch.setattr(fair_queue, "function_of", lambda path: function)


@pytest.fixture
def broker() -> FairBroker:
    return FairBroker()


@pytest.fixture(autouse=True)
def no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Conf, "POLL", 0)


def take(broker: FairBroker) -> bool:
    """Return whether the broker wakes a worker."""
    return bool(broker.dequeue())


def work_off(broker: FairBroker, *, at_most: int = 1_000) -> int:
    """Work as one worker does until the broker has nothing for it; return the number of tasks."""
    for count in range(at_most):
        if not take(broker):
            return count
        work()
    raise AssertionError(f"still tasks after {at_most}")


def owners_served(user_by_id: dict[int, str], count: int) -> list[str]:
    served = []
    for number in range(count):
        task = claim(NOON + timedelta(seconds=number))
        served.append(user_by_id[task.archive_id or 0] if task else "-")
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
    owners = [task.archive_id if task else None for task in claims]
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

    def convert_in_child(number: int, *, archive_id: int) -> dict[str, Any]:
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


def test_task_enqueued_twice_is_stored_once() -> None:
    ada = make_user()
    ask(ada, 1, 1)
    assert OwnerTask.objects.count() == 1


def test_two_people_can_ask_for_task_that_has_no_arguments() -> None:
    people = make_user(), make_user()
    for person in people:
        assert enqueue_for(person.pk, "convmemory.conversations.tasks.count_for_statistics")
    assert set(OwnerTask.objects.values_list("archive_id", flat=True)) == {person.pk for person in people}


def test_task_of_deleted_owner_is_not_enqueued() -> None:
    ada = make_user()
    number = ada.pk
    ada.delete()
    assert not enqueue_for(number, FUNC, 1)
    assert not OwnerTask.objects.exists()


def test_task_enqueued_during_its_run_is_run_again(answer: Callable[[Answer], None]) -> None:
    ada, done = make_user(), []

    def index(number: int, *, archive_id: int) -> dict[str, Any]:
        done.append(number)
        if len(done) == 1:
            enqueue_for(ada.pk, FUNC, number)
        return {}

    answer(index)
    enqueue_for(ada.pk, FUNC, 1)
    work_off(FairBroker())
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
    release_leases()
    assert dict(OwnerTask.objects.values_list("pk", "leased_until")) == {alive.pk: alive.leased_until, dead.pk: None}


def test_task_that_kills_its_worker_is_given_up() -> None:
    ask(make_user(), 1)
    claims = [claim(NOON + fair_queue.LEASE * number) for number in range(fair_queue.MAX_ATTEMPTS + 1)]
    assert [task is None for task in claims] == [False] * fair_queue.MAX_ATTEMPTS + [True]
    assert not OwnerTask.objects.exists()


def test_task_that_fails_waits_longer_each_time(answer: Callable[[Answer], None]) -> None:
    def fail(number: int, *, archive_id: int) -> dict[str, Any]:
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

    def index(number: int, *, archive_id: int) -> dict[str, Any]:
        left[0] -= 1
        return {"again_in_s": 0.0} if left[0] else {}

    answer(index)
    enqueue_for(make_user().pk, FUNC, 1)
    work_off(FairBroker())
    assert left == [0]
    assert not OwnerTask.objects.exists()


def test_waiting_task_keeps_its_attempts(answer: Callable[[Answer], None]) -> None:
    answer(lambda number, archive_id: {"again_in_s": 600.0})
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
    assert list(OwnerTask.objects.values_list("archive", flat=True)) == [bob.pk]


def test_history_shows_task_and_not_entry_of_broker(answer: Callable[[Answer], None]) -> None:
    answer(lambda number, archive_id: {})
    ask(make_user(), 7)
    entry = brokers.entry() | {"success": True}
    measures.on_start(None, task=entry)
    work()
    measures.on_end(None, task=entry)
    assert (entry["func"], entry["args"], entry["group"], entry["save"]) == (FUNC, (7,), "", True)
    idle = brokers.entry() | {"success": True}
    measures.on_start(None, task=idle)
    measures.on_end(None, task=idle)
    assert (idle["func"], idle["save"]) == (brokers.run_next, False)


def test_every_task_is_done_in_rounds(broker: FairBroker, answer: Callable[[Answer], None]) -> None:
    ada, bob = make_user(), make_user()
    done: list[int] = []
    slices = {number: 3 if number < 100 else 1 for number in (1, 2, 3, 100, 101)}

    def index(number: int, *, archive_id: int) -> dict[str, Any]:
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


@pytest.mark.parametrize("fails", [False, True])
def test_end_of_long_task_wakes_worker_for_one_that_waited_for_its_place(
    broker: FairBroker, answer: Callable[[Answer], None], settings: Any, fails: bool
) -> None:
    settings.WORKERS = 2
    ada, bob = make_user(), make_user()
    enqueue_for(ada.pk, LONG, 1)
    enqueue_for(bob.pk, LONG, 2)
    done: list[int] = []

    def convert(number: int, *, archive_id: int) -> dict[str, Any]:
        if not done:
            assert not take(broker), "the other worker may do no long task"
        done.append(number)
        if fails and len(done) == 1:
            raise OSError("the disk is full")
        return {}

    answer(convert)
    assert take(broker)
    with suppress(OSError):
        work()
    work_off(broker)
    assert sorted(done) == [1, 2]  # one that failed is tried again later


def test_periodic_task_waits_once_however_many_schedulers_there_are(broker: FairBroker) -> None:
    schedules.ensure_schedules()
    for _ in range(3):
        Schedule.objects.update(next_run=timezone.now() - timedelta(hours=1))
        scheduler(broker)
        schedules.enqueue_sweep()
    assert broker.queue_size() == len(schedules.SCHEDULES)
    assert not Schedule.objects.filter(next_run__lt=timezone.now()).exists()
    claimed = [claim() for _ in range(2)]
    assert all(claimed)
    Schedule.objects.update(next_run=timezone.now() - timedelta(hours=1))
    scheduler(broker)
    assert broker.queue_size() == len(schedules.SCHEDULES), "those that a worker took are added again"
    assert broker.lock_size() == 2


def test_schedule_shows_task_that_it_led_to(broker: FairBroker, answer: Callable[[Answer], None]) -> None:
    schedules.ensure_schedules()
    Schedule.objects.exclude(func=schedules.SWEEP).delete()
    for _ in range(2):
        Schedule.objects.update(next_run=timezone.now() - timedelta(hours=1))
        scheduler(broker)
    assert Schedule.objects.get().task == OwnerTask.objects.get().task_id.hex


def test_task_is_visible_to_workers_once_its_transaction_commits(broker: FairBroker) -> None:
    with transaction.atomic():
        enqueue_for(make_user().pk, FUNC, 1)
        enqueue(schedules.SWEEP)
        transaction.set_rollback(True)
    assert not take(broker)
    with transaction.atomic():
        enqueue(schedules.SWEEP)
    assert take(broker)


def test_installation_goes_first_and_leaves_worker_for_owners(settings: Any) -> None:
    settings.WORKERS = 3
    ask(make_user(), 1)
    for number in range(3):
        enqueue("convmemory.ops.tasks.erase", number)
    now = timezone.now()
    assert numbers_of(*(claim(now) for _ in range(4))) == [0, 1, 1, None]
    assert [task.archive_id is None for task in OwnerTask.objects.order_by("-leased_until")] == [
        True,
        True,
        True,
        False,
    ]


def test_running_task_of_installation_is_added_again_but_only_once(monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[int] = []

    def erase(number: int) -> dict[str, Any]:
        done.append(number)
        if len(done) == 1:
            for _ in range(3):
                enqueue("convmemory.ops.tasks.erase", number)
        return {}

    monkeypatch.setattr(fair_queue, "find_task", lambda name: erase)
    enqueue("convmemory.ops.tasks.erase", 7)
    assert work_off(FairBroker()) == 2
    assert done == [7, 7]


def test_failed_task_of_installation_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> dict[str, Any]:
        raise OSError("the disk is full")

    monkeypatch.setattr(fair_queue, "find_task", lambda name: fail)
    enqueue(schedules.SWEEP)
    with pytest.raises(OSError, match="full"):
        work()
    task = OwnerTask.objects.get()
    assert (task.attempts, task.leased_until) == (1, None)
    assert task.due_at > timezone.now() + timedelta(minutes=1)


def make_spaces(person: User, count: int) -> list[int]:
    return [spaces.create_space(person=person, name=f"Room {number}").pk for number in range(count)]


def test_person_with_eight_archives_counts_as_one_caller() -> None:
    ada, bob = make_user(), make_user()
    for number, space in enumerate(make_spaces(ada, 8)):
        with acting_for(space, person_id=ada.pk):
            enqueue_for(space, FUNC, number)
    for number in (100, 101):
        enqueue_for(bob.pk, FUNC, number)
    assert set(OwnerTask.objects.values_list("person", flat=True)) == {ada.pk, None}
    claims = [claim(timezone.now() + timedelta(seconds=number)) for number in range(4)]
    assert [task.archive_id == bob.pk for task in claims if task] == [False, True, False, True]


def test_hanging_long_tasks_of_person_in_eight_archives_delay_no_other_person(settings: Any) -> None:
    settings.WORKERS = 3
    ada, bob = make_user(), make_user()
    for number, space in enumerate(make_spaces(ada, 8)):
        with acting_for(space, person_id=ada.pk):
            enqueue_for(space, LONG, number)
    hanging = [claim() for _ in range(3)]
    assert [task is not None for task in hanging] == [True, False, False]
    enqueue_for(bob.pk, FUNC, 100)
    enqueue_for(bob.pk, LONG, 101)
    assert numbers_of(claim(), claim()) == [101, 100]


def test_archives_of_one_person_take_turns() -> None:
    ada = make_user()
    first, second = make_spaces(ada, 2)
    for space, numbers in ((first, (1, 2, 3)), (second, (11, 12)), (ada.pk, (21,))):
        for number in numbers:
            with acting_for(space, person_id=ada.pk):
                enqueue_for(space, FUNC, number)
    served = []
    for second_s in range(6):
        task = claim(timezone.now() + timedelta(seconds=second_s))
        assert task
        served.append(task.archive_id)
        task.delete()
    assert served == [first, second, ada.pk, first, second, first]


def test_task_enqueued_by_task_counts_for_same_person(answer: Callable[[Answer], None]) -> None:
    ada = make_user()
    (space,) = make_spaces(ada, 1)
    answer(lambda number, archive_id: {"asked": enqueue_for(archive_id, FUNC, number + 1)})
    with acting_for(space, person_id=ada.pk):
        enqueue_for(space, FUNC, 1)
    work()
    assert list(OwnerTask.objects.values_list("args", "archive", "person")) == [([2], space, ada.pk)]


def test_upkeep_of_eight_spaces_counts_as_one_caller() -> None:
    ada, bob = make_user(), make_user()
    for number, space in enumerate(make_spaces(ada, 8)):
        enqueue_for(space, FUNC, number)
    for number in (100, 101):
        enqueue_for(bob.pk, FUNC, number)
    claims = [claim(timezone.now() + timedelta(seconds=number)) for number in range(4)]
    assert [task.archive_id == bob.pk for task in claims if task] == [False, True, False, True]


def test_sweep_that_asks_again_leaves_task_to_person() -> None:
    ada = make_user()
    (space,) = make_spaces(ada, 1)
    with acting_for(space, person_id=ada.pk):
        enqueue_for(space, FUNC, 1)
    enqueue_for(space, FUNC, 1)
    assert OwnerTask.objects.get().person_id == ada.pk
