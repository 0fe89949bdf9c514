"""Background tasks of imports and statistics: each loads by id, calls one function and returns a small dict."""

import time
from typing import Any

from convmemory.accounts.callers import Caller
from convmemory.conversations.importing import queue
from convmemory.conversations.importing.links import undo
from convmemory.conversations.importing.models import Import
from convmemory.conversations.importing.queue import run_import
from convmemory.conversations.statistics import count_changed
from convmemory.core.postgres.archives import over_all_archives
from convmemory.core.queue.fair_queue import asked_for, enqueue_for, slice_end, task

RUN = "convmemory.conversations.tasks.run"


def enqueue_import(*, archive_id: int, import_id: int, started_by: int | None = None) -> None:
    """Enqueue the import of one upload; in a space it takes the turn of `started_by`, or of who acts."""
    enqueue_for(archive_id, RUN, import_id, group="import", person_id=started_by)


@task(long=True)
def run(import_id: int, *, archive_id: int) -> dict[str, Any]:
    """Import one upload in a separate process, then enqueue the owner's next, which may have arrived meanwhile."""
    state = run_import(archive_id=archive_id, import_id=import_id)
    # An import can arrive while another one of the same owner runs, and its own task then ends at once.
    if state is not None:
        _enqueue_all(queue.next_imports(archive_id=archive_id))
        sender = Import.objects.filter(pk=import_id, archive_id=archive_id).values_list("started_by", flat=True).first()
        enqueue_count(archive_id, person_id=sender)
    return {"state": state or "not now"}


def enqueue_undo(row: Import) -> None:
    """Enqueue the undoing of one import."""
    enqueue_for(row.archive_id, "convmemory.conversations.tasks.undo_import", row.pk, group="import")


@task()
def undo_import(import_id: int, *, archive_id: int) -> dict[str, Any]:
    """Undo one import for one slice of time."""
    row = Import.objects.filter(pk=import_id, archive_id=archive_id).first()
    finished = row is None or undo(caller=Caller.for_archive(archive_id), import_id=import_id, deadline=slice_end())
    return {"finished": True} if finished else {"again_in_s": 0.0}


def enqueue_count(archive_id: int, *, person_id: int | None = None) -> None:
    """Enqueue counting what changed since the last count, for the statistics page; in a space for who added to it."""
    count = "convmemory.conversations.tasks.count_for_statistics"
    enqueue_for(archive_id, count, group="statistics", person_id=person_id)


@task()
def count_for_statistics(*, archive_id: int) -> dict[str, Any]:
    """Count conversations for one slice of time."""
    end, counted = slice_end(), 0
    while batch := count_changed(archive_id=archive_id):
        counted += batch
        if time.monotonic() > end:
            return {"counted": counted, "again_in_s": 0.0}
    return {"counted": counted}


@over_all_archives
def sweep() -> dict[str, Any]:
    """Enqueue imports whose worker died and those without a task in the queue; scheduled every minute."""
    lost, tidied = queue.release_lost(), queue.tidy()
    in_hand = {task.args[0] for task in asked_for(RUN).only("args")}
    missed = [row for row in queue.next_imports() if row[1] not in in_hand]
    return {"lost": lost, "tidied": tidied, "enqueued": _enqueue_all(missed)}


def _enqueue_all(rows: list[tuple[int, int, int | None]]) -> int:
    for archive_id, import_id, started_by in rows:
        enqueue_import(archive_id=archive_id, import_id=import_id, started_by=started_by)
    return len(rows)
