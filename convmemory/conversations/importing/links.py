"""Which messages an import added, and to which conversations: for reports, and for undoing the import.

An import adds its messages to a conversation under a lock, so their ids form one range.
"""

import logging
import time
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from django.db import connection, transaction
from django.db.models import Count, Exists, F, Min, OuterRef, Subquery

from convmemory.accounts.callers import Caller
from convmemory.accounts.holds import refuse_held
from convmemory.conversations.importers.base import FileReport
from convmemory.conversations.importing.imports import get_import
from convmemory.conversations.importing.kept_uploads import drop_upload_of, record_kept_conversation
from convmemory.conversations.importing.models import Import, ImportedConversation, KeptUpload
from convmemory.conversations.messages.ingest import SyncResult, delete_for_good
from convmemory.conversations.messages.numbering import finish_change
from convmemory.conversations.messages.responses import lock_conversation, require_idle
from convmemory.conversations.messages.storage_quota import bytes_of_messages, count_stored
from convmemory.conversations.models import Conversation
from convmemory.core.acting import acting_for
from convmemory.core.errors import InvalidInput, NotFound, OnLegalHold
from convmemory.core.sql import load_sql
from convmemory.core.text import storable
from convmemory.core.trash import outside_trash

MAX_LINKS = 2_000
LINKS_PER_FILE = 20
FILE_CHARS = 500  # the column's length

State = Import.State


@dataclass(frozen=True, slots=True)
class Link:
    """A conversation that a file contained."""

    conversation_id: int
    title: str
    turns: int
    created: bool

    @property
    def url(self) -> str:
        return f"/conversations/{self.conversation_id}"


@dataclass(frozen=True, slots=True)
class Links:
    """The first links of a file, and the number of further ones."""

    shown: tuple[Link, ...] = ()
    more: int = 0


def record_conversation(row: Import, file: FileReport, result: SyncResult, *, kept: KeptUpload | None = None) -> None:
    """Record what the import added to one conversation, if anything, and that the `kept` upload contains it.

    Called in the transaction that stores the conversation.
    """
    record_kept_conversation(kept, result.conversation_id)
    if not (result.created or result.added or result.updated):
        return
    ImportedConversation.objects.create(
        archive_id=row.archive_id,
        import_job_id=row.pk,
        conversation_id=result.conversation_id,
        file=storable(file.path)[:FILE_CHARS],
        created=result.created,
        first_message=result.first_message_id,
        last_message=result.last_message_id,
    )


def links_of(rows: Iterable[Import]) -> dict[tuple[int, str], Links]:
    """Return the links of these imports of one owner by import and file. One query."""
    numbers = [row.pk for row in rows]
    owners = {row.archive_id for row in rows}
    imported = ImportedConversation.objects.filter(
        outside_trash("conversation"), archive_id__in=owners, import_job_id__in=numbers
    ).order_by("pk")
    fields = ("import_job_id", "file", "conversation_id", "conversation__title", "conversation__turn_count", "created")
    by_file: dict[tuple[int, str], dict[int, Link]] = defaultdict(dict)
    for number, file, conversation_id, title, turns, created in imported.values_list(*fields)[:MAX_LINKS]:
        by_file[number, file].setdefault(conversation_id, Link(conversation_id, title, turns, created))
    return {
        key: Links(tuple(links.values())[:LINKS_PER_FILE], max(0, len(links) - LINKS_PER_FILE))
        for key, links in by_file.items()
    }


def conversations_so_far(rows: Iterable[Import]) -> dict[int, int]:
    """Return how many conversations each running import of one owner has changed so far."""
    running = [row for row in rows if row.state == State.RUNNING]
    stored = ImportedConversation.objects.filter(
        archive_id__in={row.archive_id for row in running}, import_job_id__in=[row.pk for row in running]
    )
    counts = stored.order_by().values_list("import_job_id").annotate(n=Count("conversation_id", distinct=True))
    return dict(counts) if running else {}


logger = logging.getLogger(__name__)


# A conversation that the import created is deleted, unless messages were added to it since; from any other, the
# messages that the import added are removed. Messages that it only updated stay as they are.
def request_undo(*, caller: Caller, import_id: int) -> Import:
    """Mark the caller's import for undoing; the calling view or command enqueues it. A repeated call changes nothing.

    Raises: NotFound, InvalidInput while it still runs, OnLegalHold if a conversation of it is held.
    """
    row = get_import(caller=caller, import_id=import_id)
    if row.is_unfinished:
        raise InvalidInput("The import has not ended yet: wait until it has, then undo it.")
    added_to = ImportedConversation.objects.filter(archive_id=caller.archive_id, import_job=row).values_list(
        "conversation_id"
    )
    refuse_held(archive_id=caller.archive_id, conversation_ids=[number for (number,) in added_to])
    ended = Import.objects.filter(pk=row.pk, archive_id=caller.archive_id, state__in=[State.DONE, State.FAILED])
    ended.update(state=State.UNDOING)
    return get_import(caller=caller, import_id=import_id)


def undo(*, caller: Caller, import_id: int, deadline: float) -> bool:
    """Revert conversation after conversation until `deadline` (monotonic seconds); returns whether all are done."""
    row = Import.objects.filter(pk=import_id, archive_id=caller.archive_id, state=State.UNDOING).first()
    if row is None:
        return True
    # What it added to a space counted for the member who sent it.
    with acting_for(row.archive_id, caused_by=row.started_by):
        while time.monotonic() < deadline:
            imported = (
                ImportedConversation.objects.filter(archive_id=caller.archive_id, import_job=row)
                .order_by("-pk")
                .first()
            )
            if imported is None:
                drop_upload_of(row)
                Import.objects.filter(pk=row.pk, state=State.UNDOING).update(state=State.UNDONE)
                return True
            # Revert one conversation. Idempotent, because a worker may die between its steps.
            try:
                if imported.first_message is not None and imported.last_message is not None:
                    ids = (imported.first_message, imported.last_message)
                    remove_messages(caller=caller, conversation_id=imported.conversation_id, ids=ids)
                left = Conversation.objects.get(pk=imported.conversation_id, archive_id=caller.archive_id).message_count
                if imported.created and not left:
                    delete_for_good(caller=caller, conversation_id=imported.conversation_id)
            except (NotFound, Conversation.DoesNotExist):
                logger.info("Conversation %s was deleted before its import was undone", imported.conversation_id)
            except OnLegalHold:
                logger.info("Conversation %s is on legal hold: undoing its import leaves it", imported.conversation_id)
            # Last: if a worker dies before, the next one repeats the step.
            ImportedConversation.objects.filter(pk=imported.pk).delete()
        return False


def link_children(*, caller: Caller) -> int:
    """Link conversations to parents that were imported after them; return how many were linked.

    The parent of a session without another one is the session whose file names it as its continuation.
    """
    continued = Conversation.objects.filter(archive_id=caller.archive_id).exclude(continued_in="")
    later = Conversation.objects.filter(
        archive=OuterRef("archive"), source=OuterRef("source"), source_id=OuterRef("continued_in"), parent_source_id=""
    )
    for earlier in continued.filter(Exists(later)).exclude(continued_in=F("source_id")):
        named = Conversation.objects.filter(
            archive_id=caller.archive_id, source=earlier.source, source_id=earlier.continued_in
        )
        named.filter(parent_source_id="").update(parent_source_id=earlier.source_id)
    parent = Conversation.objects.filter(
        archive=OuterRef("archive"), source=OuterRef("source"), source_id=OuterRef("parent_source_id")
    )
    orphans = Conversation.objects.filter(archive_id=caller.archive_id, parent=None).exclude(parent_source_id="")
    return (
        orphans.annotate(found=Subquery(parent.values("pk")[:1]))
        .exclude(found=None)
        .update(parent_id=Subquery(parent.values("pk")[:1]))
    )


def remove_messages(*, caller: Caller, conversation_id: int, ids: tuple[int, int]) -> int:
    """Delete the conversation's messages with ids in this range, both ends included; returns how many.

    Raises: NotFound, ConversationBusy, OnLegalHold.
    """
    with transaction.atomic():
        conversation = lock_conversation(caller=caller, conversation_id=conversation_id)
        refuse_held(archive_id=caller.archive_id, conversation_ids=[conversation_id])
        require_idle(conversation)
        gone = conversation.messages.filter(pk__range=ids)
        lowest, turns_before = gone.aggregate(at=Min("position"))["at"], conversation.turn_count
        if lowest is None:
            return 0
        ids_gone = list(gone.values_list("pk", flat=True))
        freed = bytes_of_messages(archive_id=caller.archive_id, message_ids=ids_gone)
        gone.delete()
        # Renumber the positions of the messages from position `lowest` on without gaps, in their order.
        left = list(
            conversation.messages.filter(position__gte=lowest).order_by("position").values_list("pk", flat=True)
        )
        parameters: dict[str, Any] = {
            "owner": conversation.archive_id,
            "conversation": conversation.pk,
            "messages": left,
            "positions": list(range(lowest, lowest + len(left))),
        }
        with connection.cursor() as cursor:
            cursor.execute(load_sql("convmemory.conversations", "set_positions"), parameters)
        finish_change(conversation, from_position=lowest, message_count=conversation.message_count - len(ids_gone))
        count_stored(
            archive_id=caller.archive_id,
            conversation_id=conversation_id,
            change=-freed,
            turns=conversation.turn_count - turns_before,
        )
    return len(ids_gone)
