"""Reads summaries: each function takes the caller and returns only the caller's rows."""

from django.contrib.auth.models import AbstractBaseUser

from convmemory.conversations.reading import get_conversation
from convmemory.core.errors import NotFound
from summaries.models import ConversationSummary

LIST_LIMIT = 200


def summaries_of(*, owner: AbstractBaseUser, conversation_id: int) -> list[ConversationSummary]:
    """Return the newest 200 summaries of the conversation, newest first. Raises: NotFound."""
    conversation = get_conversation(owner=owner, conversation_id=conversation_id)
    rows = ConversationSummary.objects.filter(conversation=conversation, owner_id=owner.pk)
    return list(rows.defer("partials").order_by("-pk")[:LIST_LIMIT])


def get_summary(*, owner: AbstractBaseUser, conversation_id: int, summary_id: int) -> ConversationSummary:
    """Return the caller's summary. Raises: NotFound, the same for unknown and for foreign summaries."""
    rows = ConversationSummary.objects.filter(owner_id=owner.pk, conversation_id=conversation_id, pk=summary_id)
    found = rows.select_related("conversation").defer("partials").first()
    if found is None:
        raise NotFound(f"Conversation {conversation_id} has no summary {summary_id}.")
    return found


def completed_summaries(*, owner: AbstractBaseUser, conversation_id: int) -> list[ConversationSummary]:
    """Return the completed summaries, most recently completed first, at most 200."""
    rows = ConversationSummary.objects.filter(
        owner_id=owner.pk, conversation_id=conversation_id, status=ConversationSummary.Status.COMPLETED
    )
    return list(rows.defer("partials").order_by("-completed_at", "-pk")[:LIST_LIMIT])
