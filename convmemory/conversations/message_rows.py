"""A message draft as a row, with the key and hash that identify it in a later import."""

import hashlib
import json
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from convmemory.conversations.drafts import MessageDraft
from convmemory.conversations.hidden_keys import without_keys
from convmemory.conversations.parts import Role, part_to_json
from convmemory.conversations.turns import is_real_user_message
from convmemory.core.text import content_hash, one_line, storable

KEY_CHARS = 200  # the column's length
to_canonical_json = json.JSONEncoder(sort_keys=True, ensure_ascii=False).encode


@dataclass(slots=True)
class MessageRow:
    """A message as a row. `parts_json` is the canonical JSON of `parts`; `pk` is 0 until the row is stored."""

    role: Role
    is_real_user: bool
    superseded: bool
    name: str
    model: str
    parts: list[dict[str, Any]]
    parts_json: str
    source_key: str
    created_at: datetime | None
    position: int = 0
    turn_number: int | None = None
    pk: int = 0
    stored_bytes: int = 0  # set when it is stored

    @property
    def content_hash(self) -> bytes:
        """The SHA-256 of the content and its speaker."""
        # Equals the canonical JSON of the whole list, without serialising the parts a second time.
        start = to_canonical_json([self.role, self.is_real_user, self.name])[:-1]
        end = ", true]" if self.superseded else "]"
        return hashlib.sha256(f"{start}, {self.parts_json}{end}".encode()).digest()

    def to_json(self) -> str:
        """The JSON object that the statement `insert_messages` reads."""
        values = {
            "position": self.position,
            "role": self.role,
            "is_real_user": self.is_real_user,
            "superseded": self.superseded,
            "name": self.name,
            "model": self.model,
            "source_key": self.source_key,
            "turn_number": self.turn_number,
            "content_hash": self.content_hash.hex(),
            "created_at": self.created_at.isoformat() if self.created_at else None,
        }
        return f'{to_canonical_json(values)[:-1]}, "parts": {self.parts_json}}}'


def source_key_of(draft: MessageDraft) -> str:
    """Return the stored key: a long one is cut and ends in its hash, so that different keys stay different."""
    key = storable(draft.source_key)
    return key if len(key) <= KEY_CHARS else f"{key[: KEY_CHARS - 65]}-{content_hash(key).hex()}"


def row_of(draft: MessageDraft) -> MessageRow:
    """Return the message as a row, without its position."""
    parts = [part_to_json(part) for part in draft.parts]
    return MessageRow(
        role=draft.role,
        is_real_user=is_real_user_message(draft.role, draft.parts, injected=draft.injected),
        superseded=draft.superseded,
        name=one_line(storable(draft.name), 200),
        model=one_line(storable(draft.model), 200),
        parts=parts,
        parts_json=to_canonical_json(parts),
        source_key=source_key_of(draft),
        created_at=draft.created_at,
    )


def is_stored_as(digest: bytes, draft: MessageDraft) -> bool:
    """Return whether the stored message with this content hash is the draft, with its keys hidden or not."""
    return any(digest == row_of(each).content_hash for each in (without_keys(draft), draft))
