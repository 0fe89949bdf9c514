"""Records exchanges that pass through the proxy: a request's messages and the reply, as a conversation of the caller.

A streamed reply is read while it passes; the rest of the work follows after the reply was forwarded. Failures of
recording only reach the log.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from django.contrib.auth.models import User
from django.db import transaction
from django.utils import timezone

from convmemory.chat.deltas import CALLS_CUT, MAX_CALLS, MAX_PARTS, PARTS_CUT, CompletionDraft, usage_in
from convmemory.chat.histories import history_hashes, messages_after
from convmemory.chat.models import CapturedHistory
from convmemory.chat.replies import mark_interrupted
from convmemory.conversations.importers.content import message_draft
from convmemory.conversations.messages import ingest
from convmemory.conversations.messages.drafts import ConversationDraft, MessageDraft
from convmemory.conversations.messages.parts import Part, TextPart, ThinkingPart, ToolCallPart, part_text
from convmemory.core.endpoints.streams import MAX_REPLY_CHARS, NAME_CHARS, REPLY_CUT, EventReader
from convmemory.core.errors import ConversationBusy, ResponseRefused

SOURCE = "proxy"


@dataclass(frozen=True, slots=True)
class ReceivedReply:
    """A reply as received, whether it is complete, its reported cost, and a note if this server cut it."""

    draft: MessageDraft
    is_complete: bool
    total_tokens: int | None = None
    cut_note: str = ""


@dataclass(frozen=True, slots=True)
class Captured:
    """One exchange: the messages that were sent, and the reply. `interruption` is the reason for an incomplete reply.

    `total_tokens` is the cost reported by the endpoint.
    """

    model: str
    messages: tuple[MessageDraft, ...]
    reply: MessageDraft
    interruption: str = ""
    total_tokens: int | None = None


def read_exchange(request_body: bytes, reply: ReceivedReply | None, *, cut_by: str = "") -> Captured | None:
    """Return the exchange as values; None without an answer. `cut_by` is the reason for a reply without an end.

    Raises: ValueError, InvalidInput.
    """
    asked = json.loads(request_body)
    now = timezone.now()
    drafts = [message_draft(message, unknown=lambda kind: None) for message in asked["messages"]]
    stamped = tuple(_stamped(draft, now) for draft in drafts)
    if reply is None or not reply.draft.parts:
        return None
    model = reply.draft.model or str(asked.get("model") or "")
    interruption = reply.cut_note or ("" if reply.is_complete else cut_by)
    return Captured(model, stamped, _stamped(reply.draft, now, model=model), interruption, reply.total_tokens)


def _stamped(draft: MessageDraft, now: Any, *, model: str = "") -> MessageDraft:
    return MessageDraft(
        role=draft.role, parts=draft.parts, name=draft.name, created_at=draft.created_at or now, model=model
    )


class StreamedReply:
    """Reads a streamed reply while it passes, and keeps only the parts that can be recorded."""

    def __init__(self) -> None:
        self._reader = EventReader()
        self._draft = CompletionDraft()
        self._is_complete = False
        self._is_readable = True

    def feed(self, piece: bytes) -> str:
        """Read the next piece; return the note of a reply that is cut here, otherwise ""."""
        try:
            for data in self._reader.feed(piece):
                self._add(data)
        except ResponseRefused as error:
            self._draft.cut(str(error))
        return self._draft.cut_note

    def _add(self, data: bytes) -> None:
        if data == b"[DONE]":
            self._is_complete = True
        elif self._is_readable:
            try:
                self._draft.add(json.loads(data.decode()))
            except (ValueError, RecursionError):
                # The reply broke off here: the chunks before count.
                self._is_readable = False

    def received(self) -> ReceivedReply:
        """Return the reply so far; call it when the reply has ended or broken off."""
        draft = self._draft
        if not draft.cut_note:
            for data in self._reader.finish():
                self._add(data)
        is_complete = not draft.cut_note and (self._is_complete or bool(draft.finish_reason))
        calls = draft.finished_calls() if is_complete else []
        parts = (*draft.spoken_parts, *(call.part for call in calls))
        reply = MessageDraft(role="assistant", parts=parts, model=draft.model)
        return ReceivedReply(reply, is_complete, draft.total_tokens, draft.cut_note)


def whole_reply(body: bytes) -> ReceivedReply | None:
    """Return the reply in the body of a completion that was not streamed. Raises: ValueError, InvalidInput."""
    answer = json.loads(body)
    choices = answer.get("choices")
    if not choices:
        return None
    draft = message_draft({"role": "assistant", **choices[0]["message"]}, unknown=lambda kind: None)
    parts, cut_note = _within_limits(draft.parts)
    reply = MessageDraft(role="assistant", parts=parts, model=str(answer.get("model") or "")[:NAME_CHARS])
    return ReceivedReply(reply, is_complete=True, total_tokens=usage_in(answer), cut_note=cut_note)


def _within_limits(parts: Sequence[Part]) -> tuple[tuple[Part, ...], str]:
    """Cut the parts to the limits of a reply; return them, and a note if some are missing."""
    kept: list[Part] = []
    room, calls = MAX_REPLY_CHARS, 0
    for part in parts[:MAX_PARTS]:
        calls += isinstance(part, ToolCallPart)
        if calls > MAX_CALLS:
            return tuple(kept), CALLS_CUT.format(limit=MAX_CALLS)
        room -= len(part_text(part))
        if room < 0:
            if isinstance(part, (TextPart, ThinkingPart)):
                kept.append(replace(part, text=part.text[:room]))
            return tuple(kept), REPLY_CUT.format(limit=MAX_REPLY_CHARS)
        kept.append(part)
    return tuple(kept), PARTS_CUT.format(limit=MAX_PARTS) if len(parts) > MAX_PARTS else ""


def record_exchange(*, owner: User, captured: Captured) -> int:
    """Continue the conversation whose history the request repeats, or store a new one; return its id.

    An incomplete reply is marked like an interrupted reply of this server.
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
    """Return the longest recorded history that the request begins with, its row locked."""
    place = {digest: number for number, digest in enumerate(hashes) if digest}
    rows = CapturedHistory.objects.select_for_update().filter(owner_id=owner.pk, history_hash__in=list(place))
    found = list(rows.order_by("conversation_id"))
    return max(found, key=lambda row: (place[bytes(row.history_hash)], row.conversation_id), default=None)


def _store_new(owner: User, captured: Captured) -> int:
    draft = ConversationDraft(messages=[*captured.messages, captured.reply], source=SOURCE, agent=captured.model)
    return ingest.create_conversation(owner=owner, draft=draft).pk
