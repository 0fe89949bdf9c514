"""Forged rows of the queue and its history: no pickle is read, no function runs that is not a task of this program."""

import base64
import os
import pickle
import tempfile
import uuid
from collections.abc import Iterator
from datetime import timedelta
from multiprocessing import Value
from pathlib import Path
from queue import Queue
from threading import Event
from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.db import connection
from django.urls import reverse
from django.utils import timezone
from django_q import core_signing
from django_q.brokers import get_broker
from django_q.conf import Conf
from django_q.models import Failure, OrmQ, Schedule, Success, Task
from django_q.monitor import monitor
from django_q.pusher import pusher
from django_q.scheduler import scheduler
from django_q.status import Stat
from django_q.tasks import async_task
from django_q.worker import worker

from convmemory.core.models import OwnerTask
from convmemory.core.queue import fair_queue
from convmemory.core.queue.broker import FairBroker, worker_runs
from convmemory.ops.doctor.examining import examine
from convmemory.ops.observability.index_samples import failure_reasons
from convmemory.ops.privacy.task_arguments import drop_finished, drop_queued
from tests.factories import make_user
from tests.support.api import signed_in

pytestmark = pytest.mark.django_db


class Bomb:
    """Something whose pickle makes a folder when it is read."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self.folder),)


class PickleSerializer:
    def dumps(self, value: Any) -> bytes:
        return pickle.dumps(value)


@pytest.fixture
def harm(tmp_path: Path) -> Iterator[Path]:
    """The folder that would be there had a pickle been read; it must not be."""
    folder = tmp_path / "harm"
    yield folder
    assert not folder.exists(), "code from the database has run"


@pytest.fixture(autouse=True)
def one_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    """The parts of django-q2 run here in one process, within the test's transaction."""
    monkeypatch.setattr("django.db.close_old_connections", lambda: None)


@pytest.fixture
def root() -> User:
    return User.objects.create_superuser("root", password="x")


def forged_text(harm: Path) -> str:
    return base64.b64encode(pickle.dumps(Bomb(harm))).decode()


def forged_payload(harm: Path) -> str:
    return str(core_signing.dumps(Bomb(harm), key=Conf.SECRET_KEY, salt=Conf.PREFIX, serializer=PickleSerializer))


def forge_task(harm: Path, *, success: bool, **values: Any) -> str:
    """A row of the history with pickles in every column that once held them."""
    now, pk = timezone.now(), uuid.uuid4().hex
    defaults = {"name": "forged", "func": "search.tasks.index", "started": now, "stopped": now}
    Task.objects.create(id=pk, success=success, **{**defaults, **values})
    with connection.cursor() as cursor:
        text = forged_text(harm)
        cursor.execute("UPDATE django_q_task SET args = %s, kwargs = %s, result = %s WHERE id = %s", [text] * 3 + [pk])
    return pk


def run_worker() -> list[dict[str, Any]]:
    """One round of the scheduler, pusher, worker and monitor over what is queued; the tasks that were worked on."""
    tasks: Queue[Any] = Queue()
    results: Queue[Any] = Queue()
    stop = Event()
    stop.set()
    scheduler()
    pusher(tasks, stop)
    tasks.put("STOP")
    worker(tasks, results, Value("f", -1))
    results.put("STOP")
    seen = []
    while (task := results.get()) != "STOP":
        seen.append(task)
    kept: Queue[Any] = Queue()
    for task in [*seen, "STOP"]:
        kept.put(task)
    monitor(kept)
    return seen


def test_forged_pickle_runs_code_when_unpickled(tmp_path: Path) -> None:
    pickle.loads(base64.b64decode(forged_text(tmp_path / "harm")))
    assert (tmp_path / "harm").exists()


def test_queue_of_earlier_version_is_not_read(harm: Path) -> None:
    OrmQ.objects.create(key=Conf.CLUSTER_NAME, payload=forged_payload(harm), lock=timezone.now())
    assert run_worker() == []


@pytest.mark.parametrize("func", ["os.mkdir", "convmemory.core.queue.broker.Path.mkdir", "search.tasks.os.mkdir"])
@pytest.mark.parametrize("has_owner", [False, True])
def test_forged_task_runs_no_other_function(harm: Path, func: str, has_owner: bool) -> None:
    now = timezone.now()
    owner_id = make_user("ada").pk if has_owner else None
    OwnerTask.objects.create(key="forged", func=func, args=[str(harm)], archive_id=owner_id, asked_at=now, due_at=now)
    (task,) = run_worker()
    assert not task["success"]
    assert "ValueError" in task["result"]


def test_administration_shows_forged_rows_without_reading_them(harm: Path, root: User) -> None:
    failure, success = forge_task(harm, success=False), forge_task(harm, success=True)
    client = signed_in(root)
    for name, pk in (("failure", failure), ("success", success)):
        assert client.get(reverse(f"admin:django_q_{name}_changelist")).status_code == 200
        assert client.get(reverse(f"admin:django_q_{name}_change", args=[pk])).status_code == 200
    assert client.get("/admin/").status_code == 200
    row = Failure.objects.get()
    assert (row.args, row.kwargs, row.result) == (None, None, None)
    assert Success.objects.get().result is None


@pytest.mark.parametrize("func", ["os.mkdir", "search.tasks.os.mkdir", "convmemory.core.queue.fair_queue.locate"])
def test_retrying_forged_failure_runs_nothing(harm: Path, root: User, func: str) -> None:
    root.user_permissions.add(Permission.objects.get(codename="change_failure"))
    pk = forge_task(harm, success=False, func=func)
    Task.objects.filter(pk=pk).update(args=[str(harm)], kwargs={}, hook="os.mkdir")
    client = signed_in(root)
    data = {"action": "retry", "_selected_action": pk, "post": "yes"}
    client.post(reverse("admin:django_q_failure_changelist"), data)
    assert not OwnerTask.objects.exists()
    assert not Failure.objects.exists()


def test_erasure_doctor_and_samples_read_no_pickle(harm: Path) -> None:
    ada = make_user("ada")
    forge_task(harm, success=False)
    OrmQ.objects.create(key=Conf.CLUSTER_NAME, payload=forged_payload(harm), lock=timezone.now())
    assert examine().facts
    assert failure_reasons()
    assert drop_queued(ada.pk) == 0
    assert drop_finished(ada.pk) == 1
    assert not Task.objects.exists()


@pytest.mark.parametrize("func", ["os.mkdir", "pathlib.Path.mkdir", "search.tasks.time.sleep", "shutil.rmtree"])
def test_forged_schedule_runs_no_other_function(harm: Path, func: str) -> None:
    Schedule.objects.create(
        name="forged", func=func, args=repr(str(harm)), hook="os.mkdir", schedule_type=Schedule.ONCE,
        next_run=timezone.now() - timedelta(minutes=1),
    )  # fmt: skip
    assert run_worker() == []
    assert not OwnerTask.objects.exists()


def test_hook_is_never_called() -> None:
    async_task("memory.tasks.sweep", hook="tests.integration.core.test_safe_queue.never")
    (task,) = run_worker()
    assert task["success"]
    row = Success.objects.get()
    row.hook = "tests.integration.core.test_safe_queue.never"
    row.save()


def never(task: Any) -> None:
    raise SystemExit("a hook was called")


def test_tasks_of_this_program_run_and_their_results_are_kept() -> None:
    fair_queue.enqueue("memory.tasks.sweep", group="sweep")
    (task,) = run_worker()
    assert task["success"]
    row = Success.objects.get()
    assert (row.func, row.group) == ("memory.tasks.sweep", "sweep")
    assert (row.args, row.kwargs, row.result) == ([], {}, {"enqueued": 0, "given_up": 0})
    with connection.cursor() as cursor:
        cursor.execute("SELECT args, kwargs, result FROM django_q_task")
        assert cursor.fetchone() == ("[]", "{}", '{"enqueued": 0, "given_up": 0}')
    assert not OwnerTask.objects.exists()


def test_task_that_names_user_leaves_no_history() -> None:
    fair_queue.enqueue("convmemory.ops.tasks.erase", 0)
    (task,) = run_worker()
    assert task["success"]
    assert not Task.objects.exists()


def test_task_carries_ids_and_texts_alone() -> None:
    async_task("search.tasks.index", 7, "a")
    assert OwnerTask.objects.get().args == [7, "a"]
    async_task("search.tasks.index", 8, names=["keyword arguments are not stored"])
    with pytest.raises(TypeError, match="not JSON serializable"):
        async_task("search.tasks.index", make_user())
    assert OwnerTask.objects.count() == 1


def test_state_of_cluster_is_stored_nowhere_but_its_time(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))

    class Sentinel:
        parent_pid, pid, reincarnations, cluster_id, tob = 1, 2, 3, uuid.uuid4(), timezone.now()
        broker = get_broker()
        monitor = pusher = None
        pool: tuple[Any, ...] = ()
        task_queue = result_queue = type("Size", (), {"qsize": staticmethod(lambda: 4)})

        def status(self) -> str:
            return str(Conf.IDLE)

    assert isinstance(Sentinel.broker, FairBroker)
    assert not worker_runs()
    Stat(Sentinel()).save()
    assert worker_runs()
    assert Stat.get_all() == []


def test_every_task_that_is_scheduled_may_run() -> None:
    from convmemory.ops.runtime.schedules import SCHEDULES

    for func, _ in SCHEDULES.values():
        assert fair_queue.find_task(func), func
    for name in ("os.system", "search.tasks", "builtins.eval", "search.tasks.time", "xsearch.tasks.index", None, print):
        assert fair_queue.find_task(name) is None
