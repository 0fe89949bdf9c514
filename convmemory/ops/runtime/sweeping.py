"""Repairs the installation: finds work that was missed, stuck, stale or orphaned, repairs it, and keeps counts.

The quick sweep checks index states only and runs every minute; the deep one reads the rows themselves. Both may run at
once on several machines: all they do is conditional or idempotent.
"""

import logging
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from django.utils import timezone
from django_q.models import Failure

from convmemory.accounts.auditing import forget_old_entries
from convmemory.accounts.sessions import forget_expired_sessions
from convmemory.accounts.space_invitations import forget_old_invitations
from convmemory.conversations.messages.numbering import renew_outcomes
from convmemory.conversations.messages.responses import release_abandoned_responses
from convmemory.core.errors import EmbedderUnavailable
from convmemory.core.files.work_folders import sweep_work_folders
from convmemory.core.measuring import Measurement, report
from convmemory.core.postgres.archives import for_all_archives
from convmemory.documents.drawing import prune_all_pictures
from convmemory.embeddings.spaces import active_space
from convmemory.ops.models import SweepRun
from convmemory.ops.privacy.storage_sums import MAX_S, reconcile_added, reconcile_storage
from convmemory.ops.privacy.stored_files import sweep_orphans
from convmemory.ops.reembed.moving import move_to_int8
from search.indexing.packing import find_lost_postings, pack_again
from search.indexing.sweeping import (
    count_orphans,
    delete_orphans,
    find_damage,
    mark_damage,
    reconcile_sources,
    sources_to_index,
)

BATCH = 200
KEPT_RUNS = 3_000  # two days of quick sweeps
KEPT_FAILURES = 1_000  # django-q itself never deletes failed tasks

logger = logging.getLogger(__name__)

Enqueue = Callable[[Collection[int]], None]


@dataclass(frozen=True, slots=True)
class Swept:
    """The number of defects of one kind, and the number repaired or enqueued."""

    defects: int = 0
    fixed: int = 0


def sweep(*, enqueue: Enqueue) -> SweepRun:
    """Find missed and stuck work; `enqueue` enqueues the indexing of sources."""
    missed = _in_all_archives(lambda: _enqueue_all(sources_to_index(limit=BATCH), enqueue))
    kinds = {
        "missed": missed,
        "stuck": _in_all_archives(_stuck),
        "work folders": _work_folders,
        "archives to move": _move,
    }
    return _run(kinds, deep=False)


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
        "invitations to spaces": _invitations,
        "sessions": _expired_sessions,
        "pictures": _pictures,
        "files": _files,
        "storage": _in_all_archives(_storage),
        "added to spaces": _added,
        "outcomes": _in_all_archives(_outcomes),
    }
    return _run(kinds, deep=True)


def _in_all_archives(look: Callable[[], Swept]) -> Callable[[], Swept]:
    def look_everywhere() -> Swept:
        swept = list(for_all_archives(look))
        return Swept(sum(each.defects for each in swept), sum(each.fixed for each in swept))

    return look_everywhere


def _stuck() -> Swept:
    released = len(release_abandoned_responses(limit=BATCH))
    return Swept(released, released)


def _orphaned() -> Swept:
    reconciled = reconcile_sources()
    orphans = sum(count_orphans().values())
    return Swept(orphans + reconciled, reconciled + (delete_orphans() if orphans else 0))


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


def _invitations() -> Swept:
    deleted = forget_old_invitations()
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


def _move() -> Swept:
    try:
        archives = move_to_int8()
    except EmbedderUnavailable as error:
        logger.warning("No archive can be moved to the 8-bit model: %s", error)
        return Swept()
    return Swept(archives, archives)


def _storage() -> Swept:
    counted = reconcile_storage()
    return Swept(counted, counted)


def _added() -> Swept:
    counted = reconcile_added()
    return Swept(counted, counted)


def _outcomes() -> Swept:
    renewed, deadline = 0, time.monotonic() + MAX_S
    while time.monotonic() < deadline and (some := renew_outcomes(limit=BATCH)):
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
        report(Measurement("sweep", kind, time.perf_counter() - began, items=swept[kind].defects))
    run = SweepRun.objects.create(
        deep=deep,
        started_at=started_at,
        seconds=round(time.perf_counter() - started, 3),
        found={kind: item.defects for kind, item in swept.items()},
        fixed={kind: item.fixed for kind, item in swept.items()},
    )
    SweepRun.objects.filter(pk__lte=run.pk - KEPT_RUNS).delete()
    return run
