"""What a draft of a message is as a row, and what it is known by, however often it comes."""

import hashlib
import json

from convmemory.conversations.drafts import MessageDraft
from convmemory.conversations.hidden_keys import without_keys
from convmemory.conversations.models import Message
from convmemory.conversations.parts import part_to_json
from convmemory.conversations.turns import is_real_user_message
from convmemory.core.text import content_hash, one_line, storable

KEY_CHARS = 200


def source_key_of(draft: MessageDraft) -> str:
    """The key as it is stored: of a long one the beginning and its hash, so that two keys stay two."""
    key = storable(draft.source_key)
    return key if len(key) <= KEY_CHARS else f"{key[: KEY_CHARS - 65]}-{content_hash(key).hex()}"


def row_of(draft: MessageDraft) -> Message:
    """The message as it is stored, without owner, conversation and position."""
    parts = [part_to_json(part) for part in draft.parts]
    is_real_user = is_real_user_message(draft.role, draft.parts, injected=draft.injected)
    name = one_line(storable(draft.name), 200)
    told = [draft.role, is_real_user, name, parts, *([True] if draft.superseded else [])]
    canonical = json.dumps(told, sort_keys=True, ensure_ascii=False)
    return Message(
        role=draft.role,
        is_real_user=is_real_user,
        superseded=draft.superseded,
        name=name,
        model=one_line(storable(draft.model), 200),
        parts=parts,
        source_key=source_key_of(draft),
        content_hash=hashlib.sha256(canonical.encode()).digest(),
        created_at=draft.created_at,
    )


def is_stored_as(digest: bytes, draft: MessageDraft) -> bool:
    """Whether the stored message with this content hash is the draft, with its keys hidden or as it came."""
    return any(digest == row_of(each).content_hash for each in (without_keys(draft), draft))
