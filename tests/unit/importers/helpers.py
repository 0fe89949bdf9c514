"""Reads fixtures and hand-written lines the way the importers' tests need them."""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from convmemory.conversations.importers.base import FileReport, Importer, Source
from convmemory.conversations.messages.drafts import ConversationDraft, EventDraft, MessageDraft
from convmemory.conversations.messages.parts import part_text, spoken_text
from convmemory.conversations.messages.turns import TurnMessage, is_real_user_message, number_turns

FIXTURES = Path(__file__).parents[2] / "fixtures" / "transcripts"


@dataclass(frozen=True)
class Read:
    """A conversation as read, its messages and events in lists."""

    draft: ConversationDraft
    messages: list[MessageDraft]
    events: list[EventDraft]

    @property
    def prompts(self) -> list[str]:
        """The texts of the real user messages."""
        return [spoken_text(message.parts) for message in self.messages if is_real(message)]

    @property
    def turns(self) -> int:
        told = (TurnMessage(message.role, is_real(message), message.superseded) for message in self.messages)
        numbers = number_turns(told)
        return len({number for number in numbers if number is not None})

    @property
    def texts(self) -> list[str]:
        """Return texts, thoughts, calls and results in order; superseded messages are in brackets."""
        shown = []
        for message in self.messages:
            text = " ".join(filter(None, map(part_text, message.parts)))
            shown.append(f"({text})" if message.superseded else text)
        return shown

    @property
    def keys(self) -> list[str]:
        return [message.source_key for message in self.messages]


def is_real(message: MessageDraft) -> bool:
    return is_real_user_message(message.role, message.parts, injected=message.injected)


def read(importer: Importer, path: Path, report: FileReport | None = None) -> list[Read]:
    """Every conversation of a source."""
    report = report or FileReport(path=path.name)
    return [Read(draft, list(draft.messages), list(draft.events)) for draft in importer.parse(Source(path), report)]


def write_lines(path: Path, lines: Iterable[dict[str, Any] | str]) -> Path:
    """A file of these lines."""
    text = "\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text + "\n", encoding="utf-8")
    return path


def user_line(uuid: str, content: Any, **values: Any) -> dict[str, Any]:
    """A user line of Claude Code."""
    return {
        "type": "user",
        "uuid": uuid,
        "sessionId": "s",
        "timestamp": "2026-02-03T10:00:00Z",
        "message": {"role": "user", "content": content},
        **values,
    }


def assistant_line(uuid: str, text: str, **values: Any) -> dict[str, Any]:
    """An assistant line of Claude Code with one text block and a message id of its own."""
    message = {"id": f"msg-{uuid}", "role": "assistant", "content": [{"type": "text", "text": text}]}
    return {"type": "assistant", "uuid": uuid, "sessionId": "s", "message": message, **values}


def queue_line(operation: str, content: str | None = None) -> dict[str, Any]:
    """A queue operation of Claude Code."""
    value = {"type": "queue-operation", "operation": operation, "timestamp": "2026-02-03T10:00:00Z", "sessionId": "s"}
    return value if content is None else {**value, "content": content}


def queued_command_line(uuid: str, prompt: Any, **values: Any) -> dict[str, Any]:
    """A prompt that was handed to the model as an attachment."""
    attachment = {"type": "queued_command", "prompt": prompt, "commandMode": "prompt", **values}
    return {"type": "attachment", "uuid": uuid, "sessionId": "s", "attachment": attachment}
