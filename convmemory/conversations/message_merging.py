"""Updates the stored messages of a locked conversation from drafts: of an import, a reply, or a turn.

Messages are recognised by `source_key`. Keys are hidden before anything is stored.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from django.db import connection

from convmemory.conversations import hidden_keys
from convmemory.conversations.drafts import MessageDraft, TurnDraft, in_batches
from convmemory.conversations.merging import merge_order
from convmemory.conversations.message_rows import row_of, source_key_of
from convmemory.conversations.message_store import insert_messages, is_older_copy, update_message
from convmemory.conversations.models import Conversation
from convmemory.conversations.numbering import finish_change
from convmemory.conversations.parts import spoken_text
from convmemory.conversations.storage_quota import count_stored
from convmemory.conversations.turns import TurnCounter
from convmemory.core.errors import InvalidInput
from convmemory.core.sql import load_sql

# Batches limit the memory of an import; the bytes count because single messages can be megabytes.
BATCH = 500
BATCH_BYTES = 8 * 1024**2


@dataclass(slots=True)
class Merged:
    """The changes of a merge."""

    added: int = 0
    updated: int = 0
    unchanged: int = 0
    hidden_keys: int = 0
    stored_bytes: int = 0  # growth of the stored bytes
    message_count: int = 0  # of the conversation after the merge
    first_position: int | None = None  # lowest position whose message is new, changed or moved
    first_id: int | None = None
    last_id: int | None = None

    def touch(self, position: int) -> None:
        """Record that the message at this position has changed."""
        self.first_position = position if self.first_position is None else min(self.first_position, position)


def merge_messages(
    conversation: Conversation, drafts: Iterable[MessageDraft], *, append_only: bool = False, may_exceed: bool = False
) -> Merged:
    """Update the stored messages from `drafts` with keys hidden, and complete the change.

    Renumbers the affected turns, announces the change, and counts the stored bytes. Raises: StorageFull, unless
    `may_exceed`.
    """
    merged = merge_rows(conversation, drafts, append_only=append_only)
    if merged.first_position is not None:
        finish_change(conversation, from_position=merged.first_position, message_count=merged.message_count)
    count_stored(
        owner_id=conversation.owner_id,
        conversation_id=conversation.pk,
        change=merged.stored_bytes,
        may_exceed=may_exceed,
    )
    return merged


def merge_rows(conversation: Conversation, drafts: Iterable[MessageDraft], *, append_only: bool = False) -> Merged:
    """Update the stored messages from `drafts` with keys hidden. Numbers no turns, announces and counts nothing."""
    drafts = map(hidden_keys.without_keys, drafts)
    fields = ("id", "source_key", "content_hash")
    stored = [] if append_only else list(conversation.messages.order_by("position").values_list(*fields))
    known = {key: (index, pk, bytes(digest)) for index, (pk, key, digest) in enumerate(stored) if key}
    merged = Merged()
    incoming: list[int] = []  # ids in the source's order
    next_position = conversation.message_count
    # Messages of a new conversation are numbered while they are inserted, which saves writing each row twice.
    counter = TurnCounter() if next_position == 0 else None
    for batch in in_batches(_without_repeats(drafts), count=BATCH, size=BATCH_BYTES):
        fresh = _split_batch(conversation, batch, known, merged)
        new = [draft for draft in fresh if isinstance(draft, MessageDraft)]
        merged.hidden_keys += sum(len(draft.hidden_keys) for draft in batch)
        rows = insert_messages(conversation.owner_id, conversation.pk, new, next_position, counter)
        if rows:
            merged.added += len(rows)
            merged.stored_bytes += sum(row.stored_bytes for row in rows)
            merged.first_id = merged.first_id or rows[0].pk
            merged.last_id = rows[-1].pk
            merged.touch(next_position)
            next_position += len(rows)
        created = iter(rows)
        incoming.extend(next(created).pk if isinstance(item, MessageDraft) else item for item in fresh)
    if stored and merged.added:
        _restore_order(conversation, [pk for pk, _, _ in stored], incoming, merged)
    merged.message_count = next_position
    return merged


def _without_repeats(drafts: Iterable[MessageDraft]) -> Iterator[MessageDraft]:
    """Yield each message once: resumed sessions repeat old lines."""
    seen: set[str] = set()
    for draft in drafts:
        key = source_key_of(draft)
        if key not in seen:
            yield draft
        if key:
            seen.add(key)


def _split_batch(
    conversation: Conversation,
    batch: list[MessageDraft],
    known: dict[str, tuple[int, int, bytes]],
    merged: Merged,
) -> list[MessageDraft | int]:
    """Return each draft itself if it is new, else the id of its stored row, updated if it has changed."""
    result: list[MessageDraft | int] = []
    for draft in batch:
        key = source_key_of(draft)
        found = known.get(key) if key else None
        if found is None:
            result.append(draft)
            continue
        position, pk, digest = found
        row = row_of(draft)
        if row.content_hash == digest or is_older_copy(conversation, pk, row):
            merged.unchanged += 1
        else:
            merged.stored_bytes += update_message(conversation, pk, row, draft)
            merged.updated += 1
            merged.touch(position)
        result.append(pk)
    return result


def replace_turn(conversation: Conversation, turn: TurnDraft) -> bool:
    """Update a stored turn from the draft; returns whether anything changed. Raises: InvalidInput."""
    rows = list(conversation.messages.filter(turn_number=turn.number).order_by("position"))
    known = {row.source_key: (row.position, row.pk, bytes(row.content_hash)) for row in rows if row.source_key}
    drafts = list(map(hidden_keys.without_keys, turn.messages()))
    merged = Merged()
    if all(draft.source_key in known for draft in drafts):
        _split_batch(conversation, drafts, known, merged)
        if merged.first_position is not None:
            finish_change(conversation, from_position=merged.first_position, message_count=conversation.message_count)
            count_stored(owner_id=conversation.owner_id, conversation_id=conversation.pk, change=merged.stored_bytes)
    elif [spoken_text(row.typed_parts) for row in rows] != [spoken_text(draft.parts) for draft in drafts]:
        raise InvalidInput(
            f"Turn {turn.number} is stored already, came in another way and reads otherwise: it is kept as it is."
        )
    return merged.updated > 0


def _restore_order(conversation: Conversation, stored: list[int], incoming: list[int], merged: Merged) -> None:
    """Move messages from the middle of the source to the middle of the conversation."""
    order = merge_order(stored, incoming)
    known = set(stored)
    current = [*stored, *(pk for pk in incoming if pk not in known)]
    moved = [position for position, (old, new) in enumerate(zip(current, order, strict=True)) if old != new]
    if not moved:
        return
    with connection.cursor() as cursor:
        cursor.execute(
            load_sql("convmemory.conversations", "set_positions"),
            {
                "owner": conversation.owner_id,
                "conversation": conversation.pk,
                "messages": [order[position] for position in moved],
                "positions": moved,
            },
        )
    merged.touch(moved[0])
