"""The rows: missing, stale and orphaned ones, and conversations that are stuck or were given up."""

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

from django.db import connection, transaction
from django.db.models import Count
from django.utils import timezone

from convmemory.conversations.importing.kept_uploads import conversations_named_by_file, drop_upload, lost_uploads
from convmemory.conversations.messages.responses import release_abandoned_responses
from convmemory.conversations.models import Conversation
from convmemory.core.config import config
from convmemory.core.files.private_files import has_digest
from convmemory.core.program import COMMAND
from convmemory.core.queue.retrying import EMBEDDING
from convmemory.core.sql import load_sql
from convmemory.core.text import one_line
from convmemory.documents.models import Document
from convmemory.documents.storage import document_storage
from convmemory.documents.tasks import sweep as sweep_documents
from convmemory.embeddings.spaces import active_space
from convmemory.ops.doctor.findings import Area, Fact, Finding, Severity, plural
from convmemory.ops.privacy.stored_files import find_orphans, sweep_orphans
from memory.models import MessageEmbedding
from search.indexing.packing import find_lost_postings, pack_again
from search.indexing.sweeping import (
    count_orphans,
    delete_orphans,
    find_damage,
    mark_damage,
    of_older_layout_alone,
    sources_to_index,
)
from search.models import Item, ItemEmbedding, PassageBlock, SourceIndex
from search.tasks import enqueue_sources
from search.vectors.packing import ENTRY, ITEMS_PER_BLOCK

MANY = 10_000
SHOWN_REASONS = 3
READ_BYTES = 2 * 1024**3  # of documents' files, chosen at random: some ten seconds of a disk


def facts() -> Iterator[Fact]:
    with connection.cursor() as cursor:
        cursor.execute(load_sql("convmemory.ops.doctor", "table_sizes"))
        for table, rows, size in cursor.fetchall():
            yield table, f"about {rows:,} rows, {size}"


def check_orphans() -> Iterator[Finding]:
    counts = count_orphans()
    if counts:
        listed = ", ".join(f"{table} {count:,}" for table, count in counts.items())
        yield Finding(
            "rows.orphaned",
            Severity.ERROR,
            f"Rows of items that are gone: {listed}.",
            f"`{COMMAND} doctor --fix` deletes them; the deep sweep does so every hour.",
            lambda: f"{plural(delete_orphans(), 'row')} deleted.",
        )


def check_damage() -> Iterator[Finding]:
    space = active_space()
    damages = find_damage(space, ("missing", "stale"))
    if damages:
        items = sum(damage.items for damage in damages)
        yield Finding(
            "rows.stale",
            Severity.WARNING,
            f"Vectors of {plural(items, 'item')} in {plural(len(damages), 'source')} are missing or of another "
            "content, though the items count as embedded.",
            f"Run `{COMMAND} reembed`, or `{COMMAND} doctor --fix`, which hands them to the sweep.",
            lambda: f"{plural(mark_damage(damages, space), 'source')} marked: the sweep indexes them.",
        )


def check_passages() -> Iterator[Finding]:
    space = active_space()
    with connection.cursor() as cursor:
        parameters = {"space": space.pk, "entry_bytes": ENTRY.itemsize, "items": ITEMS_PER_BLOCK}
        cursor.execute(load_sql("convmemory.ops.doctor", "passages_lost"), parameters)
        lost = [row[0] for row in cursor.fetchall()]
    if not lost:
        return

    def index_again() -> str:
        with transaction.atomic():
            ItemEmbedding.objects.filter(source__in=lost, space=space).delete()
            PassageBlock.objects.filter(source__in=lost, space=space).update(is_kept=True)
            SourceIndex.objects.filter(source__in=lost, space=space).update(indexed_version=0, dirty_from=None)
        return f"{plural(len(lost), 'source')} will be indexed again."

    yield Finding(
        "rows.passages-lost",
        Severity.ERROR,
        f"The blocks of passages of {plural(len(lost), 'source')} differ from what was stored.",
        f"`{COMMAND} doctor --fix` indexes them again; only what is missing is computed.",
        index_again,
    )


def check_postings() -> Iterator[Finding]:
    lost = find_lost_postings()
    if lost:
        yield Finding(
            "rows.postings-lost",
            Severity.ERROR,
            f"The postings of {plural(len(lost), 'source')} do not match their items.",
            f"`{COMMAND} doctor --fix` packs them again; the deep sweep does so every hour.",
            lambda: f"{plural(pack_again(lost), 'source')} handed to the sweep.",
        )


def check_stuck() -> Iterator[Finding]:
    stuck = Conversation.objects.filter(
        status=Conversation.Status.PROCESSING, processing_until__lt=timezone.now() - timedelta(minutes=2)
    ).count()
    if stuck:
        yield Finding(
            "rows.stuck",
            Severity.WARNING,
            f"In {plural(stuck, 'conversation')} the writer of a response has died, and nothing has released it yet.",
            f"`{COMMAND} doctor --fix` releases them, as the sweep of a running worker does every minute.",
            lambda: f"{plural(len(release_abandoned_responses()), 'conversation')} taken back.",
        )


def check_given_up() -> Iterator[Finding]:
    states = SourceIndex.objects.filter(space=active_space())
    failed = states.exclude(error="").filter(attempts__gte=EMBEDDING.max_attempts)
    for error, count in failed.values_list("error").annotate(count=Count("pk")).order_by("-count")[:SHOWN_REASONS]:
        yield Finding(
            "rows.given-up",
            Severity.ERROR,
            f"{plural(count, 'source')} could not be indexed {EMBEDDING.max_attempts} times: {one_line(error, 200)}",
            f"Remove the cause, then run `{COMMAND} reembed --only failed`.",
        )


def check_messages() -> Iterator[Finding]:
    failed = MessageEmbedding.objects.filter(
        space=active_space(), status=MessageEmbedding.Status.FAILED, attempts__gte=EMBEDDING.max_attempts
    ).count()
    if failed:
        yield Finding(
            "rows.messages-failed",
            Severity.WARNING,
            f"{plural(failed, 'message')} could not be embedded {EMBEDDING.max_attempts} times and cannot be recalled.",
            "Their records say why. Remove the cause, then POST /api/v1/conversations/{id}/memory/embed asks again.",
        )


def check_refused() -> Iterator[Finding]:
    refused = Item.objects.exclude(error="").count()
    if refused:
        yield Finding(
            "rows.refused",
            Severity.NOTICE,
            f"The model refused {plural(refused, 'item')}, which searches find by words only.",
            f"With another model, or after a repair: `{COMMAND} reembed --only failed`.",
        )


def check_behind() -> Iterator[Finding]:
    behind = sources_to_index(limit=MANY)
    if not behind:
        return

    def enqueue_all() -> str:
        enqueue_sources(behind)
        return f"{plural(len(behind), 'source')} handed to the workers."

    if older := of_older_layout_alone(behind):
        yield Finding(
            "rows.older-layout",
            Severity.NOTICE,
            f"An earlier version indexed {plural(older, 'source')}: words typed without accents or separators may not "
            "find them yet.",
            "The sweep hands them to the workers, some at a time; nothing is embedded for it.",
            enqueue_all,
        )
    if older < len(behind):
        yield Finding(
            "rows.behind",
            Severity.WARNING,
            f"The index of {plural(len(behind) - older, 'source')} is not up to date, though no task waits.",
            f"Check that workers are running (queue.no-worker), or index them with `{COMMAND} reembed`.",
            enqueue_all,
        )


def check_documents() -> Iterator[Finding]:
    stuck = Document.objects.filter(
        status__in=(Document.Status.UPLOADED, Document.Status.PROCESSING),
        updated_at__lt=timezone.now() - timedelta(seconds=2 * config.document_timeout_s),
    )
    if count := stuck.count():
        yield Finding(
            "rows.documents-stuck",
            Severity.WARNING,
            f"Waiting to be read for longer than reading one may take: {plural(count, 'document')}.",
            "Check that workers are running (queue.no-worker): their sweep processes them every minute.",
            lambda: f"{sweep_documents()['enqueued']} handed to the workers.",
        )
    storage = document_storage()
    lost = damaged = changed = 0
    unread = READ_BYTES
    for row in Document.objects.order_by("?").iterator(chunk_size=500):
        size = storage.size_of(str(row.file))
        lost += size is None
        damaged += size not in (None, row.size)
        if size == row.size and unread > 0:
            unread -= row.size
            changed += not has_digest(Path(storage.path(str(row.file))), Path(str(row.file)).name)
    if lost:
        yield Finding(
            "rows.documents-lost",
            Severity.ERROR,
            f"The files of {plural(lost, 'document')} are missing from MEDIA_ROOT: only their texts are left.",
            "Put the folder back from a backup; on several machines MEDIA_ROOT has to be a shared folder.",
        )
    if damaged:
        yield Finding(
            "rows.documents-damaged",
            Severity.ERROR,
            f"The files of {plural(damaged, 'document')} in MEDIA_ROOT do not have the size that was uploaded.",
            "Put them back from a backup, or ask their owners to upload them again: they are then read again.",
        )
    if changed:
        yield Finding(
            "rows.documents-changed",
            Severity.ERROR,
            f"The files of {plural(changed, 'document')} in MEDIA_ROOT have another content than was uploaded.",
            "Put them back from a backup, or ask their owners to upload them again: they are then read again.",
        )


def check_files() -> Iterator[Finding]:
    orphans = find_orphans()
    if orphans:
        yield Finding(
            "rows.files-orphaned",
            Severity.WARNING,
            f"No row names {plural(len(orphans), 'file')} in MEDIA_ROOT and IMPORT_FOLDER, so that no page shows them.",
            f"`{COMMAND} doctor --fix` deletes them; the deep sweep does so every hour.",
            lambda: f"{plural(sweep_orphans(), 'file')} deleted.",
        )


def check_kept_uploads() -> Iterator[Finding]:
    lost = lost_uploads()
    if lost:
        yield Finding(
            "rows.uploads-lost",
            Severity.WARNING,
            f"The files of {plural(len(lost), 'kept upload')} are missing from MEDIA_ROOT or damaged.",
            "Put the folder back from a backup; `--fix` deletes their records. What was imported from them stays.",
            lambda: f"{plural(sum(drop_upload(row) for row in lost_uploads()), 'upload')} forgotten.",
        )


def check_merged() -> Iterator[Finding]:
    merged = conversations_named_by_file()
    if merged:
        yield Finding(
            "rows.named-by-file",
            Severity.WARNING,
            f"An earlier version took the id of {plural(merged, 'conversation')} from the name of the file: "
            "conversations of several uploads with one name may be mixed in them.",
            f"Run `{COMMAND} reimport`: it reads the kept uploads again and stores conversations that differ apart.",
        )


AREA = Area(
    "rows",
    facts,
    (
        check_orphans,
        check_damage,
        check_passages,
        check_postings,
        check_stuck,
        check_given_up,
        check_messages,
        check_refused,
        check_behind,
        check_documents,
        check_kept_uploads,
        check_merged,
    ),
    by_archives=True,
)
