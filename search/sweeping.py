"""Finding work that was missed: a lost signal, a killed worker, an endpoint that was down."""

from datetime import timedelta

from django.db.models import F, Q
from django.utils import timezone

from convmemory.conversations.models import Conversation
from convmemory.embeddings.spaces import active_space
from search.indexing import MAX_ATTEMPTS

RETRY_AFTER = timedelta(minutes=1)  # doubled with every attempt that failed


def conversations_to_index(*, limit: int) -> list[int]:
    """Ids of conversations whose index is behind, those that wait longest first.

    A conversation that failed is tried again with growing pauses, at most `MAX_ATTEMPTS` times;
    `manage.py reembed --only failed` tries it again after that.
    """
    now = timezone.now()
    due = Q(index_state=None) | Q(index_state__error="")
    for attempt in range(1, MAX_ATTEMPTS):
        due |= Q(index_state__attempts=attempt, index_state__updated_at__lt=now - RETRY_AFTER * 2**attempt)
    waiting = Conversation.objects.filter(is_behind() & due, turns_version__gt=0).order_by("updated_at")
    return list(waiting.values_list("pk", flat=True)[:limit])


def is_behind() -> Q:
    """The condition that a conversation's index does not show its present turns in the active space."""
    return (
        Q(index_state=None)
        | ~Q(index_state__indexed_version=F("turns_version"))
        | ~Q(index_state__space=active_space())
    )
