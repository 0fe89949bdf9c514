"""The conversations of an export and their messages in order, read a few rows at a time.

An export holds no transaction while it is sent. It begins with the list of its conversations, and each conversation
with the list of its messages. Each of them is sent, or the export breaks off with an error: it never ends as if it were
complete after one was deleted, or the right to read it ended.
"""

from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from django.db.models import Func, IntegerField, Q

from convmemory.accounts.callers import Caller
from convmemory.conversations.filters import EVERYTHING, Filters
from convmemory.conversations.marking import marks_of
from convmemory.conversations.messages.hidden_keys import parts_without_keys, text_without_keys
from convmemory.conversations.messages.parts import Part
from convmemory.conversations.models import Conversation, Message
from convmemory.conversations.reading import get_conversation, visible_conversations
from convmemory.core.errors import NotFound
from convmemory.core.marks import Mark

MESSAGES_AT_ONCE = 50
STORED_BYTES_AT_ONCE = 64 * 1024  # of messages as PostgreSQL stores them: compressed, to a hundredth at best
MAX_NAMED = 1_000
ALL_MESSAGES = Q()
MEANWHILE = "while it was exported: export it again."


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
    """Yield the caller's conversations of the selection, oldest first.

    Raises: NotFound, before the first one, and if one is deleted before its turn.
    """
    if selection.ids:
        for number in selection.ids:
            get_conversation(caller=caller, conversation_id=number)
        rows = Conversation.objects.filter(archive_id=caller.archive_id, pk__in=selection.ids)
    else:
        rows = visible_conversations(caller, selection.filters)
    return _each(caller, array("q", rows.order_by("pk").values_list("pk", flat=True)), selection)


def messages_of(conversation: Conversation, selection: ExportSelection) -> Iterator[ExportedMessage]:
    """Yield the conversation's messages of the selection in order, with keys masked.

    Raises: NotFound if one is deleted before its turn.
    """
    chosen = conversation.messages.filter(selection.messages).order_by("position")
    marks = marks_of(archive_id=conversation.archive_id, conversation_id=conversation.pk)
    numbers, sizes = array("q"), array("q")
    for number, size in chosen.values_list("pk", _StoredBytes("parts")):
        numbers.append(number)
        sizes.append(size)
    if not numbers and not Conversation.with_trash.filter(pk=conversation.pk).exists():
        raise NotFound(f"Conversation {conversation.pk} was deleted {MEANWHILE}")
    for batch in _batches(numbers, sizes):
        rows = conversation.messages.in_bulk(batch)
        if len(rows) < len(batch):
            raise NotFound(f"Messages of conversation {conversation.pk} were deleted {MEANWHILE}")
        for row in map(rows.__getitem__, batch):
            mark = None if row.turn_number is None else marks.pop((conversation.pk, row.turn_number), None)
            if mark:
                mark = replace(mark, note=text_without_keys(mark.note, always=selection.is_for_others))
            parts = parts_without_keys(row.typed_parts, always=selection.is_for_others)
            yield ExportedMessage(row, parts, mark)


class _StoredBytes(Func):
    """The bytes of a column as stored, which PostgreSQL knows without reading the column."""

    function = "pg_column_size"
    output_field = IntegerField()


def _batches(numbers: "array[int]", sizes: "array[int]") -> Iterator[list[int]]:
    """Yield the numbers of messages in groups, of which each of many streams can hold one in memory."""
    start = total = 0
    for at, size in enumerate(sizes):
        if at > start and (total + size > STORED_BYTES_AT_ONCE or at - start == MESSAGES_AT_ONCE):
            yield list(numbers[start:at])
            start, total = at, 0
        total += size
    if numbers:
        yield list(numbers[start:])


def _each(caller: Caller, numbers: Sequence[int], selection: ExportSelection) -> Iterator[Conversation]:
    for number in numbers:
        row = Conversation.objects.filter(archive_id=caller.archive_id, pk=number).first()
        if row is None:
            raise NotFound(f"Conversation {number} was deleted {MEANWHILE}")
        # Rows stored with HIDE_KEYS=0 still contain their keys.
        row.title = text_without_keys(row.title, always=selection.is_for_others)
        yield row
