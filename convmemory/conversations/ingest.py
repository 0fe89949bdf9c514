"""The one place that writes conversations: create, append, import again, and number the turns.

Every function takes the owner, works in one transaction under a lock on the conversation's row,
sends `conversation_changed` in it and `turns_changed` once it has committed.
"""

import logging
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Literal, cast

from django.contrib.auth.models import AbstractBaseUser
from django.db import connection, transaction
from django.db.models import Max, Min
from django.utils import timezone

from convmemory.conversations import hidden_keys, kept_uploads, stored_keys
from convmemory.conversations.dating import date_undated
from convmemory.conversations.drafts import ConversationDraft, MessageDraft, TurnDraft, in_batches
from convmemory.conversations.event_log import add_events
from convmemory.conversations.merging import merge_order
from convmemory.conversations.message_rows import row_of, source_key_of
from convmemory.conversations.message_store import insert_messages, is_older_copy, update_message
from convmemory.conversations.models import Conversation, Message
from convmemory.conversations.parts import Role, spoken_text
from convmemory.conversations.signals import (
    conversation_changed,
    conversation_deleting,
    response_abandoned,
    turns_changed,
)
from convmemory.conversations.turns import TurnCounter, TurnMessage, number_turns
from convmemory.core.errors import ConversationBusy, InvalidInput, NotFound
from convmemory.core.sql import load_sql
from convmemory.core.text import one_line, storable

BATCH = 500
BATCH_BYTES = 8 * 1024**2
LEASE = timedelta(minutes=10)
TITLE_CHARS = 80

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class SyncResult:
    """What one conversation's import did."""

    conversation_id: int
    created: bool
    added: int
    updated: int
    unchanged: int
    turns: int
    events_added: int = 0
    hidden_keys: int = 0
    first_message_id: int | None = None  # of those that were added
    last_message_id: int | None = None


PutOutcome = Literal["created", "replaced", "unchanged"]


@dataclass(frozen=True, slots=True)
class PutTurn:
    """Which turn was put, and what that did."""

    conversation_id: int
    turn_number: int
    outcome: PutOutcome

    @property
    def url(self) -> str:
        return f"/conversations/{self.conversation_id}?turn={self.turn_number}"


# --- use cases ------------------------------------------------------------------------------------


def create_conversation(*, owner: AbstractBaseUser, draft: ConversationDraft) -> Conversation:
    """Store a new conversation with its messages. Raises: InvalidInput where its source id is taken."""
    with transaction.atomic():
        taken = draft.source_id and Conversation.objects.filter(
            owner_id=owner.pk, source=draft.source, source_id=storable(draft.source_id)[:300]
        )
        if taken and taken.exists():
            raise InvalidInput(
                f"A conversation with source id {draft.source_id!r} exists already: append to it instead."
            )
        conversation = _new_conversation(owner, draft)
        _merge_messages(conversation, draft.messages)
    return conversation


def append_messages(*, owner: AbstractBaseUser, conversation_id: int, drafts: Iterable[MessageDraft]) -> list[Message]:
    """Add messages at the end and number the turns they complete.

    Raises: NotFound, ConversationBusy while a response is being written.
    """
    with transaction.atomic():
        conversation = lock_conversation(owner=owner, conversation_id=conversation_id)
        require_idle(conversation)
        first = conversation.message_count
        _merge_messages(conversation, drafts, append_only=True)
    return list(conversation.messages.filter(position__gte=first).order_by("position"))


def put_turn(*, owner: AbstractBaseUser, conversation_id: int, turn: TurnDraft) -> PutTurn:
    """Store one whole turn of a chat that is kept elsewhere; the same turn again changes nothing.

    A turn that was put before and reads otherwise now is replaced. Raises: NotFound, ConversationBusy;
    InvalidInput for a gap in the numbers, or for a turn that came in some other way and reads otherwise.
    """
    with transaction.atomic():
        conversation = lock_conversation(owner=owner, conversation_id=conversation_id)
        require_idle(conversation)
        if turn.number > conversation.turn_count:
            raise InvalidInput(
                f"Turn {turn.number} would leave a gap: the next turn of conversation {conversation.pk} is "
                f"{conversation.turn_count}."
            )
        if turn.number == conversation.turn_count:
            _merge_messages(conversation, turn.messages(), append_only=True)
            return PutTurn(conversation.pk, turn.number, "created")
        outcome: PutOutcome = "replaced" if _replace_turn(conversation, turn) else "unchanged"
    return PutTurn(conversation.pk, turn.number, outcome)


def sync_conversation(*, owner: AbstractBaseUser, draft: ConversationDraft) -> SyncResult:
    """Store a conversation of some source, or bring the stored one up to date; never doubles a message.

    Messages are recognised by `source_key`. Stored messages that the source no longer holds stay
    where they were: nothing is lost.
    """
    if not draft.source_id:
        raise InvalidInput("A conversation that can be imported again needs a source id.")
    with transaction.atomic():
        conversation, created = _locked_or_new(owner, draft)
        require_idle(conversation)
        last_active = None if created else conversation.updated_at
        merged = _merge_messages(conversation, draft.messages)
        events = add_events(conversation, hidden_keys.events_without_keys(draft.events))
        if not created:
            _update_headers(conversation, draft)
        if draft.written_at and not draft.updated_at:
            if merged.first_position is not None:
                date_undated(conversation, draft, first_changed=merged.first_position, last_active=last_active)
                _announce(conversation)
        elif created and draft.updated_at:
            conversation.updated_at = draft.updated_at
            conversation.save(update_fields=["updated_at"])
            _announce(conversation)
    return SyncResult(
        conversation_id=conversation.pk,
        created=created,
        added=merged.added,
        updated=merged.updated,
        unchanged=merged.unchanged,
        turns=conversation.turn_count,
        events_added=events,
        hidden_keys=merged.hidden_keys,
        first_message_id=merged.first_id,
        last_message_id=merged.last_id,
    )


def begin_response(
    *, owner: AbstractBaseUser, conversation_id: int, question: MessageDraft, lease: timedelta = LEASE
) -> int:
    """Store the question and mark the conversation as processing, for at most `lease`; the question's message id.

    A question alone completes no turn, so nothing is numbered or announced before its answer is. A response that
    nobody finished within its lease is released first. Raises: NotFound, ConversationBusy.
    """
    with transaction.atomic(savepoint=False):
        position = _take_idle(owner, conversation_id, question, lease)
        if position is None:
            require_idle(lock_conversation(owner=owner, conversation_id=conversation_id))
            position = _take_idle(owner, conversation_id, question, lease)
        assert position is not None
        (message,) = insert_messages(owner.pk, conversation_id, [question], position)
    return message.pk


def _take_idle(owner: AbstractBaseUser, conversation_id: int, question: MessageDraft, lease: timedelta) -> int | None:
    """Mark the caller's conversation as processing and make room for the question: its position; None if not idle."""
    parameters: dict[str, Any] = {
        "owner": owner.pk,
        "conversation": conversation_id,
        "title": title_of(spoken_text(question.parts)),
        "asked_at": question.created_at or timezone.now(),
        "until": timezone.now() + lease,
    }
    with connection.cursor() as cursor:
        cursor.execute(load_sql("convmemory.conversations", "take_idle"), parameters)
        row = cursor.fetchone()
    return row[0] if row else None


def title_of(question: str) -> str:
    """The title of a conversation whose first question that is, until it gets another."""
    return one_line(storable(hidden_keys.text_without_keys(question)), TITLE_CHARS)


def renew_response(*, owner: AbstractBaseUser, conversation_id: int, lease: timedelta = LEASE) -> bool:
    """Prolong the lease of the response that is being written; False where there is none any more."""
    mine = Conversation.objects.filter(pk=conversation_id, owner_id=owner.pk, status=Conversation.Status.PROCESSING)
    return bool(mine.update(processing_until=timezone.now() + lease))


def finish_response(
    *, owner: AbstractBaseUser, conversation_id: int, drafts: Iterable[MessageDraft], failed: bool = False
) -> Conversation:
    """Store what the response brought, number the turns, then set the conversation idle (or failed)."""
    with transaction.atomic(savepoint=False):
        conversation = lock_conversation(owner=owner, conversation_id=conversation_id)
        _merge_reply(conversation, drafts)
        _set_status(conversation, Conversation.Status.FAILED if failed else Conversation.Status.IDLE)
    return conversation


def release_abandoned_response(*, conversation_id: int) -> bool:
    """Set a conversation idle whose lease has run out, keeping what was received; False where there is none such."""
    abandoned = Conversation.objects.filter(
        pk=conversation_id, status=Conversation.Status.PROCESSING, processing_until__lt=timezone.now()
    )
    with transaction.atomic():
        conversation = abandoned.select_for_update(skip_locked=True).first()
        if conversation is not None:
            _release(conversation)
    return conversation is not None


def release_abandoned_responses(*, limit: int = 100) -> list[int]:
    """Take back, for every owner, the conversations whose writer has let its lease run out; their ids.

    One that cannot be taken back is logged and left for the next time.
    """
    late = Conversation.objects.filter(status=Conversation.Status.PROCESSING, processing_until__lt=timezone.now())
    found = list(late.order_by("processing_until").values_list("pk", flat=True)[:limit])
    return [pk for pk in found if _was_released(pk)]


def _was_released(conversation_id: int) -> bool:
    try:
        return release_abandoned_response(conversation_id=conversation_id)
    except Exception:  # the boundary of one release: the others go on, and the next round tries this one again
        logger.exception("Conversation %s could not be taken back from its writer", conversation_id)
        return False


def change_conversation(*, owner: AbstractBaseUser, conversation_id: int, values: dict[str, Any]) -> Conversation:
    """Set title, agent, project or `archived_at`. Raises: NotFound."""
    limits = {"title": 300, "agent": 100, "project": 300}
    with transaction.atomic():
        conversation = lock_conversation(owner=owner, conversation_id=conversation_id)
        for name, value in values.items():
            setattr(conversation, name, one_line(storable(value), limits[name]) if name in limits else value)
        conversation.save(update_fields=list(values))
        _announce(conversation)
    return conversation


def delete_conversation(*, owner: AbstractBaseUser, conversation_id: int) -> None:
    """Delete the conversation, everything derived from it and the uploads that hold it. Raises: NotFound."""
    with transaction.atomic():
        kept_uploads.drop_uploads_with(owner=owner, conversation_id=conversation_id)
        conversation_deleting.send(Conversation, conversation_id=conversation_id, owner_id=owner.pk)
        lock_conversation(owner=owner, conversation_id=conversation_id).delete()


def finish_removal(conversation: Conversation, *, from_position: int, message_count: int) -> None:
    """Number the turns of a locked conversation again, some of whose messages from there on are gone from them."""
    _finish(conversation, _Merged(first_position=from_position), message_count)


def announce_rewritten(conversation: Conversation, *, from_position: int | None) -> None:
    """Announce a locked conversation whose messages from there on (None: none) read otherwise now; its dates stay."""
    if from_position is None:
        _announce(conversation)
        return
    last_active = conversation.updated_at
    _finish(conversation, _Merged(first_position=from_position), conversation.message_count)
    Conversation.objects.filter(pk=conversation.pk, owner_id=conversation.owner_id).update(updated_at=last_active)


def lock_conversation(*, owner: AbstractBaseUser, conversation_id: int) -> Conversation:
    """The caller's conversation, its row locked until the transaction ends. Raises: NotFound."""
    try:
        return Conversation.objects.select_for_update().get(pk=conversation_id, owner_id=owner.pk)
    except Conversation.DoesNotExist:
        raise NotFound(f"There is no conversation {conversation_id}.") from None


# --- conversations --------------------------------------------------------------------------------


def require_idle(conversation: Conversation) -> None:
    """Raises: ConversationBusy while a response is being written; one that was abandoned is released."""
    if conversation.status != Conversation.Status.PROCESSING:
        return
    if conversation.processing_until and conversation.processing_until > timezone.now():
        raise ConversationBusy(f"Conversation {conversation.pk} is being answered: try again when it is idle.")
    _release(conversation)


def _release(conversation: Conversation) -> None:
    """Take the conversation, whose row is locked, back from a writer that died."""
    answers: list[tuple[Any, Any]] = response_abandoned.send(Conversation, conversation=conversation)
    received: list[MessageDraft] = [draft for _, drafts in answers for draft in drafts]
    _merge_reply(conversation, received)
    _set_status(conversation, Conversation.Status.IDLE)


def _merge_reply(conversation: Conversation, drafts: Iterable[MessageDraft]) -> None:
    """Store what came of a response, and announce the question also where nothing did.

    The question's keys are hidden now that it is answered.
    """
    stored_keys.hide_in_messages(conversation, from_position=max(0, conversation.message_count - 1))
    merged = _merge_messages(conversation, drafts, append_only=True)
    if merged.first_position is None and conversation.message_count:
        merged.touch(conversation.message_count - 1)
        _finish(conversation, merged, conversation.message_count)


def _set_status(conversation: Conversation, status: Conversation.Status) -> None:
    conversation.status = status
    conversation.processing_until = None
    conversation.save(update_fields=["status", "processing_until"])


def _locked_or_new(owner: AbstractBaseUser, draft: ConversationDraft) -> tuple[Conversation, bool]:
    known = Conversation.objects.select_for_update().filter(
        owner_id=owner.pk, source=draft.source, source_id=storable(draft.source_id)[:300]
    )
    conversation = known.first()
    return (conversation, False) if conversation else (_new_conversation(owner, draft), True)


def _new_conversation(owner: AbstractBaseUser, draft: ConversationDraft) -> Conversation:
    now = timezone.now()
    conversation = Conversation.objects.create(
        owner_id=owner.pk,
        source_id=storable(draft.source_id)[:300],
        created_at=draft.created_at or draft.written_at or now,
        updated_at=draft.created_at or draft.written_at or now,
        archived_at=draft.archived_at or (now if draft.archived else None),
        **_headers(draft),
        **_parent(owner.pk, draft),
    )
    _announce(conversation)
    return conversation


def _headers(draft: ConversationDraft) -> dict[str, str]:
    return {
        "source": draft.source,
        "title": one_line(storable(hidden_keys.text_without_keys(draft.title)), 300),
        "agent": one_line(storable(draft.agent), 100),
        "project": one_line(storable(draft.project), 300),
    }


def _parent(owner_id: int, draft: ConversationDraft) -> dict[str, str | int | None]:
    key = storable(draft.parent_source_id)[:300]
    if not key:
        return {}
    found = Conversation.objects.filter(owner_id=owner_id, source=draft.source, source_id=key)
    return {"parent_source_id": key, "parent_id": found.values_list("pk", flat=True).first()}


def _update_headers(conversation: Conversation, draft: ConversationDraft) -> None:
    values = {**_headers(draft), **_parent(conversation.owner_id, draft)}
    changed = [name for name, value in values.items() if value and getattr(conversation, name) != value]
    for name in changed:
        setattr(conversation, name, values[name])
    if changed:
        conversation.save(update_fields=changed)
        _announce(conversation)


# --- messages -------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Merged:
    added: int = 0
    updated: int = 0
    unchanged: int = 0
    hidden_keys: int = 0
    first_position: int | None = None  # lowest position whose message is new, changed or moved
    first_id: int | None = None
    last_id: int | None = None

    def touch(self, position: int) -> None:
        self.first_position = position if self.first_position is None else min(self.first_position, position)


def _merge_messages(
    conversation: Conversation, drafts: Iterable[MessageDraft], *, append_only: bool = False
) -> _Merged:
    """Bring the stored messages in line with `drafts`, keys hidden, renumber what can have changed, announce it."""
    drafts = map(hidden_keys.without_keys, drafts)
    fields = ("id", "source_key", "content_hash")
    stored = [] if append_only else list(conversation.messages.order_by("position").values_list(*fields))
    known = {key: (index, pk, bytes(digest)) for index, (pk, key, digest) in enumerate(stored) if key}
    merged = _Merged()
    incoming: list[int] = []  # ids in the source's order
    next_position = conversation.message_count
    counter = TurnCounter() if next_position == 0 else None
    for batch in in_batches(_without_repeats(drafts), count=BATCH, size=BATCH_BYTES):
        fresh = _split_batch(conversation, batch, known, merged)
        new = [draft for draft in fresh if isinstance(draft, MessageDraft)]
        merged.hidden_keys += sum(len(draft.hidden_keys) for draft in batch)
        rows = insert_messages(conversation.owner_id, conversation.pk, new, next_position, counter)
        if rows:
            merged.added += len(rows)
            merged.first_id = merged.first_id or rows[0].pk
            merged.last_id = rows[-1].pk
            merged.touch(next_position)
            next_position += len(rows)
        created = iter(rows)
        incoming.extend(next(created).pk if isinstance(item, MessageDraft) else item for item in fresh)
    if stored and merged.added:
        _restore_order(conversation, [pk for pk, _, _ in stored], incoming, merged)
    if merged.first_position is not None:
        _finish(conversation, merged, next_position)
    return merged


def _without_repeats(drafts: Iterable[MessageDraft]) -> Iterator[MessageDraft]:
    """Each message once: resumed sessions repeat old lines."""
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
    merged: _Merged,
) -> list[MessageDraft | int]:
    """Each draft itself where it is new, else the id of its stored row, updated where it changed."""
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
            update_message(conversation, pk, row, draft)
            merged.updated += 1
            merged.touch(position)
        result.append(pk)
    return result


def _replace_turn(conversation: Conversation, turn: TurnDraft) -> bool:
    """Bring a stored turn in line with the draft; whether anything changed. Raises: InvalidInput."""
    rows = list(conversation.messages.filter(turn_number=turn.number).order_by("position"))
    known = {row.source_key: (row.position, row.pk, bytes(row.content_hash)) for row in rows if row.source_key}
    drafts = list(map(hidden_keys.without_keys, turn.messages()))
    merged = _Merged()
    if all(draft.source_key in known for draft in drafts):
        _split_batch(conversation, drafts, known, merged)
        if merged.first_position is not None:
            _finish(conversation, merged, conversation.message_count)
    elif [spoken_text(row.typed_parts) for row in rows] != [spoken_text(draft.parts) for draft in drafts]:
        raise InvalidInput(
            f"Turn {turn.number} is stored already, came in another way and reads otherwise: it is kept as it is."
        )
    return merged.updated > 0


def _restore_order(conversation: Conversation, stored: list[int], incoming: list[int], merged: _Merged) -> None:
    """Put messages that stand in the middle of the source into the middle of the conversation."""
    order = merge_order(stored, incoming)
    known = set(stored)
    current = [*stored, *(pk for pk in incoming if pk not in known)]
    moved = [position for position, (old, new) in enumerate(zip(current, order, strict=True)) if old != new]
    if not moved:
        return
    with connection.cursor() as cursor:
        cursor.execute(
            load_sql("convmemory.conversations", "set_positions"),
            {**_home(conversation), "messages": [order[position] for position in moved], "positions": moved},
        )
    merged.touch(moved[0])


def _home(conversation: Conversation) -> dict[str, Any]:
    """What a statement over the messages of one conversation looks them up by."""
    return {"owner": conversation.owner_id, "conversation": conversation.pk}


# --- turns ----------------------------------------------------------------------------------------


def _finish(conversation: Conversation, merged: _Merged, message_count: int) -> None:
    """Renumber, update the conversation's counts and dates, and announce the change after commit."""
    assert merged.first_position is not None
    first_turn = renumber(conversation, from_position=merged.first_position)
    newest = conversation.messages.filter(position__gte=merged.first_position).aggregate(at=Max("created_at"))["at"]
    conversation.message_count = message_count
    conversation.turns_version += 1
    conversation.updated_at = _later(conversation, newest, grown=conversation.turns_version > 1)
    if not conversation.title:
        conversation.title = _title(conversation)
    conversation.save(update_fields=["message_count", "turn_count", "turns_version", "updated_at", "title"])
    _announce(conversation, first_turn=first_turn)
    conversation_id, owner_id = conversation.pk, conversation.owner_id
    transaction.on_commit(
        lambda: turns_changed.send(
            Conversation, conversation_id=conversation_id, owner_id=owner_id, first_turn=first_turn
        )
    )


def _announce(conversation: Conversation, *, first_turn: int | None = None) -> None:
    conversation_changed.send(Conversation, conversation=conversation, first_turn=first_turn)


def _later(conversation: Conversation, newest: datetime | None, *, grown: bool) -> datetime:
    if newest is None:
        return timezone.now() if grown else conversation.updated_at
    return max(newest, conversation.updated_at) if grown else newest


def _title(conversation: Conversation) -> str:
    first = conversation.messages.filter(is_real_user=True, superseded=False).order_by("position").first()
    return one_line(spoken_text(first.typed_parts), TITLE_CHARS) if first else ""


def renumber(conversation: Conversation, *, from_position: int) -> int:
    """Number turns again from the first one that a change at `from_position` can have touched.

    Reads only the messages from there on, writes only numbers that differ, and sets
    `conversation.turn_count` without saving it. Returns the first turn that can have changed.
    """
    before = conversation.messages.filter(position__lt=from_position)
    first_turn = before.aggregate(last=Max("turn_number"))["last"] or 0
    start = before.filter(turn_number=first_turn).aggregate(at=Min("position"))["at"] or 0
    rows = list(
        conversation.messages.filter(position__gte=start)
        .order_by("position")
        .values_list("pk", "role", "is_real_user", "superseded", "turn_number")
    )
    messages = (TurnMessage(cast("Role", role), real, gone) for _, role, real, gone, _ in rows)
    numbers = number_turns(messages, first_number=first_turn)
    changed = [(pk, new) for (pk, *_, old), new in zip(rows, numbers, strict=True) if old != new]
    if changed:
        ids, values = zip(*changed, strict=True)
        with connection.cursor() as cursor:
            cursor.execute(
                load_sql("convmemory.conversations", "set_turn_numbers"),
                {**_home(conversation), "messages": list(ids), "turns": list(values)},
            )
    last = max((number for number in numbers if number is not None), default=first_turn - 1)
    conversation.turn_count = last + 1
    return first_turn
