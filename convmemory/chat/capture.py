"""Records exchanges that pass through the proxy: a request's messages and the reply, as a conversation of the caller.

All of this happens after the reply was forwarded; if it fails, only the log says so.
"""

import json
from dataclasses import dataclass
from typing import Any

from django.contrib.auth.models import User
from django.db import transaction
from django.utils import timezone

from convmemory.chat.deltas import CompletionDraft, usage_in
from convmemory.chat.histories import history_hashes, messages_after
from convmemory.chat.models import CapturedHistory
from convmemory.chat.replies import mark_interrupted
from convmemory.conversations import ingest
from convmemory.conversations.drafts import ConversationDraft, MessageDraft
from convmemory.conversations.importers.content import message_draft
from convmemory.core.errors import ConversationBusy

SOURCE = "proxy"


@dataclass(frozen=True, slots=True)
class Answer:
    """The bytes of a reply received so far. `cut_by` says what ended it, if its own end is not among them."""

    body: bytes
    is_stream: bool
    cut_by: str


@dataclass(frozen=True, slots=True)
class Captured:
    """One exchange: the messages that were sent, and the reply. `interruption` says why the reply is incomplete.

    `total_tokens` is the cost reported by the endpoint.
    """

    model: str
    messages: tuple[MessageDraft, ...]
    reply: MessageDraft
    interruption: str = ""
    total_tokens: int | None = None


def read_exchange(request_body: bytes, answer: Answer) -> Captured | None:
    """The exchange as values; None if nothing was answered. Raises: ValueError, InvalidInput."""
    asked = json.loads(request_body)
    now = timezone.now()
    drafts = [message_draft(message, unknown=lambda kind: None) for message in asked["messages"]]
    stamped = tuple(_stamped(draft, now) for draft in drafts)
    read = _streamed_reply(answer.body) if answer.is_stream else _whole_reply(answer.body)
    if read is None or not read.draft.parts:
        return None
    model = read.draft.model or str(asked.get("model") or "")
    interruption = "" if read.is_complete else answer.cut_by
    return Captured(model, stamped, _stamped(read.draft, now, model=model), interruption, read.total_tokens)


def _stamped(draft: MessageDraft, now: Any, *, model: str = "") -> MessageDraft:
    return MessageDraft(
        role=draft.role, parts=draft.parts, name=draft.name, created_at=draft.created_at or now, model=model
    )


@dataclass(frozen=True, slots=True)
class _Read:
    """A reply as received, whether it is complete, and its cost if reported."""

    draft: MessageDraft
    is_complete: bool
    total_tokens: int | None


def _whole_reply(body: bytes) -> _Read | None:
    answer = json.loads(body)
    choices = answer.get("choices")
    if not choices:
        return None
    draft = message_draft({"role": "assistant", **choices[0]["message"]}, unknown=lambda kind: None)
    reply = MessageDraft(role="assistant", parts=draft.parts, model=str(answer.get("model") or ""))
    return _Read(reply, is_complete=True, total_tokens=usage_in(answer))


def _streamed_reply(body: bytes) -> _Read:
    draft = CompletionDraft()
    is_complete = False
    for line in body.split(b"\n"):
        data = line.strip().removeprefix(b"data:").strip()
        if not line.startswith(b"data:"):
            continue
        if data == b"[DONE]":
            is_complete = True
            continue
        try:
            draft.add(json.loads(data))
        except ValueError:
            break  # it broke off here: what came before counts
    is_complete = is_complete or bool(draft.finish_reason)
    calls = draft.finished_calls() if is_complete else []
    parts = (*draft.spoken_parts, *(call.part for call in calls))
    reply = MessageDraft(role="assistant", parts=parts, model=draft.model)
    return _Read(reply, is_complete=is_complete, total_tokens=draft.total_tokens)


def record_exchange(*, owner: User, captured: Captured) -> int:
    """Continue the conversation whose history the request repeats, or store a new one; returns its id.

    An incomplete reply is marked like one of this server's own.
    """
    hashes = history_hashes(captured.messages)
    with transaction.atomic():
        known = _known_history(owner, hashes)
        if known is None:
            conversation_id = _store_new(owner, captured)
        else:
            conversation_id = known.conversation_id
            fresh = [*messages_after(captured.messages, hashes, bytes(known.history_hash)), captured.reply]
            try:
                with transaction.atomic():
                    ingest.append_messages(owner=owner, conversation_id=conversation_id, drafts=fresh)
            except ConversationBusy:
                conversation_id = _store_new(owner, captured)
        after = history_hashes([captured.reply], start=hashes[-1] if hashes else b"")[-1]
        if captured.interruption:
            mark_interrupted(
                owner=owner, conversation_id=conversation_id, model=captured.model, reason=captured.interruption
            )
        CapturedHistory.objects.update_or_create(
            conversation_id=conversation_id, defaults={"owner_id": owner.pk, "history_hash": after}
        )
    return conversation_id


def _known_history(owner: User, hashes: list[bytes]) -> CapturedHistory | None:
    """The longest recorded history that the request begins with, its row locked."""
    place = {digest: number for number, digest in enumerate(hashes) if digest}
    rows = CapturedHistory.objects.select_for_update().filter(owner_id=owner.pk, history_hash__in=list(place))
    found = list(rows.order_by("conversation_id"))
    return max(found, key=lambda row: (place[bytes(row.history_hash)], row.conversation_id), default=None)


def _store_new(owner: User, captured: Captured) -> int:
    draft = ConversationDraft(messages=[*captured.messages, captured.reply], source=SOURCE, agent=captured.model)
    return ingest.create_conversation(owner=owner, draft=draft).pk
