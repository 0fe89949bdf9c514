"""Marks of turns as wrong or outdated, by their owner.

Search shows them; recall leaves wrong turns out, and says of the others that they are outdated.
Source: docs/adr/0099-marked-turns.md.
"""

from collections.abc import Iterable
from typing import cast

from django.db import transaction

from convmemory.accounts.callers import Caller
from convmemory.conversations.messages.drafts import MessageDraft
from convmemory.conversations.models import TurnMark
from convmemory.conversations.reading import get_conversation, opening_of_turn
from convmemory.core.marks import Mark, MarkKind, mark_of
from convmemory.core.trash import outside_trash


def set_mark(*, caller: Caller, conversation_id: int, turn_number: int, mark: Mark | None) -> Mark | None:
    """Give the caller's turn this mark and no other, or none; returns the one that it had. Raises: NotFound."""
    conversation = get_conversation(caller=caller, conversation_id=conversation_id)
    with transaction.atomic():
        opening = opening_of_turn(conversation, turn_number)
        rows = TurnMark.objects.filter(archive_id=caller.archive_id, message__conversation_id=conversation_id)
        rows = rows.filter(message__turn_number=turn_number)
        before = next(iter(rows.order_by("-kind")), None)
        if mark is None:
            rows.delete()
        else:
            rows.exclude(pk=opening.pk).delete()
            _store([TurnMark(message=opening, archive_id=caller.archive_id, kind=mark.kind, note=mark.note)])
    return mark_of(before.kind, before.note) if before else None


def marks_of(*, archive_id: int, conversation_id: int | None = None) -> dict[tuple[int, int], Mark]:
    """Return the owner's marks, by conversation and turn; of two in one turn, "wrong" counts. One query."""
    rows = TurnMark.objects.filter(
        outside_trash("message__conversation"), archive_id=archive_id, message__turn_number__isnull=False
    )
    if conversation_id is not None:
        rows = rows.filter(message__conversation_id=conversation_id)
    fields = ("message__conversation_id", "message__turn_number", "kind", "note")
    return {
        (conversation, turn): Mark(cast("MarkKind", kind), note)
        for conversation, turn, kind, note in rows.order_by("kind").values_list(*fields)
    }


def keep_marks(messages: Iterable[tuple[int, MessageDraft]], *, archive_id: int) -> None:
    """Store the marks of new messages from an export, by message id."""
    _store(
        [
            TurnMark(message_id=message_id, archive_id=archive_id, kind=draft.mark.kind, note=draft.mark.note)
            for message_id, draft in messages
            if draft.mark
        ]
    )


def _store(rows: list[TurnMark]) -> None:
    TurnMark.objects.bulk_create(
        rows, update_conflicts=True, unique_fields=["message"], update_fields=["kind", "note", "created_at"]
    )
