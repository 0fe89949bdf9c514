"""The events of a reply as values, and their wire format (server-sent events).

Source: https://html.spec.whatwg.org/multipage/server-sent-events.html
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from convmemory.core.text import json_storable

EventName = Literal[
    "message_started", "context", "text", "thinking", "tool_call", "tool_result", "turn", "done", "error", "title"
]
KEEP_ALIVE = b": still here\n\n"


@dataclass(frozen=True, slots=True)
class Event:
    """One event of a reply; `data` are JSON values."""

    name: EventName
    data: Mapping[str, Any] = field(default_factory=dict)

    @property
    def is_last(self) -> bool:
        return self.name in ("error", "title") or (self.name == "done" and not self.data.get("title_follows"))


def encode_event(event: Event) -> bytes:
    """Return the event in its wire format. JSON has no line breaks of its own, so one `data` line is enough."""
    data = json.dumps(json_storable(event.data), ensure_ascii=False, separators=(",", ":"))
    return f"event: {event.name}\ndata: {data}\n\n".encode()
