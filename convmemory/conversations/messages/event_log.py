"""Stores the event logs of agents: only the lines that are not stored yet, in batches, each with its turn.

An event names the prompt before it. The turn of that prompt is known once the turns are numbered, and can change until
the turn is answered.
"""

from collections.abc import Iterable
from itertools import chain, islice
from typing import Any

from django.db.models import Func, Max, Value

from convmemory.conversations.messages.drafts import EventDraft, event_words
from convmemory.conversations.messages.message_store import to_canonical_json
from convmemory.conversations.messages.storage_quota import ROW_BYTES
from convmemory.conversations.models import Conversation, Event
from convmemory.core.sql import execute_without_nested_loops, load_sql
from convmemory.core.text import one_line

BATCH = 500


def add_events(conversation: Conversation, events: Iterable[EventDraft]) -> tuple[int, int]:
    """Append the event log's new lines, and set the turns of all; the turns must be numbered.

    Returns how many lines were added, and their bytes for the storage quota.
    """
    every = iter(events)
    first = next(every, None)
    if first is None:
        return 0, 0
    every = chain([first], every)
    stored = Event.objects.filter(archive_id=conversation.archive_id, conversation=conversation)
    last = stored.aggregate(line=Max("line_number"))["line"]
    # The turn of each prompt; an unanswered prompt shares its turn with the next.
    prompts = conversation.messages.filter(is_real_user=True).order_by("position")
    turns = list(prompts.values_list("turn_number", flat=True))
    count = size = 0
    while batch := list(islice(every, BATCH)):
        new = [event for event in batch if last is None or event.line_number > last]
        # Only new lines: a log grows at its end, and its stored lines never change.
        rows = []
        for event in new:
            named = event_words(event.type, event.level, event.tool, payload=event.payload)
            words: Any = Func(Value(named), function="array_to_tsvector")
            rows.append(
                Event(
                    archive_id=conversation.archive_id,
                    conversation=conversation,
                    line_number=event.line_number,
                    type=one_line(event.type, 100),
                    level=one_line(event.level, 20),
                    tool=one_line(event.tool, 100),
                    turn_number=_turn_of(event, turns),
                    created_at=event.created_at,
                    payload=event.payload,
                    words=words,
                )
            )
        Event.objects.bulk_create(rows)
        size += sum(ROW_BYTES + len(to_canonical_json(row.payload).encode()) for row in rows)
        repeated = batch[: len(batch) - len(new)]
        if repeated:
            parameters: dict[str, Any] = {
                "owner": conversation.archive_id,
                "conversation": conversation.pk,
                "lines": [event.line_number for event in repeated],
                "turns": [_turn_of(event, turns) for event in repeated],
            }
            # Joins rows written by this transaction, of which the planner knows nothing yet.
            execute_without_nested_loops(load_sql("convmemory.conversations", "set_event_turns"), parameters)
        count += len(new)
    return count, size


def _turn_of(event: EventDraft, turns: list[int | None]) -> int | None:
    if event.prompt_number is None:
        return event.turn_number
    return turns[event.prompt_number] if event.prompt_number < len(turns) else None
