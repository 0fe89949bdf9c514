"""Finds the recorded conversation that a request continues, by the hash of its history. Pure.

System messages and what a coding agent adds to prompts are ignored, because clients put the time and other changing
values into them; so are thinking and the ids of calls, which clients omit or change.
"""

import hashlib
import json
from collections.abc import Iterable, Sequence

from convmemory.conversations.messages.drafts import MessageDraft
from convmemory.conversations.messages.parts import AttachmentPart, ToolCallPart, ToolResultPart, spoken_text

START = b""


def history_hashes(drafts: Iterable[MessageDraft], *, start: bytes = START) -> list[bytes]:
    """Return, for each message, the hash of all messages so far; system and injected messages leave it unchanged."""
    hashes: list[bytes] = []
    current = start
    for draft in drafts:
        if draft.role != "system" and not draft.injected:
            calls = [[part.name, part.input] for part in draft.parts if isinstance(part, ToolCallPart)]
            results = [part.text.strip() for part in draft.parts if isinstance(part, ToolResultPart)]
            files = [part.name for part in draft.parts if isinstance(part, AttachmentPart)]
            values = [draft.role, spoken_text(draft.parts).strip(), calls, results, files]
            current = hashlib.sha256(current + json.dumps(values, sort_keys=True, default=str).encode()).digest()
        hashes.append(current)
    return hashes


def messages_after(drafts: Sequence[MessageDraft], hashes: Sequence[bytes], last_hash: bytes) -> list[MessageDraft]:
    """Return the messages after the history `known`, without system messages."""
    last = len(hashes) - 1 - list(reversed(hashes)).index(last_hash)
    return [draft for draft in drafts[last + 1 :] if draft.role != "system"]
