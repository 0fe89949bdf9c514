"""Changes the state of a reply in the database: begun, alive, stopped, ended, taken over from a dead process.

All functions are synchronous and short. Lock the conversation's row before the reply's. Once a reply is no longer
`live`, its writer may store nothing more.
"""

import logging
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from enum import Enum
from typing import Any

from django.db import transaction
from django.db.models import QuerySet
from django.utils import timezone

from convmemory.accounts.callers import Caller
from convmemory.accounts.quota import require_quota
from convmemory.chat.agents import AgentOptions, agent_for, options_of
from convmemory.chat.models import Agent, Reply
from convmemory.chat.progress import draft_to_json, read_partial
from convmemory.chat.versions import follows, note_order
from convmemory.conversations import reading
from convmemory.conversations.messages import ingest, responses
from convmemory.conversations.messages.drafts import ConversationDraft, MessageDraft
from convmemory.conversations.messages.ingest import supersede_from
from convmemory.conversations.messages.parts import AttachmentPart, TextPart, spoken_text
from convmemory.conversations.models import Conversation, Message
from convmemory.core.config import config
from convmemory.core.errors import ConvMemoryError, InvalidInput, NotFound, TooLarge
from convmemory.core.text import one_line, storable
from convmemory.documents import library
from convmemory.tools.documents import DOCUMENT_SEARCH

MAX_MESSAGE_CHARS = 1_000_000
MODEL_CHARS = 200
SOURCE = "chat"
GONE = "The server went away while the reply was being written."
GONE_DAMAGED = f"{GONE} Some of what had been received is damaged and is missing here."

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ReplyJob:
    """A reply that has begun, with the data needed to write it."""

    reply_id: int
    conversation_id: int
    question_id: int
    caller: Caller
    agent: AgentOptions


@dataclass(frozen=True, slots=True)
class ReplyEnding:
    """The outcome of a reply; `error` is the reason of a failure, or a remark on another ending."""

    status: Reply.Status
    error: str = ""
    retry_after_s: float | None = None


@dataclass(frozen=True, slots=True)
class StoredReply:
    """The result of a reply in the conversation; both None without an answer."""

    turn_number: int | None
    last_message_id: int | None


class Pulse(Enum):
    """The answer of a heartbeat to the writer."""

    GO_ON = "go on"
    STOP = "stop"
    LOST = "lost"


class ReplyLost(ConvMemoryError):
    """The reply was taken over or its conversation deleted while it was being written."""


def lease() -> timedelta:
    return timedelta(seconds=config.chat_lease_s)


def start_conversation(
    *, caller: Caller, text: str, agent_id: int | None, document_ids: Collection[int] = ()
) -> Conversation:
    """Create an empty conversation for a first message that can be answered. Raises: like `begin_reply`."""
    _clean(text)
    agent = agent_for(caller=caller, conversation_id=None, agent_id=agent_id)
    options = _usable(agent, caller)
    _attachments(caller, options, document_ids)
    return ingest.create_conversation(
        caller=caller, draft=ConversationDraft(messages=(), source=SOURCE, agent=options.name)
    )


def begin_reply(
    *,
    caller: Caller,
    conversation_id: int,
    text: str,
    agent_id: int | None = None,
    replaces: int | None = None,
    document_ids: Collection[int] = (),
) -> ReplyJob:
    """Store the question and lock the conversation for its answer, in one transaction.

    `replaces` is the message id of an earlier question that was asked here: the thread continues from its place,
    without that question and the messages after it. Documents are attached to the conversation, and named in the
    question. Raises: NotFound, ConversationBusy, NoEndpoint, InvalidInput, TooLarge, SwitchedOff, QuotaUsedUp.
    """
    text = _clean(text)
    agent = agent_for(caller=caller, conversation_id=conversation_id, agent_id=agent_id)
    try:
        options = _usable(agent, caller)
    # An unknown conversation is reported as unknown, whatever other error there is.
    except ConvMemoryError:
        reading.get_conversation(caller=caller, conversation_id=conversation_id)
        raise
    attachments = _attachments(caller, options, document_ids)
    with transaction.atomic():
        if document_ids:
            library.attach(caller=caller, conversation_id=conversation_id, document_ids=document_ids)
        before = None
        if replaces is not None:
            question_asked_here(caller=caller, conversation_id=conversation_id, message_id=replaces)
            note_order(caller=caller, conversation_id=conversation_id)
            before = follows(caller=caller, message_id=replaces)
            parts = Message.objects.get(pk=replaces, archive_id=caller.archive_id).typed_parts
            attachments = [*(part for part in parts if isinstance(part, AttachmentPart)), *attachments]
            supersede_from(caller=caller, conversation_id=conversation_id, message_id=replaces)
        question = MessageDraft(role="user", parts=(TextPart(text), *attachments), created_at=timezone.now())
        question_id = responses.begin_response(
            caller=caller, conversation_id=conversation_id, question=question, lease=lease()
        )
        reply = Reply.objects.create(
            archive_id=caller.archive_id,
            conversation_id=conversation_id,
            agent_id=options.agent_id,
            question_id=question_id,
            follows=before,
            model=options.endpoint.model,
        )
    return ReplyJob(reply.pk, conversation_id, question_id, caller.alone(), options)


def question_asked_here(*, caller: Caller, conversation_id: int, message_id: int) -> str:
    """Return the text of a question that was asked in this server's chat and is not superseded. Raises: NotFound."""
    asked = Message.objects.filter(
        pk=message_id, archive_id=caller.archive_id, conversation_id=conversation_id, role="user", superseded=False
    ).first()
    if asked is None or not Reply.objects.filter(archive_id=caller.archive_id, question=asked).exists():
        raise NotFound(
            f"There is no question {message_id} in conversation {conversation_id} that could be asked again."
        )
    return spoken_text(asked.typed_parts)


def _usable(agent: Agent | None, caller: Caller) -> AgentOptions:
    """Return the agent's configuration, if it can answer now. Raises: like `begin_reply`."""
    options = options_of(agent, caller=caller)
    if options.is_metered:
        require_quota(archive_id=caller.archive_id, person_id=caller.person_id)
    return options


def _attachments(caller: Caller, options: AgentOptions, document_ids: Collection[int]) -> list[AttachmentPart]:
    """Return the documents as parts of a question. Raises: NotFound, InvalidInput if the agent does not search them."""
    if document_ids and DOCUMENT_SEARCH.name not in options.tools:
        raise InvalidInput(
            f"“{options.name}” does not search documents: allow it to in its settings, or choose who else answers."
        )
    rows = library.own_documents(caller=caller, document_ids=document_ids) if document_ids else ()
    return [AttachmentPart(name=row.name, size_bytes=row.size) for row in rows]


def _clean(text: str) -> str:
    """Return the stripped text. Raises: InvalidInput, TooLarge."""
    if len(text) > MAX_MESSAGE_CHARS:
        raise TooLarge(
            f"The message has {len(text):,} characters, {MAX_MESSAGE_CHARS:,} are possible: shorten it, or store the "
            "text as a document and ask about it."
        )
    if not text.strip():
        raise InvalidInput("The message is empty: write at least one character.")
    return text.strip()


def beat(job: ReplyJob, received: Sequence[MessageDraft] | None) -> Pulse:
    """Prolong the lease and store the received messages (None: no new ones); return what the writer should do."""
    with transaction.atomic():
        if not responses.renew_response(caller=job.caller, conversation_id=job.conversation_id, lease=lease()):
            return Pulse.LOST
        mine = _running(job.caller.archive_id, job.reply_id).select_for_update()
        stops = mine.values_list("stop_requested", flat=True).first()
        if stops is None:
            transaction.set_rollback(True)
            return Pulse.LOST
        if received is not None:
            mine.update(partial=[draft_to_json(draft) for draft in received])
    return Pulse.STOP if stops else Pulse.GO_ON


def store_context(job: ReplyJob, context: Mapping[str, Any]) -> None:
    """Store the effect of the context pipeline on this reply, for the page."""
    Reply.objects.filter(archive_id=job.caller.archive_id, pk=job.reply_id).update(context=dict(context))


def request_stop(*, caller: Caller, conversation_id: int) -> int:
    """Ask the writer, in whichever process, to stop; return the reply's id.

    Raises: NotFound if no reply is being written.
    """
    reading.get_conversation(caller=caller, conversation_id=conversation_id)
    running = Reply.objects.filter(
        archive_id=caller.archive_id, conversation_id=conversation_id, status=Reply.Status.RUNNING
    )
    reply_id = running.values_list("pk", flat=True).first()
    if reply_id is None:
        raise NotFound(f"Nothing is being written in conversation {conversation_id}.")
    running.filter(pk=reply_id).update(stop_requested=True)
    return reply_id


def replies_of(*, caller: Caller, conversation_id: int, limit: int) -> list[Reply]:
    """Return the newest replies first. Raises: NotFound."""
    conversation = reading.get_conversation(caller=caller, conversation_id=conversation_id)
    return list(Reply.objects.filter(archive_id=caller.archive_id, conversation=conversation).order_by("-pk")[:limit])


def finish_reply(job: ReplyJob, received: Sequence[MessageDraft], ending: ReplyEnding) -> StoredReply:
    """Store the reply, number its turn and set the conversation idle, in one short transaction.

    Raises: ReplyLost; then nothing is stored.
    """
    with transaction.atomic():
        try:
            responses.lock_conversation(caller=job.caller, conversation_id=job.conversation_id)
        except NotFound as error:
            raise ReplyLost(str(error)) from error
        if not _end(job.caller.archive_id, job.reply_id, ending):
            raise ReplyLost(f"Reply {job.reply_id} was taken over.")
        conversation = responses.finish_response(
            caller=job.caller,
            conversation_id=job.conversation_id,
            drafts=received,
            failed=ending.status == Reply.Status.FAILED,
        )
        last = conversation.messages.get(position=conversation.message_count - 1) if received else None
    return StoredReply(last.turn_number, last.pk) if last else StoredReply(None, None)


def _running(archive_id: int, reply_id: int) -> QuerySet[Reply]:
    return Reply.objects.filter(archive_id=archive_id, pk=reply_id, status=Reply.Status.RUNNING)


def _end(archive_id: int, reply_id: int, ending: ReplyEnding, *, keeps_partial: bool = False) -> bool:
    partial: dict[str, Any] = {} if keeps_partial else {"partial": []}
    return bool(
        _running(archive_id, reply_id).update(
            status=ending.status, error=ending.error, ended_at=timezone.now(), **partial
        )
    )


def take_over(conversation: Conversation) -> list[MessageDraft]:
    """End the reply that a dead process was writing here; return its received messages.

    The caller has locked the conversation's row and stores the messages. Unreadable messages are left out, and stay in
    the reply's row.
    """
    mine = Reply.objects.filter(archive_id=conversation.archive_id, conversation=conversation)
    reply = mine.filter(status=Reply.Status.RUNNING).select_for_update().first()
    if reply is None:
        return []
    received, is_whole = read_partial(reply.partial)
    if not is_whole:
        logger.error("Reply %s: some of what had been received is damaged and cannot be read", reply.pk)
    ending = ReplyEnding(Reply.Status.INTERRUPTED, GONE if is_whole else GONE_DAMAGED)
    _end(reply.archive_id, reply.pk, ending, keeps_partial=not is_whole)
    return received


def mark_interrupted(*, caller: Caller, conversation_id: int, model: str, reason: str) -> None:
    """Mark the last answer of a conversation, which went to another program, as interrupted."""
    questions = Message.objects.filter(archive_id=caller.archive_id, conversation_id=conversation_id, is_real_user=True)
    Reply.objects.create(
        archive_id=caller.archive_id,
        conversation_id=conversation_id,
        question_id=questions.order_by("-position").values_list("pk", flat=True).first(),
        model=one_line(storable(model), MODEL_CHARS),
        status=Reply.Status.INTERRUPTED,
        error=reason,
        ended_at=timezone.now(),
    )
