"""Counts the bytes, turns and documents of each archive and person, and applies their limits (`accounts/quota.py`).

Texts of messages and events count with their source lines and `ROW_BYTES` per row, documents with their files and
texts, kept uploads with their files. One row per archive holds the sums; the row of a person's own archive also has
what they added to spaces, so that a limit of one person holds over all archives. Every transaction that stores or
deletes changes the rows in its last statements, in the order of their numbers: they are locked only for the commit, no
two transactions wait for each other, and any number of processes count together, so that no sum passes its limit.
Conversations, documents and kept uploads hold their own sums, from which a sweep restores the rows'.
"""

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any

from django.db import connection

from convmemory.accounts.models import Archive
from convmemory.accounts.quota import MB, UNLIMITED, LimitsInForce, limits_of, whom_to_ask
from convmemory.conversations.models import Conversation, StoredUse
from convmemory.core import acting
from convmemory.core.errors import StorageFull
from convmemory.core.sql import load_sql

ROW_BYTES = 256
"""Added per message or event for its other columns and its index entries, so that short texts count too."""


@dataclass(frozen=True, slots=True)
class Amounts:
    """Bytes, turns and documents."""

    size: int = 0
    turns: int = 0
    documents: int = 0

    def __add__(self, other: "Amounts") -> "Amounts":
        return Amounts(self.size + other.size, self.turns + other.turns, self.documents + other.documents)

    def __neg__(self) -> "Amounts":
        return Amounts(-self.size, -self.turns, -self.documents)

    @property
    def grows(self) -> bool:
        return max(self.size, self.turns, self.documents) > 0


NOTHING = Amounts()


@dataclass(frozen=True, slots=True)
class StorageUse:
    """The amounts that count for a space or a person, with those that the person added to spaces, and the limits."""

    stored: int
    turns: int
    documents: int
    limits: LimitsInForce
    added: Amounts = NOTHING

    @property
    def is_full(self) -> bool:
        """Return whether a limit is reached."""
        return any(self.is_over(Amounts(**{name: 1})) for name in ("size", "turns", "documents"))

    @property
    def room(self) -> int | None:
        """Return the bytes that can be stored until the limit; None without one."""
        return max(0, self.limits.stored_bytes - self.stored) if self.limits.stored_bytes else None

    def is_over(self, growth: Amounts) -> bool:
        """Return whether storing so much more would pass a limit; what is not added is not compared."""
        growths = (
            (self.stored, growth.size, self.limits.stored_bytes),
            (self.turns, growth.turns, self.limits.turns),
            (self.documents, growth.documents, self.limits.documents),
        )
        return any(more > 0 and 0 < limit < used + more for used, more, limit in growths)


@dataclass(slots=True)
class StorageChange:
    """What a transaction adds and deletes: in archives, and for the persons who added it to spaces."""

    stored: dict[int, Amounts] = field(default_factory=lambda: defaultdict(Amounts))
    added: dict[int, Amounts] = field(default_factory=lambda: defaultdict(Amounts))

    def add(self, amounts: Amounts, *, archive_id: int, added_by: int | None) -> None:
        """Note what an archive stores more; of a space, also for the person who adds it."""
        self.stored[archive_id] += amounts
        if added_by is not None:
            self.added[added_by] += amounts

    def delete_conversation(self, conversation: Conversation) -> None:
        """Note that a conversation, locked, is deleted with all that persons added to it."""
        size = conversation.stored_bytes or 0
        self.stored[conversation.archive_id] += -Amounts(size, conversation.turn_count)
        for person, (size_added, turns_added) in conversation.additions.items():
            self.added[int(person)] += -Amounts(size_added, turns_added)


def use_of_storage(*, archive_id: int) -> StorageUse:
    """Return what counts for a person, in all archives, or for a space, and the limits. Two queries."""
    row = StoredUse.objects.filter(archive_id=archive_id).first() or StoredUse()
    added = Amounts(row.added_bytes, row.added_turns, row.added_documents)
    total = Amounts(row.stored_bytes, row.turns, row.documents) + added
    return StorageUse(total.size, total.turns, total.documents, limits_of(archive_id=archive_id), added)


def room_left(*, archive_id: int, turns: int = 0, documents: int = 0) -> int | None:
    """Return the bytes that who acts can add; None without a limit, 0 if such turns or documents do not fit."""
    rooms = []
    for number in {archive_id, _adder_to(archive_id) or archive_id}:
        with _sums_of(number):
            use = use_of_storage(archive_id=number)
        rooms.append(0 if use.is_over(Amounts(1, turns, documents)) else use.room)
    return min((room for room in rooms if room is not None), default=None)


def require_room(*, archive_id: int, size: int, turns: int = 0, documents: int = 0) -> None:
    """Raise StorageFull if a file of `size` bytes, and what will be read from it, would pass a limit; counts nothing.

    For refusing a file before it is stored.
    """
    growth, adder = Amounts(max(size, 1), turns, documents), _adder_to(archive_id)
    for number in {archive_id, adder or archive_id}:
        with _sums_of(number):
            use = use_of_storage(archive_id=number)
        if use.is_over(growth):
            raise _full(use, growth, is_of_space=adder not in (None, number))


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
    """Add `change` bytes, turns and documents, which may be negative, to the sums of the archive and of who acts.

    They are added to the conversation's, too. It must be the last call in the transaction that stores them.
    `ahead` turns will follow and are not added: there must be room for them. With `may_exceed` no limit is applied: a
    reply that was paid for is not discarded. Raises: StorageFull, which must roll back the transaction.
    """
    amounts, adder, storage = Amounts(change, turns, documents), _adder_to(archive_id), StorageChange()
    storage.stored[archive_id] = amounts
    additions = None
    if adder is not None and conversation_id is not None and amounts != NOTHING:
        additions = _share(storage, amounts, adder=adder, archive_id=archive_id, conversation_id=conversation_id)
    elif adder is not None:
        storage.added[adder] = amounts
    count_changes(storage, ahead=ahead, conversation_id=conversation_id, additions=additions, may_exceed=may_exceed)


def _adder_to(archive_id: int) -> int | None:
    """Return the person whom additions to a space count for, too; None for a person's own archive."""
    who = acting.current()
    return who.adds_for if who.archive_id == archive_id else None


def _share(
    storage: StorageChange, amounts: Amounts, *, adder: int, archive_id: int, conversation_id: int
) -> dict[str, list[int]]:
    """Return what each person has added to a conversation, locked, after a change by one; note what changes for them.

    What others added is reduced only as far as the conversation has less than that: who shortens it gains no room.
    """
    row = Conversation.with_trash.filter(pk=conversation_id, archive_id=archive_id)
    stored_bytes, turns, before = row.values_list("stored_bytes", "turn_count", "additions").get()
    size, turns_before = before.get(str(adder), (0, 0))
    after: dict[str, list[int]] = {person: [*share] for person, share in before.items()}
    after[str(adder)] = [max(size + amounts.size, 0), max(turns_before + amounts.turns, 0)]
    for kind, total in enumerate((None if stored_bytes is None else stored_bytes + amounts.size, turns)):
        excess = 0 if total is None else sum(share[kind] for share in after.values()) - total
        for share in sorted(after.values(), key=lambda share: -share[kind]):
            reduction = min(max(excess, 0), share[kind])
            share[kind] -= reduction
            excess -= reduction
    for person, share in after.items():
        storage.added[int(person)] = Amounts(*share) + -Amounts(*before.get(person, (0, 0)))
    return after


def count_changes(
    change: StorageChange,
    *,
    ahead: int = 0,
    conversation_id: int | None = None,
    additions: Mapping[str, Sequence[int]] | None = None,
    may_exceed: bool = False,
) -> None:
    """Add what a transaction has stored and deleted to the sums, like `count_stored`. Raises: StorageFull."""
    adder = acting.current().adds_for
    for number in sorted({*change.stored, *change.added}):
        stored, added = change.stored.get(number, NOTHING), change.added.get(number, NOTHING)
        if stored == added == NOTHING:
            continue
        growth = stored + added
        with _sums_of(number, as_member=number in change.stored):
            if number not in change.stored and not growth.grows and not Archive.objects.filter(pk=number).exists():
                continue  # the person was erased since
            limits = limits_of(archive_id=number) if growth.grows and not may_exceed else UNLIMITED
            parameters: dict[str, Any] = {
                "owner": number,
                "conversation": conversation_id if number in change.stored else None,
                "additions": None if additions is None else json.dumps(additions),
                "size": stored.size,
                "turns": stored.turns,
                "documents": stored.documents,
                "added_size": added.size,
                "added_turns": added.turns,
                "added_documents": added.documents,
                "ahead": ahead,
                "max_bytes": limits.stored_bytes or None,
                "max_turns": limits.turns or None,
                "max_documents": limits.documents or None,
            }
            with connection.cursor() as cursor:
                cursor.execute(load_sql("convmemory.conversations", "count_stored"), parameters)
                if cursor.fetchone() is None:
                    asked = growth + Amounts(turns=ahead)
                    raise _full(use_of_storage(archive_id=number), asked, is_of_space=adder not in (None, number))


def _sums_of(number: int, *, as_member: bool = False) -> AbstractContextManager[None]:
    """Let the block use the sums of the archive, or of the person, with this number."""
    is_here = acting.current().archive_id == number
    return nullcontext() if is_here else acting.counting_for(number, as_member=as_member)


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
        change = StorageChange()
        change.add(Amounts(recount([conversation.pk])), archive_id=conversation.archive_id, added_by=None)
        count_changes(change, may_exceed=True)


def uncounted_conversations(*, limit: int) -> list[int]:
    """Return conversations of an older version, whose bytes have not been counted yet."""
    rows = Conversation.objects.filter(stored_bytes=None).order_by("pk")
    return list(rows.values_list("pk", flat=True)[:limit])


def _full(use: StorageUse, growth: Amounts, *, is_of_space: bool) -> StorageFull:
    if use.is_over(Amounts(turns=growth.turns)):
        used, added = f"{use.turns:,} of {use.limits.turns:,} turns", f"{use.added.turns:,}"
    elif use.is_over(Amounts(documents=growth.documents)):
        used, added = f"{use.documents:,} of {use.limits.documents:,} documents", f"{use.added.documents:,}"
    else:
        used = f"{use.stored / MB:,.1f} of {use.limits.stored_bytes // MB:,} MB"
        added = f"{use.added.size / MB:,.1f} MB"
    where = f" ({added} in spaces)" if use.added != NOTHING else ""
    return StorageFull(
        f"{'This space has' if is_of_space else 'You have'} no room left for this: {used} are used{where}. Delete "
        "conversations or documents that are no longer needed and empty the trash, which counts, too, or ask "
        f"{whom_to_ask()} for more."
    )
