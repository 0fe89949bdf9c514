"""The bytes that each person has stored, and their limit, MAX_STORED_MB_PER_USER.

Texts of messages and events count with their source lines and `ROW_BYTES` per row, documents with their files and
texts, kept uploads with their files. One row per owner holds the sum. Every transaction that stores or deletes changes
it in its last statement: the row is locked only for the commit, and any number of processes count together.
Conversations and documents hold their own sums, from which a sweep restores the owner's.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.db import connection

from convmemory.conversations.models import Conversation, StoredUse
from convmemory.core.acting import in_group_of
from convmemory.core.config import config
from convmemory.core.errors import StorageFull
from convmemory.core.sql import load_sql

MB = 1024**2
ROW_BYTES = 256
"""Added per message or event for its other columns and its index entries, so that short texts count too."""


@dataclass(frozen=True, slots=True)
class StorageUse:
    """A person's stored bytes; `limit` is 0 without a quota."""

    stored: int
    limit: int

    @property
    def is_full(self) -> bool:
        return 0 < self.limit <= self.stored


def use_of_storage(*, owner_id: int) -> StorageUse:
    """Return the person's stored bytes and the limit."""
    stored = StoredUse.objects.filter(owner_id=owner_id).values_list("stored_bytes", flat=True).first()
    return StorageUse(stored or 0, _limit())


def require_room(*, owner_id: int, size: int) -> None:
    """Raise StorageFull if a file of `size` bytes exceeds the quota, before it is stored; counts nothing."""
    use = use_of_storage(owner_id=owner_id)
    if use.is_full or 0 < use.limit < use.stored + size:
        raise _full()


def count_stored(*, owner_id: int, change: int, conversation_id: int | None = None, may_exceed: bool = False) -> None:
    """Add `change` bytes, which may be negative, to the owner's sum and to the conversation's.

    It must be the last statement of the transaction that stores them. With `may_exceed` the limit is not applied: a
    reply that was paid for is not discarded. Raises: StorageFull, which must roll back the transaction.
    """
    if not change:
        return
    parameters: dict[str, Any] = {
        "owner": owner_id,
        "conversation": conversation_id,
        "change": change,
        "limit": 0 if may_exceed else _limit(),
    }
    with in_group_of(owner_id), connection.cursor() as cursor:  # staff requests span the groups of all owners
        cursor.execute(load_sql("convmemory.conversations", "count_stored"), parameters)
        if cursor.fetchone() is None:
            raise _full()


def bytes_of_messages(*, owner_id: int, message_ids: Sequence[int]) -> int:
    """Return the number of bytes that these stored messages count for the quota."""
    parameters: dict[str, Any] = {"owner": owner_id, "messages": list(message_ids), "row_bytes": ROW_BYTES}
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
        count_stored(owner_id=conversation.owner_id, change=recount([conversation.pk]), may_exceed=True)


def uncounted_conversations(*, limit: int) -> list[int]:
    """Return conversations of an older version, whose bytes have not been counted yet."""
    rows = Conversation.objects.filter(stored_bytes=None).order_by("pk")
    return list(rows.values_list("pk", flat=True)[:limit])


def _limit() -> int:
    return config.max_stored_mb_per_user * MB


def _full() -> StorageFull:
    return StorageFull(
        f"You have no room left for this: a person may store {_limit() // MB:,} MB here (MAX_STORED_MB_PER_USER). "
        "Delete conversations or documents that you no longer need and empty the trash, which counts, too, or ask "
        "whoever runs the server for more. "
        "Settings, Your data, shows how much is used."
    )
