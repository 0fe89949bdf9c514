"""Writes message rows with their raw sources and hidden keys; the conversation must be locked.

Many rows are sent in one statement as one JSON array, which costs a fraction of the same rows as values.
"""

import json
from base64 import b64encode
from collections.abc import Sequence
from typing import Any

from django.db import connection

from convmemory.conversations import hidden_keys
from convmemory.conversations.drafts import MessageDraft
from convmemory.conversations.message_rows import MessageRow, row_of
from convmemory.conversations.models import Conversation, MessageSource
from convmemory.conversations.source_lines import pack_lines
from convmemory.conversations.storage_quota import ROW_BYTES, bytes_of_messages
from convmemory.conversations.turns import TurnCounter, TurnMessage
from convmemory.core.sql import load_sql


def insert_messages(
    owner_id: int,
    conversation_id: int,
    drafts: Sequence[MessageDraft],
    first_position: int,
    counter: TurnCounter | None = None,
) -> list[MessageRow]:
    """Store new messages at consecutive positions from `first_position`.

    `counter` has numbered all messages before them, so that their turn numbers need no second write.
    """
    if not drafts:
        return []
    rows = [row_of(draft) for draft in drafts]
    if counter:
        _number(rows, drafts, counter)
    for position, row in enumerate(rows, first_position):
        row.position = position
    home: dict[str, Any] = {"owner": owner_id, "conversation": conversation_id}
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
    hidden_keys.keep_keys(zip((row.pk for row in rows), drafts, strict=True), owner_id=owner_id)
    return rows


def _number(rows: Sequence[MessageRow], drafts: Sequence[MessageDraft], counter: TurnCounter) -> None:
    messages = (
        TurnMessage(draft.role, row.is_real_user, row.superseded) for draft, row in zip(drafts, rows, strict=True)
    )
    for row, number in zip(rows, counter.number(messages), strict=True):
        row.turn_number = number


def is_older_copy(conversation: Conversation, pk: int, row: MessageRow) -> bool:
    """Return whether the stored message starts with `row` and continues.

    An older file of a thread then does not shorten a message.
    """
    same = {name: getattr(row, name) for name in ("role", "is_real_user", "superseded", "name")}
    stored: list[Any] = conversation.messages.filter(pk=pk, **same).values_list("parts", flat=True).first() or []
    return 0 < len(row.parts) < len(stored) and stored[: len(row.parts)] == row.parts


def update_message(conversation: Conversation, pk: int, row: MessageRow, draft: MessageDraft) -> int:
    """Update a stored message from the draft, whose row is `row`; returns by how many bytes it grew."""
    before = bytes_of_messages(owner_id=conversation.owner_id, message_ids=[pk])
    lines = pack_lines(draft.raw)
    values = ("role", "is_real_user", "superseded", "name", "model", "parts", "content_hash")
    conversation.messages.filter(pk=pk).update(**{name: getattr(row, name) for name in values})
    if lines:
        MessageSource.objects.update_or_create(message_id=pk, owner_id=conversation.owner_id, defaults={"data": lines})
    else:  # the stored lines stay
        stored = MessageSource.objects.filter(message_id=pk, owner_id=conversation.owner_id)
        lines = bytes(stored.values_list("data", flat=True).first() or b"")
    hidden_keys.keep_keys([(pk, draft)], owner_id=conversation.owner_id)
    return _stored_bytes(row, lines) - before


def _stored_bytes(row: MessageRow, lines: bytes) -> int:
    return ROW_BYTES + len(row.parts_json.encode()) + len(lines)
