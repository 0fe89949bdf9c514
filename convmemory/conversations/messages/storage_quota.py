"""Counts the bytes, turns and documents of each owner, and applies their limits (`accounts/quota.py`).

Texts of messages and events count with their source lines and `ROW_BYTES` per row, documents with their files and
texts, kept uploads with their files. One row per owner holds the sums. Every transaction that stores or deletes changes
it in its last statement: the row is locked only for the commit, and any number of processes count together, so that no
sum passes its limit. Conversations and documents hold their own sums, from which a sweep restores the owner's.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.db import connection

from convmemory.accounts.quota import MB, UNLIMITED, LimitsInForce, limits_of, whom_to_ask
from convmemory.conversations.models import Conversation, StoredUse
from convmemory.core import acting
from convmemory.core.errors import StorageFull
from convmemory.core.sql import load_sql

ROW_BYTES = 256
"""Added per message or event for its other columns and its index entries, so that short texts count too."""


@dataclass(frozen=True, slots=True)
class StorageUse:
    """The amounts that an owner has stored, and the limits."""

    stored: int
    turns: int
    documents: int
    limits: LimitsInForce

    @property
    def is_full(self) -> bool:
        """Return whether a limit is reached."""
        return any(self.is_over(**{name: 1}) for name in ("size", "turns", "documents"))

    def is_over(self, *, size: int = 0, turns: int = 0, documents: int = 0) -> bool:
        """Return whether storing so much more would pass a limit; what is not added is not compared."""
        growths = (
            (self.stored, size, self.limits.stored_bytes),
            (self.turns, turns, self.limits.turns),
            (self.documents, documents, self.limits.documents),
        )
        return any(growth > 0 and 0 < limit < used + growth for used, growth, limit in growths)


def use_of_storage(*, archive_id: int) -> StorageUse:
    """Return what a person or a space has stored, and the limits. Two queries."""
    row = StoredUse.objects.filter(archive_id=archive_id).first() or StoredUse()
    return StorageUse(row.stored_bytes, row.turns, row.documents, limits_of(archive_id=archive_id))


def require_room(*, archive_id: int, size: int, turns: int = 0, documents: int = 0) -> None:
    """Raise StorageFull if a file of `size` bytes, and what will be read from it, would pass a limit; counts nothing.

    For refusing a file before it is stored.
    """
    use = use_of_storage(archive_id=archive_id)
    if use.is_over(size=max(size, 1), turns=turns, documents=documents):
        raise _full(use, size=max(size, 1), turns=turns, documents=documents)


def count_stored(
    *,
    archive_id: int,
    change: int = 0,
    turns: int = 0,
    documents: int = 0,
    ahead: int = 0,
    conversation_id: int | None = None,
    may_exceed: bool = False,
) -> None:
    """Add `change` bytes, turns and documents, which may be negative, to the owner's sums.

    The bytes are added to the conversation's, too. It must be the last statement of the transaction that stores them.
    `ahead` turns will follow and are not added: there must be room for them. With `may_exceed` no limit is applied: a
    reply that was paid for is not discarded. Raises: StorageFull, which must roll back the transaction.
    """
    if not (change or turns or documents):
        return
    is_limited = not may_exceed and max(change, turns, documents) > 0
    limits = limits_of(archive_id=archive_id) if is_limited else UNLIMITED
    parameters: dict[str, Any] = {
        "owner": archive_id,
        "conversation": conversation_id,
        "change": change,
        "turns": turns,
        "documents": documents,
        "ahead": ahead,
        "max_bytes": limits.stored_bytes or None,
        "max_turns": limits.turns or None,
        "max_documents": limits.documents or None,
    }
    with connection.cursor() as cursor:
        cursor.execute(load_sql("convmemory.conversations", "count_stored"), parameters)
        if cursor.fetchone() is None:
            use = use_of_storage(archive_id=archive_id)
            raise _full(use, size=change, turns=turns + ahead, documents=documents)


def bytes_of_messages(*, archive_id: int, message_ids: Sequence[int]) -> int:
    """Return the number of bytes that these stored messages count for the quota."""
    parameters: dict[str, Any] = {"owner": archive_id, "messages": list(message_ids), "row_bytes": ROW_BYTES}
    with connection.cursor() as cursor:
        cursor.execute(load_sql("convmemory.conversations", "bytes_of_messages"), parameters)
        return int(cursor.fetchone()[0])


def recount(conversation_ids: Sequence[int]) -> int:
    """Set the sums of locked conversations from their rows; returns by how many bytes they changed in all.

    The owners' sums are left to the caller. Reads every message of the conversations.
    """
    parameters: dict[str, Any] = {"conversations": list(conversation_ids), "row_bytes": ROW_BYTES}
    with connection.cursor() as cursor:
        cursor.execute(load_sql("convmemory.conversations", "recount_conversations"), parameters)
        return sum(change for (change,) in cursor.fetchall())


def recount_hidden(conversation: Conversation) -> None:
    """Recount a locked conversation after keys were hidden in stored texts; the last statement of a transaction.

    Does nothing if it has not been counted yet.
    """
    if conversation.stored_bytes is not None:
        count_stored(archive_id=conversation.archive_id, change=recount([conversation.pk]), may_exceed=True)


def uncounted_conversations(*, limit: int) -> list[int]:
    """Return conversations of an older version, whose bytes have not been counted yet."""
    rows = Conversation.objects.filter(stored_bytes=None).order_by("pk")
    return list(rows.values_list("pk", flat=True)[:limit])


def _full(use: StorageUse, *, size: int, turns: int, documents: int) -> StorageFull:
    place = "This space has" if acting.current().person_id else "You have"
    if use.is_over(turns=turns):
        used = f"{use.turns:,} of {use.limits.turns:,} turns"
    elif use.is_over(documents=documents):
        used = f"{use.documents:,} of {use.limits.documents:,} documents"
    else:
        used = f"{use.stored / MB:,.1f} of {use.limits.stored_bytes // MB:,} MB"
    return StorageFull(
        f"{place} no room left for this: {used} are used. Delete conversations or documents that are no longer needed "
        f"and empty the trash, which counts, too, or ask {whom_to_ask()} for more."
    )
