"""Records exchanges that pass through the proxy: a request's messages and the reply, as a conversation of the caller.

A reply is read while it passes; the rest of the work follows after it was forwarded. What cannot be read is skipped and
counted: the question is stored in any case, marked as broken. Failures of recording only reach the log.
"""

import json
import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import dropwhile, takewhile
from typing import Any

from django.db import connection, transaction
from django.db.models import QuerySet
from django.utils import timezone

from convmemory.accounts.callers import Caller
from convmemory.chat.deltas import (
    CALLS_CUT,
    MAX_CALLS,
    MAX_PARTS,
    PARTS_CUT,
    CompletionDraft,
    MalformedChunk,
    usage_in,
)
from convmemory.chat.histories import START, history_hashes, messages_after
from convmemory.chat.models import CapturedHistory
from convmemory.chat.replies import mark_interrupted
from convmemory.chat.wires import Wire
from convmemory.conversations.importers.agent_formats import ERRANDS, HARNESS
from convmemory.conversations.importers.content import kept_message, message_draft
from convmemory.conversations.importers.values import mapping_of, text_of
from convmemory.conversations.messages import ingest
from convmemory.conversations.messages.drafts import ConversationDraft, MessageDraft
from convmemory.conversations.messages.parts import Part, TextPart, ThinkingPart, ToolCallPart, part_text, spoken_text
from convmemory.conversations.messages.usage import usage_of
from convmemory.core.endpoints.streams import MAX_REPLY_CHARS, NAME_CHARS, REPLY_CUT, UNREADABLE, EventReader
from convmemory.core.errors import ConversationBusy, InvalidInput, ResponseRefused
from convmemory.core.postgres.locks import AdvisoryLock
from convmemory.core.sql import load_sql
from convmemory.core.trash import outside_trash

SOURCE = "proxy"
NO_REPLY = "The reply could not be read."
ID_CHARS = 200
# A follow-up can be recorded before the exchange that it follows; a client rarely has more than a few under way.
RECENT_HASHES = 64
HASH_BYTES = 32

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Origin:
    """The origin of a request: its format, its client as agent, its project, and when it arrived."""

    wire: Wire
    arrived_at: datetime
    agent: str = ""
    project: str = ""


@dataclass(frozen=True, slots=True)
class ReceivedReply:
    """A reply as received, whether it is complete, its reported cost and id, and a note on what is missing."""

    draft: MessageDraft
    is_complete: bool
    total_tokens: int | None = None
    note: str = ""
    response_id: str = ""


@dataclass(frozen=True, slots=True)
class Captured:
    """One exchange: the messages that were sent, and the reply, None without one. `interruption` is the reason for an
    incomplete reply.

    `total_tokens` is the cost reported by the endpoint. `previous_response_id` names the response that a request of the
    Responses API continues, whose messages it does not repeat.
    """

    origin: Origin
    model: str
    messages: tuple[MessageDraft, ...]
    reply: MessageDraft | None
    interruption: str = ""
    total_tokens: int | None = None
    response_id: str = ""
    previous_response_id: str = ""


def read_exchange(origin: Origin, request_body: bytes, reply: ReceivedReply, *, cut_by: str = "") -> Captured | None:
    """Return the exchange as values; None if the request has no message that can be read, or if the client asks for
    itself, such as for a title. `cut_by` is the reason for a reply without an end.
    """
    try:
        asked = mapping_of(json.loads(request_body))
    except (ValueError, RecursionError):
        return None
    now = timezone.now()
    refusals: list[str] = []
    read = _read_messages(origin.wire, asked, refusals)
    messages = tuple(replace(draft, created_at=draft.created_at or now) for draft in read)
    if len(messages) <= len(refusals) or _is_errand(messages):
        return None
    model = reply.draft.model or text_of(asked.get("model"))
    answer = replace(reply.draft, created_at=now, model=model) if reply.draft.parts else None
    return Captured(
        origin=origin,
        model=model,
        messages=messages,
        reply=answer,
        interruption=reply.note or ("" if reply.is_complete else cut_by) or ("" if answer else NO_REPLY),
        total_tokens=reply.total_tokens,
        response_id=reply.response_id,
        previous_response_id=text_of(asked.get("previous_response_id"))[:ID_CHARS],
    )


def _is_errand(messages: Sequence[MessageDraft]) -> bool:
    """Return whether the last user messages ask for something that the client itself wants to know.

    A client may send its request as a message of its own, before the question that it is about.
    """
    spoken = [draft for draft in messages if draft.role != "system"]
    from_last = dropwhile(lambda draft: draft.role != "user", reversed(spoken))
    last_asked = takewhile(lambda draft: draft.role == "user", from_last)
    return any(spoken_text(draft.parts).lstrip().startswith(ERRANDS) for draft in last_asked)


def _read_messages(wire: Wire, asked: Mapping[str, Any], refusals: list[str]) -> Iterator[MessageDraft]:
    """Yield the messages as an import reads them. `refusals` gets the reason for each that is kept as a system message.

    Those without content are left out.
    """

    def refused(reason: str, *, kept: bool) -> None:
        refusals.extend([reason] * kept)

    pending: MessageDraft | None = None
    for value in wire.messages(asked):
        draft = kept_message(mapping_of(value), unknown=lambda kind: None, refused=refused)
        if not draft.parts:
            continue
        if pending and wire.joins_answers and pending.role == draft.role == "assistant":
            pending = replace(pending, parts=(*pending.parts, *draft.parts))
            continue
        if pending:
            yield from _without_harness(pending)
        pending = draft
    if pending:
        yield from _without_harness(pending)


def _without_harness(draft: MessageDraft) -> Iterator[MessageDraft]:
    """Yield what a coding agent itself put into a person's message as a message of its own, before the rest."""
    added = [part for part in draft.parts if isinstance(part, TextPart) and part.text.lstrip().startswith(HARNESS)]
    if draft.role != "user" or not added:
        yield draft
        return
    yield replace(draft, parts=tuple(added), injected=True)
    if typed := tuple(part for part in draft.parts if part not in added):
        yield replace(draft, parts=typed)


class ReplyReader:
    """Reads a reply while it passes, and keeps only the parts that can be recorded."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire
        self._events = EventReader()
        self._draft = CompletionDraft()
        self._whole: MessageDraft | None = None
        self._whole_note = ""
        self._usage: dict[str, Any] = {}
        self._response_id = ""
        self._is_complete = False
        self._unreadable = 0

    def feed(self, piece: bytes) -> str:
        """Read the next piece of a stream; return the note of a reply that is cut here, otherwise ""."""
        try:
            for data in self._events.feed(piece):
                self.add(data)
        except ResponseRefused as error:
            self._draft.cut(str(error))
        return self._draft.cut_note

    def add(self, data: bytes) -> None:
        """Read one event, or the body of a reply that is not streamed."""
        if data == b"[DONE]":
            self._is_complete = True
            return
        try:
            event = json.loads(data.decode())
            if not isinstance(event, dict):
                raise MalformedChunk("not an object")
            self._note_whole(event)
            for chunk in self._wire.chunks(event):
                self._draft.add(chunk)
        except (ValueError, RecursionError, InvalidInput):
            self._unreadable += 1

    def _note_whole(self, event: Mapping[str, Any]) -> None:
        """Keep the usage, the id, and the whole reply, if the event contains them."""
        for level in (event, mapping_of(event.get("message")), mapping_of(event.get("response"))):
            self._usage |= mapping_of(level.get("usage"))
            if level.get("object") == "response":
                self._response_id = text_of(level.get("id"))[:ID_CHARS]
        if (whole := self._wire.whole(event)) is None:
            return
        draft = message_draft(whole, unknown=lambda kind: None)
        parts, self._whole_note = _within_limits(draft.parts)
        self._whole = replace(draft, parts=parts, model=text_of(whole.get("model"))[:NAME_CHARS])

    def received(self) -> ReceivedReply:
        """Return the reply so far; call it when the reply has ended or broken off."""
        draft = self._draft
        if not draft.cut_note:
            for data in self._events.finish():
                self.add(data)
        note = draft.cut_note
        reply = self._whole
        is_complete = not note and (reply is not None or self._is_complete or bool(draft.finish_reason))
        if reply is None or not reply.parts:
            calls = draft.finished_calls() if is_complete else []
            parts = (*draft.spoken_parts, *(call.part for call in calls))
            reply = MessageDraft(role="assistant", parts=parts, model=draft.model)
        else:
            note = self._whole_note
        if self._unreadable and not note:
            note = UNREADABLE.format(count=self._unreadable)
        reply = replace(reply, usage=usage_of(self._usage))
        return ReceivedReply(reply, is_complete, usage_in({"usage": self._usage}), note, self._response_id)


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


def record_exchange(*, caller: Caller, captured: Captured) -> int:
    """Continue the conversation whose history the request repeats, or store a new one; return its id.

    An incomplete reply is marked like an interrupted reply of this server. Exchanges of an owner are recorded one at a
    time, also by several processes; one whose follow-up was recorded first is part of that conversation already.
    """
    answer = [captured.reply] if captured.reply else []
    with transaction.atomic():
        with connection.cursor() as cursor:
            locked = (AdvisoryLock.RECORDING, caller.archive_id)
            cursor.execute(load_sql("convmemory.chat", "one_recording_at_a_time"), locked)
        histories = _histories_of(caller).filter(response_id=captured.previous_response_id)
        previous = histories.order_by("-conversation_id").first() if captured.previous_response_id else None
        start = bytes(previous.history_hash) if previous else START
        hashes = history_hashes(captured.messages, start=start)
        after = [*hashes, *history_hashes(answer, start=hashes[-1])]
        for row in CapturedHistory.objects.filter(
            archive_id=caller.archive_id, recorded_at__gte=captured.origin.arrived_at
        ):
            recent = bytes(row.recent_hashes)
            if after[-1] in (recent[at : at + HASH_BYTES] for at in range(0, len(recent), HASH_BYTES)):
                return row.conversation_id
        history = previous or _known_history(caller, hashes)
        if history is None:
            conversation_id, has_grown = _store_new(caller, captured, answer), True
        else:
            conversation_id = history.conversation_id
            spoken = [draft for draft in captured.messages if draft.role != "system"]
            fresh = spoken if previous else messages_after(captured.messages, hashes, bytes(history.history_hash))
            has_grown = bool(fresh or answer)
            try:
                with transaction.atomic():
                    drafts = [*fresh, *answer]
                    ingest.append_messages(caller=caller, conversation_id=conversation_id, drafts=drafts)
            except ConversationBusy:
                conversation_id = _store_new(caller, captured, answer)
        if captured.interruption and has_grown:
            logger.warning(
                "A reply that passed the proxy is recorded as broken in conversation %s: %s",
                conversation_id, captured.interruption,
            )  # fmt: skip
            mark_interrupted(
                caller=caller, conversation_id=conversation_id, model=captured.model, reason=captured.interruption
            )
        values = {
            "archive_id": caller.archive_id,
            "history_hash": after[-1],
            "recent_hashes": b"".join(after[-RECENT_HASHES:]),
            "response_id": captured.response_id,
        }
        CapturedHistory.objects.update_or_create(conversation_id=conversation_id, defaults=values)
    return conversation_id


def _histories_of(caller: Caller) -> QuerySet[CapturedHistory]:
    """Return the owner's recorded histories, locked; a conversation in the trash is not continued."""
    rows = CapturedHistory.objects.select_for_update(of=("self",))
    return rows.filter(outside_trash("conversation"), archive_id=caller.archive_id)


def _known_history(caller: Caller, hashes: list[bytes]) -> CapturedHistory | None:
    """Return the longest recorded history that the request begins with, its row locked."""
    numbers = {digest: number for number, digest in enumerate(hashes) if digest}
    rows = list(_histories_of(caller).filter(history_hash__in=list(numbers)).order_by("conversation_id"))
    return max(rows, key=lambda row: (numbers[bytes(row.history_hash)], row.conversation_id), default=None)


def _store_new(caller: Caller, captured: Captured, answer: list[MessageDraft]) -> int:
    draft = ConversationDraft(
        messages=[*captured.messages, *answer],
        source=SOURCE,
        agent=captured.origin.agent,
        project=captured.origin.project,
    )
    return ingest.create_conversation(caller=caller, draft=draft).pk
