"""The tool that searches the event logs of agents: errors, tool calls, and the same error in other sessions."""

import json
from typing import Annotated, Any

from pydantic import BaseModel, Field

from convmemory.accounts.callers import Caller
from convmemory.conversations.models import Event
from convmemory.conversations.reading import EventFilters, search_events, similar_events
from convmemory.core.text import cut
from convmemory.core.trash import outside_trash
from convmemory.tools.definition import Optional, Text, Tool, ToolInput, ToolOutput, site
from search.reasons import Explanation, Reason

PAYLOAD_CHARS = 600
SHORTER = (300, 100, 30, 10)  # characters of each text, tried in turn until the payload is short enough
LISTED = 10  # entries of each list and object of a payload that is too long


class SearchEventsInput(ToolInput):
    words: Annotated[Text, Field(description="all of them, in any field")] = ""
    level: Annotated[Text, Field(description="ERROR")] = ""
    conversation_id: Annotated[int | Optional, Field(description="only this one")] = None
    similar_to: Annotated[int | Optional, Field(description="an event's id: the same anywhere")] = None
    after_id: Annotated[int, Field(ge=0, description="next_after_id")] = 0
    limit: Annotated[int, Field(ge=1, le=100, description="events a page")] = 20


class FoundEvent(BaseModel):
    id: int
    conversation_id: int
    turn_number: int | Optional = None
    type: str
    payload: dict[str, Any]
    url: str


class SearchEventsOutput(ToolOutput):
    results: list[FoundEvent]
    next_after_id: int | Optional = None


def find_events(caller: Caller | None, arguments: SearchEventsInput) -> SearchEventsOutput:
    """Return entries of the caller's event logs. Raises: InvalidInput, NotFound for what is not the caller's."""
    if caller is None:
        return _nothing(Reason.NO_CALLER)
    if arguments.similar_to is not None:
        rows = similar_events(caller=caller, event_id=arguments.similar_to, limit=arguments.limit)
        if not rows:
            return SearchEventsOutput(results=[], note="No other event reports the same.", reason=Reason.NO_MATCH)
        return SearchEventsOutput(results=[_found(row) for row in rows])
    events = search_events(
        caller=caller,
        conversation_id=arguments.conversation_id,
        filters=EventFilters(words=arguments.words, level=arguments.level),
        after_id=arguments.after_id,
        limit=arguments.limit,
    )
    if events:
        last = events[-1].pk if len(events) == arguments.limit else None
        return SearchEventsOutput(results=[_found(row) for row in events], next_after_id=last)
    if not Event.objects.filter(outside_trash("conversation"), archive_id=caller.archive_id).exists():
        return _nothing(Reason.NOTHING_STORED, "Event logs come with the sessions of some agents only.")
    if arguments.after_id:
        return _nothing(Reason.PAST_END)
    return _nothing(Reason.NO_MATCH if arguments.words else Reason.FILTERED_OUT)


def _nothing(reason: Reason, more: str = "") -> SearchEventsOutput:
    note = Explanation(reason, {"unknown": ""}).for_tools
    return SearchEventsOutput(results=[], note=f"{note} {more}".strip(), reason=reason)


def _found(event: Event) -> FoundEvent:
    turn = "" if event.turn_number is None else f"?turn={event.turn_number}"
    return FoundEvent(
        id=event.pk,
        conversation_id=event.conversation_id,
        turn_number=event.turn_number,
        type=event.type,
        payload=short_payload(event.payload),
        url=f"{site()}/conversations/{event.conversation_id}{turn}",
    )


def short_payload(payload: dict[str, Any]) -> dict[str, Any]:
    """Return the payload with its texts cut and its lists shortened until its JSON has at most `PAYLOAD_CHARS`."""
    versions = (payload, *(_shortened(payload, chars) for chars in SHORTER))
    return next((each for each in versions if len(json.dumps(each, ensure_ascii=False)) <= PAYLOAD_CHARS), {})


def _shortened(value: Any, chars: int) -> Any:
    if isinstance(value, str):
        return cut(value, chars)
    if isinstance(value, list):
        return [_shortened(entry, chars) for entry in value[:LISTED]]
    if isinstance(value, dict):
        return {cut(key, chars): _shortened(entry, chars) for key, entry in list(value.items())[:LISTED]}
    return value


SEARCH_EVENTS = Tool(
    name="search_events",
    description=(
        "Find entries of agents' event logs. Use it to see whether an error occurred before, and where; not for what "
        "was said. Example: level='ERROR', words='deadlock'."
    ),
    input_model=SearchEventsInput,
    output_model=SearchEventsOutput,
    function=find_events,
)
