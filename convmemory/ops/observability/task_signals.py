"""Records each task that a worker runs: its id for the log, its duration and outcome for the counts."""

import logging
import time
from typing import Any

from django_q.humanhash import humanize
from django_q.signals import post_execute_in_worker, pre_execute

from convmemory.core import fair_queue, trace
from convmemory.core.measuring import Measurement, report

logger = logging.getLogger(__name__)


def connect() -> None:
    pre_execute.connect(on_start, dispatch_uid="ops.task_start")
    post_execute_in_worker.connect(on_end, dispatch_uid="ops.task_end")


def on_start(sender: Any, *, task: dict[str, Any], **kwargs: Any) -> None:
    trace.task_id.set(str(task["id"]))
    task["started_at_s"] = time.monotonic()


def on_end(sender: Any, *, task: dict[str, Any], **kwargs: Any) -> None:
    """Log and count the end of a task. Arguments and results are not logged: they can contain private text."""
    seconds = time.monotonic() - task.pop("started_at_s", time.monotonic())
    _name_what_was_done(task)
    failed = not task.get("success", False)
    name = task["func"] if isinstance(task["func"], str) else getattr(task["func"], "__qualname__", "callable")
    level = logging.ERROR if failed else logging.DEBUG
    logger.log(level, "The task %s %s after %.3f s", name, "failed" if failed else "ended", seconds)
    report(Measurement("task", name, seconds, failed=failed))
    trace.task_id.set("")


def _name_what_was_done(task: dict[str, Any]) -> None:
    """Enter a ticket in the history as the task that it led to, once that has ended or failed."""
    done = fair_queue.last_work.get()
    fair_queue.last_work.set(None)
    if done is not None:
        task.update(id=done.task_id, name=humanize(done.task_id), func=done.func, args=done.args, group=done.group)
        task["save"] = done.finished
