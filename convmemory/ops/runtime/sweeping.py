"""Repairs the installation: finds work that was missed, stuck, stale or orphaned, repairs it, and keeps counts.

The quick sweep checks index states only and runs every minute; the deep one reads the rows themselves. Both may run at
once on several machines: all they do is conditional or idempotent.
"""

import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from django.db import connection, transaction
from django.utils import timezone
from django_q.models import Failure

from convmemory.accounts.auditing import forget_old_entries
from convmemory.accounts.sessions import forget_expired_sessions
from convmemory.conversations.messages.responses import release_abandoned_responses
from convmemory.conversations.messages.storage_quota import recount, uncounted_conversations
from convmemory.conversations.messages.titling import renew_titles
from convmemory.conversations.models import Conversation, StoredUse
from convmemory.core.files.work_folders import sweep_work_folders
from convmemory.core.measuring import Measurement, report
from convmemory.core.postgres.archives import for_all_archives
from convmemory.core.sql import load_sql
from convmemory.documents.drawing import prune_all_pictures
from convmemory.embeddings.spaces import active_space
from convmemory.ops.models import SweepRun
from convmemory.ops.privacy.stored_files import sweep_orphans
from search.indexing.layouts import find_lost_postings
from search.indexing.packing import pack_again
from search.indexing.sweeping import (
    count_orphans,
    delete_orphans,
    drop_used_set_aside,
    find_damage,
    mark_damage,
    reconcile_sources,
    sources_to_index,
)

BATCH = 200
KEPT_RUNS = 3_000  # two days of quick sweeps
KEPT_FAILURES = 1_000  # django-q itself never deletes failed tasks

Enqueue = Callable[[Collection[int]], None]


@dataclass(frozen=True, slots=True)
class Swept:
    """The number of defects of one kind, and the number repaired or enqueued."""

    found: int = 0
    fixed: int = 0


def sweep(*, enqueue: Enqueue) -> SweepRun:
    """Find missed and stuck work; `enqueue` enqueues the indexing of sources."""
    missed = _in_all_archives(lambda: _enqueue_all(sources_to_index(limit=BATCH), enqueue))
    return _run({"missed": missed, "stuck": _in_all_archives(_stuck), "work folders": _work_folders}, deep=False)


def deep_sweep(*, enqueue: Enqueue) -> SweepRun:
    """Find orphaned, missing and stale rows; reads all derived rows.

    Deletes files without a row, and pictures that exceed their limit.
    """
    kinds = {
        "orphaned": _in_all_archives(_orphaned),
        "postings": _in_all_archives(_postings),
        "stale": _in_all_archives(lambda: _stale(enqueue)),
        "failed tasks": _failed_tasks,
        "audit log": _audit_log,
        "sessions": _expired_sessions,
        "pictures": _pictures,
        "files": _files,
        "storage": _in_all_archives(_storage),
        "titles": _in_all_archives(_titles),
    }
    return _run(kinds, deep=True)


def _in_all_archives(look: Callable[[], Swept]) -> Callable[[], Swept]:
    def look_everywhere() -> Swept:
        swept = list(for_all_archives(look))
        return Swept(sum(each.found for each in swept), sum(each.fixed for each in swept))

    return look_everywhere


def _stuck() -> Swept:
    released = len(release_abandoned_responses(limit=BATCH))
    return Swept(released, released)


def _orphaned() -> Swept:
    reconciled = reconcile_sources() + drop_used_set_aside()
    found = sum(count_orphans().values())
    return Swept(found + reconciled, reconciled + (delete_orphans() if found else 0))


def _postings() -> Swept:
    lost = find_lost_postings()
    return Swept(len(lost), pack_again(lost))


def _stale(enqueue: Enqueue) -> Swept:
    space = active_space()
    damages = find_damage(space, ("missing", "stale"), limit=BATCH)
    mark_damage(damages, space)
    return _enqueue_all([damage.source_id for damage in damages], enqueue)


def _failed_tasks() -> Swept:
    old = Failure.objects.order_by("-stopped").values_list("pk", flat=True)[KEPT_FAILURES:]
    deleted, _ = Failure.objects.filter(pk__in=list(old)).delete()
    return Swept(deleted, deleted)


def _audit_log() -> Swept:
    deleted = forget_old_entries()
    return Swept(deleted, deleted)


def _expired_sessions() -> Swept:
    deleted = forget_expired_sessions()
    return Swept(deleted, deleted)


def _pictures() -> Swept:
    pruned = prune_all_pictures()
    return Swept(pruned, pruned)


def _files() -> Swept:
    deleted = sweep_orphans()
    return Swept(deleted, deleted)


def _work_folders() -> Swept:
    deleted = sweep_work_folders()
    return Swept(deleted, deleted)


def _storage() -> Swept:
    counted = reconcile_storage()
    return Swept(counted, counted)


def _titles() -> Swept:
    renewed, deadline = 0, time.monotonic() + MAX_S
    while time.monotonic() < deadline and (some := renew_titles(limit=BATCH)):
        renewed += some
    return Swept(renewed, renewed)


def _enqueue_all(source_ids: list[int], enqueue: Enqueue) -> Swept:
    enqueue(source_ids)
    return Swept(len(source_ids), len(source_ids))


def _run(kinds: Mapping[str, Callable[[], Swept]], *, deep: bool) -> SweepRun:
    started_at, started = timezone.now(), time.perf_counter()
    swept: dict[str, Swept] = {}
    for kind, look in kinds.items():
        began = time.perf_counter()
        swept[kind] = look()
        report(Measurement("sweep", kind, time.perf_counter() - began, items=swept[kind].found))
    run = SweepRun.objects.create(
        deep=deep,
        started_at=started_at,
        seconds=round(time.perf_counter() - started, 3),
        found={kind: item.found for kind, item in swept.items()},
        fixed={kind: item.fixed for kind, item in swept.items()},
    )
    SweepRun.objects.filter(pk__lte=run.pk - KEPT_RUNS).delete()
    return run


# --- storage sweep --------------------------------------------------------------------------------
# Recounts what each owner has stored (bytes, turns, documents), from the sums of conversations, documents and kept
# uploads.
#
# Transactions that store and delete maintain the owners' sums (`messages/storage_quota.py`). This finds rows that
# bypassed them: those of an older version, which have no sum yet, and those that an administrator or a restore
# changed.


COUNTED_AT_ONCE = 100
MAX_S = 20.0


def reconcile_storage() -> int:
    """Count uncounted rows, for `MAX_S` at most, then each owner's sum; return how many sums were missing or wrong."""
    counted: int = 0
    deadline = time.monotonic() + MAX_S
    while time.monotonic() < deadline and (ids := uncounted_conversations(limit=COUNTED_AT_ONCE)):
        with transaction.atomic():
            locked = Conversation.objects.select_for_update().filter(pk__in=ids, stored_bytes=None).order_by("pk")
            recount(list(locked.values_list("pk", flat=True)))
        counted += len(ids)
    with connection.cursor() as cursor:
        cursor.execute(load_sql("convmemory.ops.runtime", "count_documents"))
        counted += cursor.rowcount
        cursor.execute(load_sql("convmemory.ops.runtime", "owners_with_storage"))
        owners = [archive_id for (archive_id,) in cursor.fetchall()]
    counted += sum(_reconcile(archive_id) for archive_id in owners)
    return counted


def _reconcile(archive_id: int) -> bool:
    """Set the owner's sum; return whether it was wrong.

    The row is locked first. A transaction that stores data changes the row last, so that the sum is taken either before
    or after all of its data.
    """
    with transaction.atomic():
        StoredUse.objects.get_or_create(archive_id=archive_id)
        row = StoredUse.objects.select_for_update().get(archive_id=archive_id)
        with connection.cursor() as cursor:
            cursor.execute(load_sql("convmemory.ops.runtime", "stored_by_owner"), {"owner": archive_id})
            stored = tuple(cursor.fetchone())
        if (row.stored_bytes, row.turns, row.documents) == stored:
            return False
        row.stored_bytes, row.turns, row.documents = stored
        row.save(update_fields=["stored_bytes", "turns", "documents"])
    return True
