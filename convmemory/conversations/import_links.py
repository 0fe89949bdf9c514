"""The messages that an import added, and their conversations: for the links of reports, and for Undo.

An import adds its messages to a conversation under a lock, so their ids form one range.
"""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from convmemory.conversations.import_models import Import, ImportedConversation
from convmemory.conversations.importers.base import FileReport
from convmemory.conversations.ingest import SyncResult
from convmemory.core.text import storable

MAX_LINKS = 2_000
LINKS_PER_FILE = 20
FILE_CHARS = 500  # the column's length


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


def record_conversation(row: Import, file: FileReport, result: SyncResult) -> None:
    """Record what the import added to one conversation, if anything; called in the transaction that stores it."""
    if not (result.created or result.added or result.updated):
        return
    ImportedConversation.objects.create(
        owner_id=row.owner_id,
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
    owners = {row.owner_id for row in rows}
    found = ImportedConversation.objects.filter(owner_id__in=owners, import_job_id__in=numbers).order_by("pk")
    fields = ("import_job_id", "file", "conversation_id", "conversation__title", "conversation__turn_count", "created")
    by_file: dict[tuple[int, str], dict[int, Link]] = defaultdict(dict)
    for number, file, conversation_id, title, turns, created in found.values_list(*fields)[:MAX_LINKS]:
        by_file[number, file].setdefault(conversation_id, Link(conversation_id, title, turns, created))
    return {
        key: Links(tuple(links.values())[:LINKS_PER_FILE], max(0, len(links) - LINKS_PER_FILE))
        for key, links in by_file.items()
    }
