"""Stores the queue and its history as JSON, and lets workers run only this program's tasks.

django-q2 pickles tasks, results and the state of its workers. Reading a pickle runs the code in it, so that one forged
row would run code in a worker or in the administration. `install` puts JSON in their place before anything is read, for
every broker. Rows that contain anything else count as unreadable, and a schedule, task or hook that names another
function is not run.
"""

import json
import pydoc
import re
from collections.abc import Callable
from datetime import datetime
from functools import wraps
from types import SimpleNamespace
from typing import Any
from uuid import UUID

from django.db.models.signals import post_save
from django.utils.functional import Promise
from django_q import scheduler, signals, signing, worker
from django_q.exceptions import TimeoutException
from django_q.models import Task
from django_q.status import Stat

from convmemory.core import acting
from convmemory.core.errors import ConvMemoryError
from convmemory.core.logs import safe_traceback
from convmemory.core.queue.queueing import scheduled_task

TASK_NAME = re.compile(r"(?:convmemory(?:\.[a-z_]+)+|memory|search|summaries)\.(?:[a-z]+_)?tasks\.[a-z][a-z_]*")
"""Functions in modules `tasks` and `*_tasks` of this program."""

MOVED = {"convmemory.ops.sweep_tasks": "convmemory.ops.tasks"}
"""Modules of tasks by the names under which version 0.1 has queued and scheduled them."""

TIME, ID, STATE = "$time", "$id", "$state"
STATE_FIELDS = frozenset({
    "workers", "tob", "reincarnations", "pid", "cluster_id", "sentinel", "status", "done_q_size", "host", "monitor",
    "task_q_size", "pusher", "timestamp",
})  # fmt: skip


class TaskFailed(ConvMemoryError):
    """A task raised an error; the message names its place and class."""


class JsonSerializer:
    """Serialises what django-q2 signs: JSON, extended by times, ids and the state of workers."""

    def dumps(self, value: Any) -> bytes:
        """Serialise `value`.

        Raises: TypeError for anything else, an instance of a model for example: give tasks ids.
        """
        return json.dumps(value, default=_as_json, separators=(",", ":")).encode()

    def loads(self, data: bytes) -> Any:
        """Deserialise `data`. Raises: BadSignature, on which django-q2 drops the entry."""
        try:
            value = json.loads(data, object_hook=_from_json)
        except (ValueError, TypeError, AttributeError, RecursionError) as error:
            raise signing.BadSignature(f"This is no JSON: {type(error).__name__}.") from None
        if isinstance(value, dict) and isinstance(value.get("args"), list):
            value["args"] = tuple(value["args"])
        return value


def install() -> None:
    """Replace every function that unpickles. Runs once per process, before the first query."""
    # django-q2 has no setting for its serialiser, so these names of it are replaced.
    signing.PickleSerializer = JsonSerializer
    field = type(Task._meta.get_field("args"))
    field.to_python = lambda self, value: value
    field.from_db_value = lambda self, value, expression, connection: _stored(value)
    field.get_db_prep_value = lambda self, value, connection=None, prepared=False: (
        None if value is None else json.dumps(value, default=str)
    )
    worker.pydoc = SimpleNamespace(locate=find_task)
    scheduler.async_task = scheduled_task
    post_save.disconnect(signals.call_hook, sender=Task)


def is_task(name: object) -> bool:
    """Return whether a worker would run a function of this name."""
    return isinstance(name, str) and TASK_NAME.fullmatch(name) is not None


def find_task(name: object) -> Callable[..., Any] | None:
    """Return the task with this name, whose errors are reported without private text; None for any other function."""
    module, _, function = str(name).rpartition(".")
    found = pydoc.locate(f"{MOVED.get(module, module)}.{function}") if is_task(name) else None
    return _reporting(found) if callable(found) else None


def _reporting(task: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(task)
    def run(*args: Any, **kwargs: Any) -> Any:
        try:
            with acting.maintenance():  # `fair_queue.work` switches to the task's owner
                return task(*args, **kwargs)
        except TimeoutException as error:
            raise TimeoutException(safe_traceback(error)) from None
        except Exception as error:  # a task's boundary: django-q2 stores and logs the error
            raise TaskFailed(safe_traceback(error)) from None

    return run


def _as_json(value: object) -> Any:
    if isinstance(value, datetime):
        return {TIME: value.isoformat()}
    if isinstance(value, UUID):
        return {ID: str(value)}
    if isinstance(value, Promise):
        return str(value)
    if isinstance(value, Stat):
        return {STATE: {name: field for name, field in vars(value).items() if name in STATE_FIELDS}}
    raise TypeError(f"A task cannot carry a {type(value).__name__}: give it ids, numbers or strings.")


def _from_json(value: dict[str, Any]) -> Any:
    if len(value) != 1:
        return value
    ((name, content),) = value.items()
    if name == TIME:
        return datetime.fromisoformat(content)
    if name == ID:
        return UUID(content)
    if name == STATE:
        state = Stat.__new__(Stat)
        vars(state).update({name: field for name, field in content.items() if name in STATE_FIELDS})
        return state
    return value


def _stored(text: str | None) -> Any:
    """Return the value of a history column; None if it is unreadable, as pickles of earlier versions are."""
    try:
        return None if text is None else json.loads(text)
    except (ValueError, RecursionError):
        return None
