"""Embedding conversations in a space that is built beside the active one.

Reads messages, writes passages, `TurnEmbedding` and `SpaceProgress`; lexical documents know no space and
are left alone. What the space holds already is found by content hash, so a build that was killed goes on
where it stopped. See docs/adr/0015-reembedding-beside-the-active-space.md.
"""

import logging
import time

from django.db.models import Exists, OuterRef, Q, QuerySet
from django.utils import timezone

from convmemory.conversations.models import Conversation
from convmemory.conversations.reading import messages_of_turns
from convmemory.core.errors import EmbeddingError
from convmemory.embeddings.models import EmbeddingSpace
from convmemory.embeddings.spaces import building_space
from search.indexing.active import TURNS_PER_BATCH, IndexResult, embed_missing, texts_of
from search.models import Passage, SpaceProgress, TurnEmbedding
from search.vectors.locking import BUILD_LOCK_CLASS, derivation_lock
from search.vectors.passages import drop_passages

SMALL = TURNS_PER_BATCH  # turns; what arrives in a longer conversation that is not built yet is left to the build

logger = logging.getLogger(__name__)


def conversations_to_build(space: EmbeddingSpace, scope: Q | None = None) -> QuerySet[Conversation]:
    """The conversations, among those in `scope`, that the space does not hold as they are now."""
    done = SpaceProgress.objects.filter(
        space=space, conversation=OuterRef("pk"), indexed_version=OuterRef("turns_version"), error=""
    )
    return Conversation.objects.filter(scope or Q(), ~Exists(done), turns_version__gt=0)


def build_conversation(*, conversation_id: int, space: EmbeddingSpace, deadline: float = float("inf")) -> IndexResult:
    """Embed every turn that is missing or stale in `space`, which is not the active one.

    Stops between batches once `time.monotonic()` passes `deadline`. Raises: EmbedderUnavailable.
    """
    result = IndexResult()
    with derivation_lock(conversation_id, BUILD_LOCK_CLASS) as held:
        if not held:
            return IndexResult(finished=False)
        while (conversation := Conversation.objects.filter(pk=conversation_id).first()) is not None:
            progress, _ = SpaceProgress.objects.get_or_create(
                conversation=conversation, space=space, defaults={"owner_id": conversation.owner_id}
            )
            if progress.indexed_version == conversation.turns_version and not progress.error:
                break
            if not _build(conversation, progress, space, result, deadline):
                result.finished = False
                break
    return result


def build_beside(*, conversation_id: int, deadline: float) -> IndexResult:
    """Embed what has arrived in the space that is being built, if there is one. A failure is only noted there."""
    space = building_space()
    conversation = Conversation.objects.filter(pk=conversation_id).first()
    if space is None or conversation is None:
        return IndexResult()
    reached = SpaceProgress.objects.filter(conversation=conversation, space=space, indexed_version__gt=0)
    if conversation.turn_count > SMALL and not reached.exists():
        return IndexResult(finished=False)
    try:
        return build_conversation(conversation_id=conversation_id, space=space, deadline=deadline)
    except EmbeddingError as error:
        logger.warning("Conversation %s is not embedded in the space that is being built: %s", conversation_id, error)
        return IndexResult(finished=False)


def _build(
    conversation: Conversation, progress: SpaceProgress, space: EmbeddingSpace, result: IndexResult, deadline: float
) -> bool:
    """Go through all turns; False where time ran out."""
    version, rows = conversation.turns_version, SpaceProgress.objects.filter(pk=progress.pk)
    gone = TurnEmbedding.objects.filter(conversation=conversation, turn_number__gte=conversation.turn_count)
    gone.filter(space=space).delete()
    drop_passages(conversation, first_turn=conversation.turn_count, spaces=[space])
    refused: dict[int, str] = {}
    try:
        for first in range(0, conversation.turn_count, TURNS_PER_BATCH):
            if time.monotonic() > deadline:
                return False
            last = min(first + TURNS_PER_BATCH, conversation.turn_count) - 1
            messages = messages_of_turns(conversation, first, last)
            outcomes = embed_missing(conversation, space, messages, texts_of(messages), result)
            refused |= {number: error for number, error in outcomes.items() if error}
            rows.update(turns=last + 1, updated_at=timezone.now())
    except EmbeddingError as error:
        rows.update(error=str(error)[:1000], updated_at=timezone.now())
        raise
    rows.update(
        indexed_version=version,
        turns=conversation.turn_count,
        passages=Passage.objects.filter(conversation=conversation, space=space).count(),
        refused=refused,
        error="",
        updated_at=timezone.now(),
    )
    return True
