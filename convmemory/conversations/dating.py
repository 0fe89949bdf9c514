"""Dates for imported conversations and messages without one: taken from their context, never from the clock.

A conversation begins with the first event of its log, or its first dated message, or the last change of its file. An
undated message gets the date of its turn's first event, or of the nearest dated message.
"""

from datetime import datetime
from typing import Any

from django.db.models import Max, QuerySet

from convmemory.conversations.drafts import ConversationDraft
from convmemory.conversations.models import Conversation
from convmemory.core.sql import execute_without_nested_loops, load_sql


def date_undated(
    conversation: Conversation, draft: ConversationDraft, *, first_changed: int, last_active: datetime | None
) -> None:
    """Date an imported conversation, whose events are stored, and its messages; about five queries.

    `first_changed` is the first position that is new; `last_active` the conversation's `updated_at` before this import,
    None if it is new.
    """
    messages = conversation.messages
    if last_active is None and draft.created_at is None:
        events = conversation.events.filter(owner_id=conversation.owner_id).order_by("line_number")
        begun = _first_date(events) or _first_date(messages.order_by("position"))
        conversation.created_at = begun or conversation.created_at
    parameters: dict[str, Any] = {
        "owner": conversation.owner_id,
        "conversation": conversation.pk,
        "begun": conversation.created_at,
    }
    # With nested loops, dating 24,000 messages of one import took four minutes.
    execute_without_nested_loops(load_sql("convmemory.conversations", "date_messages"), parameters)
    newest = messages.filter(position__gte=first_changed).aggregate(at=Max("created_at"))["at"]
    conversation.updated_at = max(filter(None, (newest, last_active)), default=conversation.created_at)
    conversation.save(update_fields=["created_at", "updated_at"])


def _first_date(rows: QuerySet) -> datetime | None:  # type: ignore[type-arg]  # events or messages
    found: datetime | None = rows.filter(created_at__isnull=False).values_list("created_at", flat=True).first()
    return found
