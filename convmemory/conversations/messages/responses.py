"""The lock on a conversation, and the response that owns it: begun, renewed, finished, or released.

While a response is being written its conversation is marked as processing for the length of a lease, and no other
writer changes it. The next writer, or the sweep, releases an expired lease.
"""

import logging
from collections.abc import Iterable
from datetime import timedelta
from typing import Any

from django.db import connection, transaction
from django.utils import timezone

from convmemory.accounts.callers import Caller
from convmemory.conversations.messages import stored_keys
from convmemory.conversations.messages.drafts import MessageDraft
from convmemory.conversations.messages.message_store import insert_messages, merge_messages
from convmemory.conversations.messages.numbering import finish_change
from convmemory.conversations.messages.parts import spoken_text
from convmemory.conversations.messages.storage_quota import count_stored, recount_hidden
from convmemory.conversations.messages.titling import title_of
from convmemory.conversations.models import Conversation
from convmemory.conversations.signals import response_abandoned
from convmemory.core.acting import acting_for
from convmemory.core.errors import ConversationBusy, NotFound
from convmemory.core.sql import load_sql

LEASE = timedelta(minutes=10)  # the default; chats pass CHAT_LEASE_S and renew it

logger = logging.getLogger(__name__)


def lock_conversation(*, caller: Caller, conversation_id: int) -> Conversation:
    """Return the caller's conversation, its row locked until the transaction ends. Raises: NotFound."""
    try:
        return Conversation.objects.select_for_update().get(pk=conversation_id, archive_id=caller.archive_id)
    except Conversation.DoesNotExist:
        raise NotFound(f"There is no conversation {conversation_id}.") from None


def begin_response(*, caller: Caller, conversation_id: int, question: MessageDraft, lease: timedelta = LEASE) -> int:
    """Store the question and mark the conversation as processing, for at most `lease`; returns the question's message
    id.

    A question alone completes no turn, so nothing is numbered or announced before its answer. A response that was not
    finished within its lease is released first. Raises: NotFound, ConversationBusy, StorageFull.
    """
    # no savepoint: fewer statements before a reply's first event
    with transaction.atomic(savepoint=False):
        position = _take_idle(caller, conversation_id, question, lease)
        if position is None:
            require_idle(lock_conversation(caller=caller, conversation_id=conversation_id))
            position = _take_idle(caller, conversation_id, question, lease)
        assert position is not None
        (message,) = insert_messages(caller.archive_id, conversation_id, [question], position)
        count_stored(
            archive_id=caller.archive_id, conversation_id=conversation_id, change=message.stored_bytes, ahead=1
        )
    return message.pk


def _take_idle(caller: Caller, conversation_id: int, question: MessageDraft, lease: timedelta) -> int | None:
    """Mark the caller's conversation as processing and reserve a position for the question; None if it is not idle."""
    parameters: dict[str, Any] = {
        "owner": caller.archive_id,
        "conversation": conversation_id,
        "title": title_of(spoken_text(question.parts)),
        "asked_at": question.created_at or timezone.now(),
        "until": timezone.now() + lease,
    }
    with connection.cursor() as cursor:
        cursor.execute(load_sql("convmemory.conversations", "take_idle"), parameters)
        row = cursor.fetchone()
    return row[0] if row else None


def renew_response(*, caller: Caller, conversation_id: int, lease: timedelta = LEASE) -> bool:
    """Extend the lease of the response in progress; False if there is none any more."""
    mine = Conversation.objects.filter(
        pk=conversation_id, archive_id=caller.archive_id, status=Conversation.Status.PROCESSING
    )
    return bool(mine.update(processing_until=timezone.now() + lease))


def finish_response(
    *, caller: Caller, conversation_id: int, drafts: Iterable[MessageDraft], failed: bool = False
) -> Conversation:
    """Store the messages of the response, number the turns, then set the conversation idle (or failed)."""
    with transaction.atomic(savepoint=False):
        conversation = lock_conversation(caller=caller, conversation_id=conversation_id)
        _merge_reply(conversation, drafts)
        _set_status(conversation, Conversation.Status.FAILED if failed else Conversation.Status.IDLE)
    return conversation


def release_abandoned_response(*, conversation_id: int) -> bool:
    """Set a conversation idle whose lease has expired, and store the received messages; False if its lease is valid."""
    abandoned = Conversation.objects.filter(
        pk=conversation_id, status=Conversation.Status.PROCESSING, processing_until__lt=timezone.now()
    )
    with transaction.atomic():
        # A locked row is in the hands of a writer that is finishing it.
        conversation = abandoned.select_for_update(skip_locked=True).first()
        if conversation is not None:
            _release(conversation)
    return conversation is not None


def release_abandoned_responses(*, limit: int = 100) -> list[int]:
    """Release every owner's conversations whose lease has expired; returns their ids.

    A failure is logged, and the next call tries again.
    """
    late = Conversation.objects.filter(status=Conversation.Status.PROCESSING, processing_until__lt=timezone.now())
    abandoned = list(late.order_by("processing_until").values_list("pk", "archive_id")[:limit])
    released = []
    for pk, archive_id in abandoned:
        try:
            with acting_for(archive_id):
                if release_abandoned_response(conversation_id=pk):
                    released.append(pk)
        except Exception:  # the boundary of one release: the next round retries it
            logger.exception("Conversation %s could not be taken back from its writer", pk)
    return released


def require_idle(conversation: Conversation) -> None:
    """Raise ConversationBusy while a response is being written; an abandoned one is released."""
    if conversation.status != Conversation.Status.PROCESSING:
        return
    if conversation.processing_until and conversation.processing_until > timezone.now():
        raise ConversationBusy(f"Conversation {conversation.pk} is being answered: try again when it is idle.")
    _release(conversation)


def _release(conversation: Conversation) -> None:
    """Release the conversation, whose row is locked, from a dead writer."""
    answers: list[tuple[Any, Any]] = response_abandoned.send(Conversation, conversation=conversation)
    received: list[MessageDraft] = [draft for _, drafts in answers for draft in drafts]
    _merge_reply(conversation, received)
    _set_status(conversation, Conversation.Status.IDLE)


def _merge_reply(conversation: Conversation, drafts: Iterable[MessageDraft]) -> None:
    """Store the messages of a response, and announce the question even if there are none.

    The question's keys are hidden now that it is answered. A reply is stored whole even if it exceeds the owner's
    quota: the next question is refused.
    """
    hidden = stored_keys.hide_in_messages(conversation, from_position=max(0, conversation.message_count - 1))
    merged = merge_messages(conversation, drafts, append_only=True, may_exceed=True)
    if hidden:
        recount_hidden(conversation)
    if merged.first_position is None and conversation.message_count:
        count = conversation.message_count
        finish_change(conversation, from_position=count - 1, message_count=count)


def _set_status(conversation: Conversation, status: Conversation.Status) -> None:
    conversation.status = status
    conversation.processing_until = None
    conversation.save(update_fields=["status", "processing_until"])
