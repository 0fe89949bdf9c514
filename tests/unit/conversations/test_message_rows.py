"""The content hash of a message must never change: stored messages would count as changed."""

import hashlib
import json
from datetime import UTC, datetime

import pytest

from convmemory.conversations.messages.drafts import MessageDraft
from convmemory.conversations.messages.message_store import row_of
from convmemory.conversations.messages.parts import TextPart, ToolCallPart, part_to_json

DRAFTS = [
    MessageDraft("user", (TextPart('Grüße, "Ada" \\ \u2028 🍞'),), name="Ada", source_key="u1"),
    MessageDraft("assistant", (TextPart("a"), ToolCallPart("t1", "Bash", {"z": 1.5, "a": [None, True]})), model="m-1"),
    MessageDraft("assistant", (), superseded=True),
    MessageDraft("user", (TextPart("reminder"),), injected=True, created_at=datetime(2026, 1, 2, tzinfo=UTC)),
]


@pytest.mark.parametrize("draft", DRAFTS)
def test_content_hash_is_of_role_speaker_and_parts(draft: MessageDraft) -> None:
    row = row_of(draft)
    told = [draft.role, row.is_real_user, draft.name, list(map(part_to_json, draft.parts))]
    whole = json.dumps([*told, *([True] if draft.superseded else [])], sort_keys=True, ensure_ascii=False)
    assert row.content_hash == hashlib.sha256(whole.encode()).digest()


@pytest.mark.parametrize("draft", DRAFTS)
def test_message_row_serialises_to_one_json_object(draft: MessageDraft) -> None:
    row = row_of(draft)
    row.position, row.turn_number = 7, None
    values = json.loads(row.to_json())
    assert values["parts"] == list(map(part_to_json, draft.parts))
    assert (values["role"], values["position"], values["turn_number"]) == (draft.role, 7, None)
    assert values["created_at"] == (draft.created_at.isoformat() if draft.created_at else None)
    assert bytes.fromhex(values["content_hash"]) == row.content_hash
