"""Conversations by the ids that clients give them: stored once, and continued turn by turn when sent again.

A client therefore needs only its own ids. `ingest.py` does all the writing.
"""

from collections.abc import Sequence
from dataclasses import replace

from django.db import IntegrityError, transaction
from django.db.models import QuerySet

from convmemory.accounts.callers import Caller
from convmemory.conversations.messages import ingest, responses
from convmemory.conversations.messages.drafts import ConversationDraft, MessageDraft, TurnDraft
from convmemory.conversations.messages.echo import with_echoes_named
from convmemory.conversations.messages.message_store import complete_messages, has_lost_parts_of, is_stored_as
from convmemory.conversations.models import Conversation, Message
from convmemory.conversations.reading import find_by_source
from convmemory.core.errors import InvalidInput

SOURCE_CHARS = 50  # the column's length


class AnotherHistory(InvalidInput):
    """The conversation is already stored and begins differently; `details` contain its id."""


def create_or_continue(*, caller: Caller, draft: ConversationDraft) -> tuple[Conversation, bool]:
    """Return a new conversation, or the existing one with this source id; and whether it is new.

    Messages that follow the stored ones are appended; sending the same ones again changes nothing. Stored messages of
    which earlier versions lost calls, ids of calls or thinking are completed.

    Raises: AnotherHistory if the messages do not continue the stored ones, ConversationBusy.
    """
    stored = _known_or_none(caller, draft)
    if stored is None:
        try:
            with transaction.atomic():
                # A savepoint inside another transaction: the query below must work after an IntegrityError.
                return ingest.create_conversation(caller=caller, draft=draft), True
        except IntegrityError:  # another request has just created it
            stored = _known_or_none(caller, draft)
            if stored is None:
                raise
    return _continued(caller, stored, list(draft.messages)), False


def put_turn_by_source(*, caller: Caller, draft: ConversationDraft, turn: TurnDraft) -> ingest.PutTurn:
    """Store one whole turn of the conversation with the draft's source and id, which is created if it is new.

    Raises: like `ingest.put_turn`, and InvalidInput for a source that is too long.
    """
    if len(draft.source) > SOURCE_CHARS:
        raise InvalidInput(f"A source has at most {SOURCE_CHARS} characters; this one has {len(draft.source)}.")
    with transaction.atomic():
        conversation, _ = create_or_continue(caller=caller, draft=replace(draft, messages=()))
        return ingest.put_turn(caller=caller, conversation_id=conversation.pk, turn=turn)


def _known_or_none(caller: Caller, draft: ConversationDraft) -> Conversation | None:
    return find_by_source(caller=caller, source=draft.source, source_id=draft.source_id) if draft.source_id else None


def _continued(caller: Caller, earlier: Conversation, drafts: Sequence[MessageDraft]) -> Conversation:
    drafts = list(with_echoes_named(drafts))
    with transaction.atomic():
        conversation = responses.lock_conversation(caller=caller, conversation_id=earlier.pk)
        rows = conversation.messages.order_by("position")
        stored, differing = _compared(rows, drafts)
        if differing:  # earlier versions stored messages without content, too
            rows = rows.exclude(parts=[])
            stored, differing = _compared(rows, drafts)
        for row in rows.filter(pk__in=differing).iterator():
            position, draft = differing[row.pk]
            if not has_lost_parts_of(row, draft):
                error = AnotherHistory(
                    f"Conversation {earlier.pk} has this source id, and its message {position} reads otherwise: "
                    f"append to it with POST /api/v1/conversations/{earlier.pk}/messages."
                )
                error.details = {"id": earlier.pk}
                raise error
        if differing:
            responses.require_idle(conversation)
            complete_messages(conversation, differing)
        if fresh := drafts[stored:]:
            ingest.append_messages(caller=caller, conversation_id=earlier.pk, drafts=fresh)
            conversation.refresh_from_db()
    return conversation


def _compared(
    rows: QuerySet[Message], drafts: Sequence[MessageDraft]
) -> tuple[int, dict[int, tuple[int, MessageDraft]]]:
    """Return the number of stored messages, and the drafts that differ by the ids and positions of those stored."""
    stored = list(rows.values_list("pk", "position", "content_hash"))
    pairs = zip(stored, drafts, strict=False)
    return len(stored), {
        pk: (position, draft) for (pk, position, digest), draft in pairs if not is_stored_as(bytes(digest), draft)
    }
