"""The conversations of an export and their messages in order, read a few rows at a time."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from django.db.models import Q, QuerySet

from convmemory.accounts.callers import Caller
from convmemory.conversations.filters import EVERYTHING, Filters
from convmemory.conversations.marking import marks_of
from convmemory.conversations.messages.hidden_keys import parts_without_keys, text_without_keys
from convmemory.conversations.messages.parts import Part
from convmemory.conversations.models import Conversation, Message
from convmemory.conversations.reading import get_conversation, visible_conversations
from convmemory.core.marks import Mark

CONVERSATIONS_AT_ONCE = 100
MESSAGES_AT_ONCE = 50
MAX_NAMED = 1_000
ALL_MESSAGES = Q()


@dataclass(frozen=True, slots=True)
class ExportSelection:
    """The conversations to export: those with these ids, or all that pass the filters if none is given.

    Of their messages those that meet the condition `messages`. What is for others has no keys even with HIDE_KEYS=0.
    """

    ids: tuple[int, ...] = ()
    filters: Filters = EVERYTHING
    messages: Q = ALL_MESSAGES
    is_for_others: bool = False


@dataclass(frozen=True, slots=True)
class ExportedMessage:
    """A message of an export: `parts` mask keys that were stored unhidden, `mark` is that of the turn that it opens."""

    row: Message
    parts: tuple[Part, ...]
    mark: Mark | None = None


def chosen(*, caller: Caller, selection: ExportSelection) -> Iterator[Conversation]:
    """Yield the caller's conversations of the selection, oldest first. Raises: NotFound, before the first one."""
    if selection.ids:
        for number in selection.ids:
            get_conversation(caller=caller, conversation_id=number)
        rows = Conversation.objects.filter(archive_id=caller.archive_id, pk__in=selection.ids)
    else:
        rows = visible_conversations(caller, selection.filters)
    return _in_batches(rows.order_by("pk"), selection)


def messages_of(conversation: Conversation, selection: ExportSelection) -> Iterator[ExportedMessage]:
    """Yield the conversation's messages of the selection in order, with keys masked."""
    position = -1
    chosen = conversation.messages.filter(selection.messages)
    marks = marks_of(archive_id=conversation.archive_id, conversation_id=conversation.pk)
    while True:
        rows = list(chosen.filter(position__gt=position).order_by("position")[:MESSAGES_AT_ONCE])
        for row in rows:
            position = row.position
            mark = None if row.turn_number is None else marks.pop((conversation.pk, row.turn_number), None)
            if mark:
                mark = replace(mark, note=text_without_keys(mark.note, always=selection.is_for_others))
            parts = parts_without_keys(row.typed_parts, always=selection.is_for_others)
            yield ExportedMessage(row, parts, mark)
        if len(rows) < MESSAGES_AT_ONCE:
            return


def _in_batches(rows: QuerySet[Conversation], selection: ExportSelection) -> Iterator[Conversation]:
    last = 0
    while batch := list(rows.filter(pk__gt=last)[:CONVERSATIONS_AT_ONCE]):
        for row in batch:
            last = row.pk
            # Rows stored with HIDE_KEYS=0 still contain their keys.
            row.title = text_without_keys(row.title, always=selection.is_for_others)
            yield row
