"""Writes message rows and merges drafts into stored messages; call it with the conversation locked.

Many rows are sent in one statement as one JSON array, which costs a fraction of the same rows as values.
"""

import hashlib
import json
from base64 import b64encode
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import chain, groupby, islice, takewhile
from typing import Any

from django.db import connection

from convmemory.conversations.marking import keep_marks
from convmemory.conversations.messages import hidden_keys
from convmemory.conversations.messages.drafts import MessageDraft, TurnDraft, in_batches, passed
from convmemory.conversations.messages.echo import with_echoes_named
from convmemory.conversations.messages.hidden_keys import without_keys
from convmemory.conversations.messages.numbering import finish_change, set_usages
from convmemory.conversations.messages.outcomes import Spoken, outcome_of
from convmemory.conversations.messages.parts import (
    Part,
    Role,
    ThinkingPart,
    pack_lines,
    part_from_json,
    part_text,
    part_to_json,
    spoken_text,
)
from convmemory.conversations.messages.storage_quota import ROW_BYTES, bytes_of_messages, count_stored
from convmemory.conversations.messages.turns import TurnCounter, TurnMessage, is_real_user_message, merge_order
from convmemory.conversations.messages.usage import Usage
from convmemory.conversations.models import Conversation, Message, MessageSource
from convmemory.core.errors import InvalidInput
from convmemory.core.sql import load_sql
from convmemory.core.text import content_hash, json_storable, one_line

KEY_CHARS = 200  # the column's length
to_canonical_json = json.JSONEncoder(sort_keys=True, ensure_ascii=False).encode


@dataclass(slots=True)
class MessageRow:
    """A message as a row. `parts_json` is the canonical JSON of `parts`; `pk` is 0 until the row is stored."""

    role: Role
    is_real_user: bool
    superseded: bool
    name: str
    model: str
    parts: list[dict[str, Any]]
    parts_json: str
    source_key: str
    created_at: datetime | None
    position: int = 0
    turn_number: int | None = None
    pk: int = 0
    stored_bytes: int = 0  # set when it is stored
    usage: Usage | None = None  # likewise
    outcome: dict[str, Any] | None = None  # likewise, of the turn that it opens

    @property
    def content_hash(self) -> bytes:
        """The SHA-256 of the content and its speaker."""
        # Equals the canonical JSON of the whole list, without serialising the parts a second time.
        start = to_canonical_json([self.role, self.is_real_user, self.name])[:-1]
        end = ", true]" if self.superseded else "]"
        return hashlib.sha256(f"{start}, {self.parts_json}{end}".encode()).digest()

    def to_json(self) -> str:
        """The JSON object that the statement `insert_messages` reads."""
        values = {
            "position": self.position,
            "role": self.role,
            "is_real_user": self.is_real_user,
            "superseded": self.superseded,
            "name": self.name,
            "model": self.model,
            "source_key": self.source_key,
            "turn_number": self.turn_number,
            "content_hash": self.content_hash.hex(),
            "created_at": self.created_at.isoformat() if self.created_at else None,
            "usage": self.usage.to_json() if self.usage else None,
            "outcome": self.outcome,
        }
        return f'{to_canonical_json(values)[:-1]}, "parts": {self.parts_json}}}'


def source_key_of(draft: MessageDraft) -> str:
    """Return the stored key: a long one is cut and ends in its hash, so that different keys stay different."""
    key = draft.source_key
    return key if len(key) <= KEY_CHARS else f"{key[: KEY_CHARS - 65]}-{content_hash(key).hex()}"


def row_of(draft: MessageDraft) -> MessageRow:
    """Return the message as a row, without its position."""
    parts = [part_to_json(part) for part in draft.parts]
    return MessageRow(
        role=draft.role,
        is_real_user=is_real_user_message(draft.role, draft.parts, injected=draft.injected),
        superseded=draft.superseded,
        name=one_line(draft.name, 200),
        model=one_line(draft.model, 200),
        parts=parts,
        parts_json=to_canonical_json(parts),
        source_key=source_key_of(draft),
        # The draft keeps a time to come, of which the name of a message is made.
        created_at=passed(draft.created_at),
    )


def is_stored_as(digest: bytes, draft: MessageDraft) -> bool:
    """Return whether the stored message with this content hash is the draft, with its keys hidden or not."""
    return any(digest == row_of(each).content_hash for each in (without_keys(draft), draft))


def insert_messages(
    archive_id: int,
    conversation_id: int,
    drafts: Sequence[MessageDraft],
    first_position: int,
    counter: TurnCounter | None = None,
) -> list[MessageRow]:
    """Store new messages at consecutive positions from `first_position`.

    `counter` has numbered all messages before them, so that turn numbers need no second write, nor do the outcomes of
    turns that these messages complete.
    """
    if not drafts:
        return []
    rows = [row_of(draft) for draft in drafts]
    if counter:
        last_opened = counter.last_opened
        unnumbered = (
            TurnMessage(draft.role, row.is_real_user, row.superseded) for draft, row in zip(drafts, rows, strict=True)
        )
        for row, number in zip(rows, counter.number(unnumbered), strict=True):
            row.turn_number = number
        _set_outcomes(rows, drafts, after_turn=last_opened)
    for position, (row, draft) in enumerate(zip(rows, drafts, strict=True), first_position):
        row.position, row.usage = position, draft.reported_usage
    home: dict[str, Any] = {"owner": archive_id, "conversation": conversation_id}
    with connection.cursor() as cursor:
        # psycopg escapes an array element by element, which cost a fifth of an import.
        messages = f"[{', '.join(row.to_json() for row in rows)}]"
        cursor.execute(load_sql("convmemory.conversations", "insert_messages"), home | {"messages": messages})
        ids = dict(cursor.fetchall())
        for row in rows:
            row.pk = ids[row.position]
        sources = []
        for row, draft in zip(rows, drafts, strict=True):
            lines = pack_lines(draft.raw)
            row.stored_bytes = _stored_bytes(row, lines)
            if lines:
                sources.append({"message": row.pk, "data": b64encode(lines).decode("ascii")})
        if sources:
            statement = load_sql("convmemory.conversations", "insert_message_sources")
            cursor.execute(statement, home | {"sources": json.dumps(sources)})
    by_id = [(row.pk, draft) for row, draft in zip(rows, drafts, strict=True)]
    hidden_keys.keep_keys(by_id, archive_id=archive_id)
    keep_marks(by_id, archive_id=archive_id)
    return rows


def _set_outcomes(rows: Sequence[MessageRow], drafts: Sequence[MessageDraft], *, after_turn: int) -> None:
    """Set the outcomes of the turns after `after_turn`, as far as these messages tell, in the rows that open them."""
    numbered = (pair for pair in zip(rows, drafts, strict=True) if pair[0].turn_number is not None)
    for number, turn in groupby(numbered, key=lambda pair: pair[0].turn_number):
        messages = list(turn)
        if number is not None and number > after_turn:
            outcome = outcome_of(Spoken(draft.role, tuple(draft.parts)) for _, draft in messages)
            messages[0][0].outcome = json_storable(outcome.to_json())


def is_older_copy(conversation: Conversation, pk: int, row: MessageRow) -> bool:
    """Return whether the stored message starts with `row` and continues.

    An older file of a thread then does not shorten a message.
    """
    same = {name: getattr(row, name) for name in ("role", "is_real_user", "superseded", "name")}
    stored: list[Any] = conversation.messages.filter(pk=pk, **same).values_list("parts", flat=True).first() or []
    return 0 < len(row.parts) < len(stored) and stored[: len(row.parts)] == row.parts


def has_lost_parts_of(stored: Message, draft: MessageDraft) -> bool:
    """Return whether the stored message is the draft without some of its calls, results, files, thinking or fields."""
    row = row_of(without_keys(draft))
    parts = iter(row.parts)
    filled = [{name: value for name, value in part.items() if value} for part in stored.parts]
    return (
        (row.role, row.name) == (stored.role, stored.name)
        and all(any(part.items() <= other.items() for other in parts) for part in filled)
        and len([part for part in row.parts if part["type"] == "text"])
        == len([part for part in stored.parts if part["type"] == "text"])
    )


def update_message(conversation: Conversation, pk: int, row: MessageRow, draft: MessageDraft) -> int:
    """Update a stored message from the draft, whose row is `row`; returns by how many bytes it grew."""
    before = bytes_of_messages(archive_id=conversation.archive_id, message_ids=[pk])
    lines = pack_lines(draft.raw)
    values = ("role", "is_real_user", "superseded", "name", "model", "parts", "content_hash")
    reported = {"usage": usage.to_json()} if (usage := draft.reported_usage) else {}
    conversation.messages.filter(pk=pk).update(**{name: getattr(row, name) for name in values}, **reported)
    if lines:
        MessageSource.objects.update_or_create(
            message_id=pk, archive_id=conversation.archive_id, defaults={"data": lines}
        )
    else:  # the stored lines stay
        stored = MessageSource.objects.filter(message_id=pk, archive_id=conversation.archive_id)
        lines = bytes(stored.values_list("data", flat=True).first() or b"")
    hidden_keys.keep_keys([(pk, draft)], archive_id=conversation.archive_id)
    return _stored_bytes(row, lines) - before


def _stored_bytes(row: MessageRow, lines: bytes) -> int:
    return ROW_BYTES + len(row.parts_json.encode()) + len(lines)


# Batches limit the memory of an import; the bytes count because single messages can be megabytes.
BATCH = 500
BATCH_BYTES = 8 * 1024**2
MAX_OPENING = 10  # messages in which a question and its answer are looked for
_SPOKEN = ("user", "assistant")


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
    turn_count: int | None = None  # of a new conversation whose messages were numbered as they were stored
    newest: datetime | None = None  # of the added messages
    has_undated: bool = False  # likewise
    lost: int = 0  # stored messages of people, models and tools that are not among the drafts
    first_id: int | None = None
    last_id: int | None = None
    without_usage: set[int] = field(default_factory=set)  # ids of stored answers
    usages: dict[int, Usage] = field(default_factory=dict)  # of these, by their ids

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
    turns_before = conversation.turn_count
    merged = merge_rows(conversation, drafts, append_only=append_only)
    if merged.first_position is not None:
        finish_change(
            conversation,
            from_position=merged.first_position,
            message_count=merged.message_count,
            turn_count=merged.turn_count,
            newest=merged.newest,
        )
    count_stored(
        archive_id=conversation.archive_id,
        conversation_id=conversation.pk,
        change=merged.stored_bytes,
        turns=conversation.turn_count - turns_before,
        may_exceed=may_exceed,
    )
    return merged


def merge_rows(conversation: Conversation, drafts: Iterable[MessageDraft], *, append_only: bool = False) -> Merged:
    """Update the stored messages from `drafts` with keys hidden. Numbers no turns, announces and counts nothing."""
    drafts = map(hidden_keys.without_keys, with_echoes_named(drafts))
    fields = ("id", "source_key", "content_hash", "role", "usage")
    is_read = conversation.message_count > 0 and not append_only
    stored = list(conversation.messages.order_by("position").values_list(*fields)) if is_read else []
    by_key = {key: (index, pk, bytes(digest)) for index, (pk, key, digest, *_) in enumerate(stored) if key}
    merged = Merged(without_usage={pk for pk, *_, role, usage in stored if role == "assistant" and not usage})
    drafts, copies = _with_copies(conversation, drafts, by_key)
    incoming: list[int] = []  # ids in the source's order
    next_position = conversation.message_count
    # Messages of a new conversation are numbered while they are inserted, which saves writing each row twice.
    counter = TurnCounter() if next_position == 0 else None
    for batch in in_batches(_without_repeats(drafts), count=BATCH, size=BATCH_BYTES):
        fresh = _split_batch(conversation, batch, by_key, merged, copies)
        new = [draft for draft in fresh if isinstance(draft, MessageDraft)]
        merged.hidden_keys += sum(len(draft.hidden_keys) for draft in batch)
        rows = insert_messages(conversation.archive_id, conversation.pk, new, next_position, counter)
        if rows:
            merged.added += len(rows)
            merged.stored_bytes += sum(row.stored_bytes for row in rows)
            merged.first_id = merged.first_id or rows[0].pk
            merged.last_id = rows[-1].pk
            dates = [row.created_at for row in rows if row.created_at]
            merged.newest = max((*dates, *filter(None, [merged.newest])), default=None)
            merged.has_undated = merged.has_undated or len(dates) < len(rows)
            merged.touch(next_position)
            next_position += len(rows)
        created = iter(rows)
        incoming.extend(next(created).pk if isinstance(item, MessageDraft) else item for item in fresh)
    set_usages(conversation, merged.usages)
    merged.lost = len({pk for pk, key, _, role, _ in stored if key and role != "system"}.difference(incoming))
    if stored and merged.added:
        _restore_order(conversation, [pk for pk, *_ in stored], incoming, merged)
    merged.message_count = next_position
    merged.turn_count = counter.turn_count if counter else None
    return merged


@dataclass(slots=True)
class _Copies:
    """The stored messages by what they say. Each equals one draft at most, whether by its key or by its text."""

    conversation: Conversation
    is_other_store: bool  # which names the same messages otherwise
    used: set[int] = field(default_factory=set)
    _by_text: dict[tuple[str, str], list[tuple[int, int, int]]] | None = None
    _was_stored: bool = False

    def stored_as(self, draft: MessageDraft) -> tuple[int, int, int] | None:
        """Return id, position and number of parts of the stored message that says the same; None without one.

        The id is 0 for what answers a copy that is stored: the stored one has an answer of its own.
        """
        if not (self.is_other_store or draft.is_copy):
            return None
        if draft.is_copy and draft.role != "user":
            return (0, 0, 0) if self._was_stored else None
        if self._by_text is None:
            self._by_text = {}
            rows = self.conversation.messages.order_by("-position").values_list("pk", "position", "role", "parts")
            for pk, position, role, parts in rows.iterator():
                spoken = _said([*map(part_from_json, parts)])
                self._by_text.setdefault((role, spoken), []).append((pk, position, len(parts)))
        waiting = self._by_text.get((draft.role, _said(draft.parts)), [])
        while waiting and waiting[-1][0] in self.used:
            waiting.pop()
        self._was_stored = bool(waiting)
        return waiting.pop() if waiting else None


def _said(parts: Iterable[Part]) -> str:
    texts = (part_text(part) for part in parts if not isinstance(part, ThinkingPart))
    return content_hash("\n".join(filter(None, texts)).strip()).hex()


def without_opening(drafts: Iterator[MessageDraft], stored: Sequence[Message]) -> Iterator[MessageDraft]:
    """Return the drafts without those that say what the stored messages say, from the first on.

    One alone is kept: two conversations can begin with the same word.
    """
    opening = list(islice(drafts, len(stored) + 1))
    spoken = [(row.role, _said([*map(part_from_json, row.parts)])) for row in stored]
    alike = zip(((draft.role, _said(draft.parts)) for draft in opening), spoken, strict=False)
    count = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], alike))
    return chain(opening[count if count > 1 else 0 :], drafts)


def _with_copies(
    conversation: Conversation, drafts: Iterator[MessageDraft], by_key: Mapping[str, object]
) -> tuple[Iterator[MessageDraft], _Copies]:
    """Return the drafts with what finds stored messages by their texts.

    The drafts come from another store if a question and its answer open both, and their keys are not stored.
    """
    opening = list(islice(drafts, MAX_OPENING)) if by_key else []
    spoken = [draft for draft in opening if draft.role in _SPOKEN][:2]
    is_other_store = len(spoken) == 2 and all(source_key_of(draft) not in by_key for draft in spoken)
    if is_other_store:
        stored: list[Any] = list(conversation.messages.filter(role__in=_SPOKEN).order_by("position")[:2])
        is_other_store = [(row.role, _said([*map(part_from_json, row.parts)])) for row in stored] == [
            (draft.role, _said(draft.parts)) for draft in spoken
        ]
    return chain(opening, drafts), _Copies(conversation, is_other_store)


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
    by_key: dict[str, tuple[int, int, bytes]],
    merged: Merged,
    copies: _Copies,
) -> list[MessageDraft | int]:
    """Return each draft itself if it is new, else the id of its stored row, updated if it has changed."""
    result: list[MessageDraft | int] = []
    for draft in batch:
        key = source_key_of(draft)
        present = by_key.get(key) if key else None
        if present is None:
            copy_of = copies.stored_as(draft) if by_key else None
            if copy_of is None:
                result.append(draft)
                continue
            pk, position, count = copy_of
            if not pk:
                continue
            copies.used.add(pk)
            result.append(pk)
            if len(draft.parts) > count:  # another store may keep thinking, too
                merged.stored_bytes += update_message(conversation, pk, row_of(draft), draft)
                merged.updated += 1
                merged.touch(position)
            else:
                merged.unchanged += 1
            continue
        position, pk, digest = present
        if pk in copies.used:
            continue
        copies.used.add(pk)
        row = row_of(draft)
        if row.content_hash == digest or is_older_copy(conversation, pk, row):
            merged.unchanged += 1
            if pk in merged.without_usage and (usage := draft.reported_usage):
                merged.usages[pk] = usage
        else:
            merged.stored_bytes += update_message(conversation, pk, row, draft)
            merged.updated += 1
            merged.touch(position)
        result.append(pk)
    return result


def complete_messages(conversation: Conversation, drafts: Mapping[int, tuple[int, MessageDraft]]) -> None:
    """Update stored messages, by id with their positions, from drafts that have more parts. Raises: StorageFull."""
    turns_before = conversation.turn_count
    hidden = {pk: (position, without_keys(draft)) for pk, (position, draft) in drafts.items()}
    change = sum(update_message(conversation, pk, row_of(draft), draft) for pk, (_, draft) in hidden.items())
    first_position = min(position for position, _ in hidden.values())
    finish_change(conversation, from_position=first_position, message_count=conversation.message_count)
    count_stored(
        archive_id=conversation.archive_id,
        conversation_id=conversation.pk,
        change=change,
        turns=conversation.turn_count - turns_before,
    )


def replace_turn(conversation: Conversation, turn: TurnDraft) -> bool:
    """Update a stored turn from the draft; returns whether anything changed. Raises: InvalidInput, StorageFull."""
    turns_before = conversation.turn_count
    rows = list(conversation.messages.filter(turn_number=turn.number).order_by("position"))
    by_key = {row.source_key: (row.position, row.pk, bytes(row.content_hash)) for row in rows if row.source_key}
    drafts = list(map(hidden_keys.without_keys, turn.messages()))
    merged = Merged()
    if all(draft.source_key in by_key for draft in drafts):
        _split_batch(conversation, drafts, by_key, merged, _Copies(conversation, is_other_store=False))
        if merged.first_position is not None:
            finish_change(conversation, from_position=merged.first_position, message_count=conversation.message_count)
            count_stored(
                archive_id=conversation.archive_id,
                conversation_id=conversation.pk,
                change=merged.stored_bytes,
                turns=conversation.turn_count - turns_before,
            )
    elif [spoken_text(row.typed_parts) for row in rows] != [spoken_text(draft.parts) for draft in drafts]:
        raise InvalidInput(
            f"Turn {turn.number} is stored already, came in another way and reads otherwise: it is kept as it is."
        )
    return merged.updated > 0


def _restore_order(conversation: Conversation, stored: list[int], incoming: list[int], merged: Merged) -> None:
    """Move messages from the middle of the source to the middle of the conversation."""
    order = merge_order(stored, incoming)
    numbers = set(stored)
    current = [*stored, *(pk for pk in incoming if pk not in numbers)]
    moved = [position for position, (old, new) in enumerate(zip(current, order, strict=True)) if old != new]
    if not moved:
        return
    with connection.cursor() as cursor:
        cursor.execute(
            load_sql("convmemory.conversations", "set_positions"),
            {
                "owner": conversation.archive_id,
                "conversation": conversation.pk,
                "messages": [order[position] for position in moved],
                "positions": moved,
            },
        )
    merged.touch(moved[0])
