"""Formats that are known but not read yet, so that a report can say which one a file is."""

import re
from dataclasses import dataclass

from convmemory.conversations.importers.base import Source


@dataclass(frozen=True, slots=True)
class _Format:
    name: str
    marks: tuple[bytes, ...]  # patterns that all stand in the first 64 KB


_FORMATS = (
    _Format("a ChatGPT export", (rb'"mapping"\s*:', rb'"(?:current_node|create_time|author)"\s*:')),
    _Format("a Claude.ai export", (rb'"chat_messages"\s*:',)),
    _Format("a Codex session", (rb'"type"\s*:\s*"(?:session_meta|response_item|event_msg|turn_context)"',)),
    _Format("an old Codex session", (rb'"instructions"\s*:', rb'"type"\s*:\s*"message"', rb'"record_type"\s*:')),
    _Format("a Gemini CLI session", (rb'"projectHash"\s*:', rb'"sessionId"\s*:')),
    _Format("a LibreChat export", (rb'"conversationId"\s*:', rb'"parentMessageId"\s*:')),
    _Format("an Open WebUI export", (rb'"history"\s*:', rb'"childrenIds"\s*:')),
    _Format("an opencode export", (rb'"info"\s*:', rb'"parts"\s*:', rb'"(?:sessionID|modelID|providerID)"\s*:')),
    _Format("a Copilot CLI session", (rb'"type"\s*:\s*"(?:session\.start|user\.message)"', rb'"data"\s*:')),
    _Format("a pi session", (rb'"type"\s*:\s*"session"', rb'"cwd"\s*:', rb'"type"\s*:\s*"message"')),
)


def foreign_format(source: Source) -> str:
    """What the file is, where it is of a format that convmemory does not read yet; else an empty string."""
    head = source.head
    for known in _FORMATS:
        if all(re.search(mark, head) for mark in known.marks):
            return known.name
    return ""
