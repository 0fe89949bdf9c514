"""Asking for an index anew: what failed once more, or vectors that are to be made again.

Only marks rows; the caller enqueues. What is searched stays in place until its replacement is stored.
"""

from collections.abc import Collection

from django.db import transaction
from django.db.models import F, Q

from convmemory.embeddings.spaces import active_space
from search.models import ConversationIndex, TurnEmbedding

STALE = b""  # the hash of no turn


def retry_conversations(conversation_ids: Collection[int]) -> None:
    """Have these conversations compared turn by turn again, with all their attempts before them."""
    ConversationIndex.objects.filter(pk__in=conversation_ids).update(
        indexed_version=0, noted_version=F("noted_version") + 1, dirty_from=0, attempts=0, error=""
    )


def reembed_conversations(conversation_ids: Collection[int]) -> None:
    """Have every turn of these conversations made again in the active space."""
    _make_stale(Q(conversation_id__in=conversation_ids), conversation_ids)


def reembed_turns(embedding_ids: Collection[int]) -> set[int]:
    """Have these turn vectors made again; the conversations to index, those of other spaces left out."""
    chosen = Q(pk__in=embedding_ids)
    conversations = TurnEmbedding.objects.filter(chosen, space=active_space()).values_list("conversation_id", flat=True)
    conversation_ids = set(conversations)
    _make_stale(chosen, conversation_ids)
    return conversation_ids


def delete_turn_embeddings(embedding_ids: Collection[int]) -> set[int]:
    """Delete these turn vectors; the conversations to index, for what is missing is made again."""
    rows = TurnEmbedding.objects.filter(pk__in=embedding_ids)
    with transaction.atomic():
        conversation_ids = set(rows.filter(space=active_space()).values_list("conversation_id", flat=True))
        rows.delete()
        retry_conversations(conversation_ids)
    return conversation_ids


def _make_stale(rows: Q, conversation_ids: Collection[int]) -> None:
    with transaction.atomic():
        TurnEmbedding.objects.filter(rows, space=active_space()).update(content_hash=STALE)
        retry_conversations(conversation_ids)
