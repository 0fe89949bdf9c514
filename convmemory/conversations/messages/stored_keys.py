"""Hides keys in stored messages: in a chat once it is answered, and in messages stored with HIDE_KEYS=0.

The rows become as an import would have stored them, so that importing the same text again changes nothing.
"""

from dataclasses import replace
from typing import Any

from django.db.models import Func, Max, Value

from convmemory.conversations.messages import hidden_keys
from convmemory.conversations.messages.drafts import MessageDraft, event_words
from convmemory.conversations.messages.message_store import row_of
from convmemory.conversations.messages.parts import pack_lines, unpack_lines
from convmemory.conversations.models import Conversation, Event, HiddenKey, Message, MessageSource
from convmemory.core.text import one_line

ROWS_AT_ONCE = 100


def hide_in_messages(conversation: Conversation, *, from_position: int = 0) -> list[int]:
    """Hide keys in a locked conversation's messages from a position on; returns the positions of those that changed."""
    changed: list[int] = []
    position = from_position - 1
    while True:
        rows = list(conversation.messages.filter(position__gt=position).order_by("position")[:ROWS_AT_ONCE])
        sources = MessageSource.objects.filter(archive_id=conversation.archive_id, message__in=rows)
        stored = {number: bytes(data) for number, data in sources.values_list("message_id", "data")}
        changed += [row.position for row in rows if _is_hidden(row, stored.get(row.pk, b""))]
        if len(rows) < ROWS_AT_ONCE:
            return changed
        position = rows[-1].position


def hide_beside_messages(conversation: Conversation) -> int:
    """Hide keys in the title and the events of a locked conversation without storing them; returns the number of
    changes.
    """
    title = one_line(hidden_keys.text_without_keys(conversation.title), 300)
    count = int(title != conversation.title)
    conversation.title = title
    conversation.save(update_fields=["title"])
    events = Event.objects.filter(archive_id=conversation.archive_id, conversation=conversation).defer("words")
    for event in events.order_by("line_number").iterator(chunk_size=ROWS_AT_ONCE):
        payload: Any = hidden_keys.value_without_keys(event.payload)
        if payload != event.payload:
            words = event_words(event.type, event.level, event.tool, payload=payload)
            Event.objects.filter(pk=event.pk, archive_id=event.archive_id).update(
                payload=payload, words=Func(Value(words), function="array_to_tsvector")
            )
            count += 1
    return count


def _is_hidden(row: Message, stored: bytes) -> bool:
    """Hide the keys in one message and its stored source lines; returns whether there were any.

    Source lines that are too long to be searched are deleted.
    """
    lines = unpack_lines(stored)
    draft = MessageDraft(
        role=row.role,  # type: ignore[arg-type]
        parts=row.typed_parts,
        name=row.name,
        created_at=row.created_at,
        model=row.model,
        source_key=row.source_key,
        injected=row.role == Message.Role.USER and not row.is_real_user,
        superseded=row.superseded,
        raw=lines or b"",
    )
    # `without_keys` returns the same object if there is nothing to hide.
    if lines is not None and hidden_keys.without_keys(draft) is draft:
        return False
    last_number = (
        HiddenKey.objects.filter(archive_id=row.archive_id, message=row).aggregate(last=Max("number"))["last"] or 0
    )
    hidden = hidden_keys.without_keys(draft, after_number=last_number)
    fresh = row_of(replace(hidden, raw=b""))
    Message.objects.filter(pk=row.pk, archive_id=row.archive_id).update(
        parts=fresh.parts, content_hash=fresh.content_hash
    )
    if stored:
        MessageSource.objects.filter(message=row, archive_id=row.archive_id).update(data=pack_lines(hidden.raw))
    hidden_keys.keep_keys([(row.pk, hidden)], archive_id=row.archive_id)
    return True
