"""Conversations as one JSON document, which `importers/own_export.py` reads back with the same messages and turns.

A long conversation is written as several entries, so that a reader can process it in parts.
"""

import json
from collections.abc import Iterator
from dataclasses import asdict
from datetime import datetime
from typing import Any

from convmemory.conversations.exports.selection import ExportedMessage
from convmemory.conversations.importers.own_export import FORMAT_VERSION, JSON_FORMAT
from convmemory.conversations.messages.parts import part_to_json
from convmemory.conversations.models import Conversation

ENTRY_CHARS = 8 * 1024**2  # the most that a reader has to hold in memory


class JsonWriter:
    """Writes one JSON document, with one message per line."""

    def __init__(self) -> None:
        self._head = ""
        self._written = 0
        self._is_first = True

    def begin(self) -> str:
        return f'{{"format": "{JSON_FORMAT}", "version": {FORMAT_VERSION}, "conversations": ['

    def conversation(self, conversation: Conversation) -> str:
        plain = ("id", "source", "source_id", "title", "agent", "project", "repository", "worktree", "parent_source_id")
        times = ("created_at", "updated_at", "archived_at")
        self._head = _dumped(
            {
                **{name: getattr(conversation, name) for name in plain},
                **{name: _time(getattr(conversation, name)) for name in times},
            }
        )[:-1]
        return self._begun()

    def message(self, message: ExportedMessage) -> Iterator[str]:
        plain = ("position", "role", "is_real_user", "superseded", "name", "model", "turn_number", "source_key")
        text = _dumped(
            {
                **{name: getattr(message.row, name) for name in plain},
                "created_at": _time(message.row.created_at),
                "parts": [part_to_json(part) for part in message.parts],
                **({"mark": asdict(message.mark)} if message.mark else {}),
                **({"usage": message.row.usage} if message.row.usage else {}),
            }
        )
        between = "" if self._written == 0 else ","
        if self._written and self._written + len(text) > ENTRY_CHARS:
            between = f"\n]}}{self._begun()}"
        self._written += len(text)
        yield f"{between}\n{text}"

    def end_of_conversation(self) -> Iterator[str]:
        yield "\n]}"

    def end(self) -> str:
        return "\n]}\n"

    def _begun(self) -> str:
        between, self._is_first, self._written = "\n" if self._is_first else ",\n", False, 0
        return f'{between}{self._head}, "messages": ['


def _time(value: datetime | None) -> str | None:
    return None if value is None else value.isoformat()


def _dumped(value: dict[str, Any]) -> str:
    return json.dumps(value, ensure_ascii=False)
