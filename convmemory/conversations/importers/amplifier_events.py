"""The event log of an Amplifier session, streamed: one line at a time, payloads cut to size.

Reads `events.jsonl` in the session's folder, or `context-intelligence/events.jsonl`.
"""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from convmemory.conversations.drafts import EventDraft
from convmemory.conversations.importers.base import FileReport
from convmemory.conversations.importers.lines import JsonObject, read_objects
from convmemory.conversations.importers.values import mapping_of, text_of, time_of
from convmemory.core.text import cut, json_storable

EVENT_FILES = ("events.jsonl", "context-intelligence/events.jsonl")
MAX_PAYLOAD_BYTES = 4096
PROMPT_EVENT = "prompt:submit"

_LEFT_OUT = frozenset({"raw", "messages", "history"})  # whole conversations, repeated in each event
_LIMITS = ((1000, 40), (300, 20), (80, 10))  # (characters of a string, items of a list or object)
_MAX_DEPTH = 6


def events_path(folder: Path) -> Path | None:
    """Return the session's event log, if there is one."""
    return next((path for path in (folder / name for name in EVENT_FILES) if path.is_file()), None)


def read_events(folder: Path, report: FileReport) -> Iterator[EventDraft]:
    """Yield the events in order; line numbers rise strictly. Raises: InvalidInput if the file cannot be read."""
    path = events_path(folder)
    if path is None:
        return
    prompts = last = 0

    def on_issue(number: int, reason: str, *, kept: bool) -> None:
        if not kept:
            report.skip(f"{path.name}:{number}", reason)

    for item in read_objects(path, on_issue=on_issue):
        kind = text_of(item.value.get("event")) or text_of(item.value.get("type"))
        if not kind:
            report.skip(f"{path.name}:{item.number}", "an event without a type")
            continue
        prompts += kind == PROMPT_EVENT
        # Several events on one line need different numbers: the number identifies an event.
        last = max(last + 1, item.number)
        yield _event(item, kind, line_number=last, prompts=prompts)


def _event(item: JsonObject, kind: str, *, line_number: int, prompts: int) -> EventDraft:
    value = item.value
    data = mapping_of(value.get("data"))
    tools = (text_of(place.get(key)) for place in (data, value) for key in ("tool_name", "tool"))
    return EventDraft(
        line_number=line_number,
        type=kind,
        level=text_of(value.get("lvl")) or text_of(value.get("level")),
        tool=next((tool for tool in tools if tool), ""),
        turn_number=None if prompts else _given_turn(data, value),
        prompt_number=prompts - 1 if prompts else None,
        created_at=time_of(value.get("ts")) or time_of(value.get("timestamp")),
        payload=bounded_payload({**data, **{key: value[key] for key in ("status", "duration_ms") if key in value}}),
    )


def _given_turn(data: Mapping[str, Any], value: Mapping[str, Any]) -> int | None:
    for turn in (data.get("turn"), data.get("turn_number"), value.get("turn")):
        if isinstance(turn, int) and not isinstance(turn, bool) and 0 <= turn < 2**31:
            return turn
    return None


def bounded_payload(data: Mapping[str, Any]) -> dict[str, Any]:
    """Return the data as JSON of at most 4 KB: long strings and lists are shortened, in steps."""
    for max_chars, max_items in _LIMITS:
        payload: dict[str, Any] = _shortened(data, max_chars, max_items, 0)
        if len(json.dumps(payload, ensure_ascii=False).encode("utf-8", "replace")) <= MAX_PAYLOAD_BYTES:
            return payload
    return {"left_out": f"more than {MAX_PAYLOAD_BYTES} bytes", "keys": [cut(str(key), 40) for key in list(data)[:20]]}


def _shortened(value: Any, max_chars: int, max_items: int, depth: int) -> Any:
    if isinstance(value, str):
        return json_storable(cut(value, max_chars))
    if isinstance(value, (Mapping, list)) and depth >= _MAX_DEPTH:
        return "…"
    if isinstance(value, Mapping):
        kept = [(key, item) for key, item in value.items() if key not in _LEFT_OUT][:max_items]
        return {cut(str(key), 80): _shortened(item, max_chars, max_items, depth + 1) for key, item in kept}
    if isinstance(value, list):
        items = [_shortened(item, max_chars, max_items, depth + 1) for item in value[:max_items]]
        return [*items, f"… {len(value) - max_items} more"] if len(value) > max_items else items
    return json_storable(value)
