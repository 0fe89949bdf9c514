"""Storing the event logs of agents: only lines that are not stored yet, in batches."""

from collections.abc import Iterable
from itertools import islice

from django.db.models import Max

from convmemory.conversations.drafts import EventDraft
from convmemory.conversations.models import Conversation, Event
from convmemory.core.text import json_storable, one_line, storable

BATCH = 500


def add_events(conversation: Conversation, events: Iterable[EventDraft]) -> int:
    """Append the event log's new lines; how many."""
    stored = Event.objects.filter(owner_id=conversation.owner_id, conversation=conversation)
    last = stored.aggregate(line=Max("line_number"))["line"]
    new = (event for event in events if last is None or event.line_number > last)
    count = 0
    while batch := list(islice(new, BATCH)):
        Event.objects.bulk_create(
            Event(
                owner_id=conversation.owner_id,
                conversation=conversation,
                line_number=event.line_number,
                type=one_line(storable(event.type), 100),
                level=one_line(storable(event.level), 20),
                tool=one_line(storable(event.tool), 100),
                turn_number=event.turn_number,
                created_at=event.created_at,
                payload=json_storable(event.payload),
            )
            for event in batch
        )
        count += len(batch)
    return count
