"""Creates, resets and deletes the records of summaries on request; workers write the texts (`making.py`).

Nothing here enqueues: callers do so after these functions have returned.
"""

from django.contrib.auth.models import AbstractBaseUser
from django.db.models import QuerySet
from django.utils import timezone

from convmemory.accounts.quota import require_quota
from convmemory.conversations.models import Conversation
from convmemory.conversations.reading import get_conversation
from convmemory.core.completions import endpoint_from_settings
from convmemory.core.errors import InvalidInput
from summaries.models import ConversationSummary
from summaries.reading import get_summary

METHODS = tuple(ConversationSummary.Method.values)


def request_summary(
    *,
    owner: AbstractBaseUser,
    conversation_id: int,
    from_position: int | None = None,
    to_position: int | None = None,
    method: str | None = None,
) -> ConversationSummary:
    """Create a pending summary of the messages between two positions, both included; by default of all messages.

    `method` is "model" or "extractive"; by default "model" if an endpoint is set up. Raises: NotFound; InvalidInput for
    a range in the wrong order or beyond the end, or an impossible method; QuotaUsedUp.
    """
    conversation = get_conversation(owner=owner, conversation_id=conversation_id)
    first, last = _range(conversation, from_position, to_position)
    chosen = _method(method)
    _require_quota(owner, chosen)
    return ConversationSummary.objects.create(
        owner_id=owner.pk,
        conversation=conversation,
        from_position=first,
        to_position=last,
        method=chosen,
        due_at=timezone.now(),
    )


def _range(conversation: Conversation, from_position: int | None, to_position: int | None) -> tuple[int, int]:
    end = conversation.message_count - 1
    if end < 0:
        raise InvalidInput("This conversation has no messages: there is nothing to summarise.")
    first = 0 if from_position is None else from_position
    last = end if to_position is None else to_position
    for name, value in (("from_position", first), ("to_position", last)):
        if not 0 <= value <= end:
            raise InvalidInput(f"{name}={value} is not in the conversation: its messages are 0 to {end}.")
    if first > last:
        raise InvalidInput(f"from_position={first} comes after to_position={last}: swap the two.")
    return first, last


def _require_quota(owner: AbstractBaseUser, method: str) -> None:
    """Raise QuotaUsedUp if a model would write the summary and the owner has used up today's quota."""
    if method == ConversationSummary.Method.MODEL:
        require_quota(owner_id=owner.pk)


def _method(method: str | None) -> str:
    has_endpoint = endpoint_from_settings() is not None
    if method is None:
        return ConversationSummary.Method.MODEL if has_endpoint else ConversationSummary.Method.EXTRACTIVE
    if method not in METHODS:
        raise InvalidInput(f"method={method!r} is unknown: use {' or '.join(METHODS)}.")
    if method == ConversationSummary.Method.MODEL and not has_endpoint:
        raise InvalidInput(
            "No language model is set up: set CHAT_MODEL and CHAT_BASE_URL or CHAT_API_KEY, or use method=extractive."
        )
    return method


def regenerate_summary(*, owner: AbstractBaseUser, conversation_id: int, summary_id: int) -> ConversationSummary:
    """Set the summary to pending again, with the default method; its text stays until it is replaced.

    Raises: NotFound; InvalidInput if the conversation no longer has the range; QuotaUsedUp.
    """
    summary = get_summary(owner=owner, conversation_id=conversation_id, summary_id=summary_id)
    _range(summary.conversation, summary.from_position, summary.to_position)
    row = ConversationSummary.objects.filter(pk=summary.pk)
    method = _method(None)
    _require_quota(owner, method)
    row.update(method=method)
    make_pending(row)
    summary.refresh_from_db()
    return summary


def make_pending(summaries: QuerySet[ConversationSummary]) -> None:
    """Set these summaries to pending with all attempts restored; their texts stay until they are replaced."""
    now = timezone.now()
    summaries.update(
        status=ConversationSummary.Status.PENDING,
        error="",
        attempts=0,
        run=None,
        partials={},
        due_at=now,
        updated_at=now,
    )


def delete_summary(*, owner: AbstractBaseUser, conversation_id: int, summary_id: int) -> None:
    """Delete the summary for good; a worker that is still writing it stores nothing. Raises: NotFound."""
    get_summary(owner=owner, conversation_id=conversation_id, summary_id=summary_id).delete()
