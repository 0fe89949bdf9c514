"""Bringing the index of one conversation up to date: lexical documents, then passages and turn vectors.

Reads messages, writes `TurnDocument`, passages, `TurnEmbedding` and `ConversationIndex`. What is unchanged is
found by content hash and space, and costs no embedding. Work is stored batch by batch, so that a
killed run loses one batch at most; an advisory lock, which dies with its connection, keeps two
workers from doing the same conversation at once.
"""

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from django.db import connection, transaction
from django.db.models import Sum
from django.utils import timezone

from convmemory.conversations.models import Conversation
from convmemory.conversations.reading import StoredMessage, messages_of_turns
from convmemory.core.errors import EmbeddingError
from convmemory.core.sql import load_sql
from convmemory.embeddings.cache import embed_cached
from convmemory.embeddings.models import EmbeddingSpace
from convmemory.embeddings.spaces import active_space, embedder_for
from search.index_signals import turns_compared
from search.indexing.chunking import chunk_text
from search.indexing.texts import TurnTexts, searchable, turn_texts
from search.models import ConversationIndex, Passage, SignBlock, TurnDocument, TurnEmbedding
from search.vectors.locking import derivation_lock, lock_vectors
from search.vectors.passages import drop_passages, store_passages

TURNS_PER_BATCH = 64


@dataclass(slots=True)
class IndexResult:
    """What one run did. `finished` is False where time ran out or another worker holds the conversation."""

    finished: bool = True
    turns: int = 0
    computed: int = 0
    passages_computed: int = 0
    failed: int = 0


def index_conversation(*, conversation_id: int, deadline: float = float("inf")) -> IndexResult:
    """Index every turn of the conversation that is new, changed or missing in the active space.

    Stops between batches once `time.monotonic()` passes `deadline`. Raises: EmbedderUnavailable after
    the lexical documents are stored, so that full text search works without an embedder.
    """
    result = IndexResult()
    with derivation_lock(conversation_id) as held:
        if not held:
            return IndexResult(finished=False)
        while (conversation := Conversation.objects.filter(pk=conversation_id).first()) is not None:
            state, _ = ConversationIndex.objects.get_or_create(
                conversation=conversation, defaults={"owner_id": conversation.owner_id}
            )
            space = active_space()
            if state.indexed_version == conversation.turns_version and state.space_id == space.pk and not state.error:
                break
            if not _index_from(conversation, state, space, result, deadline):
                result.finished = False
                break
    return result


def _index_from(
    conversation: Conversation, state: ConversationIndex, space: EmbeddingSpace, result: IndexResult, deadline: float
) -> bool:
    """Index from the first turn that can have changed; False where time ran out."""
    version = conversation.turns_version
    # A change that is noted while this runs must not be overwritten, nor a switch to another space: the next round
    # sees to it.
    unchanged = ConversationIndex.objects.filter(
        pk=state.pk, noted_version=state.noted_version, space_id=state.space_id
    )
    _drop_gone_turns(conversation, state)
    first_dirty = _first_dirty(conversation, state, space)
    turns_compared.send(Conversation, conversation=conversation, first_turn=first_dirty)
    try:
        for first in range(first_dirty, conversation.turn_count, TURNS_PER_BATCH):
            if time.monotonic() > deadline:
                return False
            last = min(first + TURNS_PER_BATCH, conversation.turn_count) - 1
            _index_turns(conversation, space, first, last, result)
            unchanged.update(last_embedded_turn_number=last, dirty_from=last + 1, updated_at=timezone.now())
    except EmbeddingError as error:
        ConversationIndex.objects.filter(pk=state.pk).update(
            error=str(error)[:1000], attempts=state.attempts + 1, updated_at=timezone.now()
        )
        raise
    unchanged.update(
        space=space,
        indexed_version=version,
        noted_version=version,
        dirty_from=None,
        last_embedded_turn_number=conversation.turn_count - 1,
        passages=Passage.objects.filter(conversation=conversation, space=space).count(),
        spoken_length=conversation.turn_documents.aggregate(sum=Sum("length"))["sum"] or 0,
        attempts=0,
        error="",
        updated_at=timezone.now(),
    )
    return True


def _drop_gone_turns(conversation: Conversation, state: ConversationIndex) -> None:
    """Delete what is kept of turns that the conversation had and has no more, in every space."""
    first = conversation.turn_count
    TurnDocument.objects.filter(conversation=conversation, turn_number__gte=first).delete()
    TurnEmbedding.objects.filter(conversation=conversation, turn_number__gte=first).delete()
    had_more = state.last_embedded_turn_number >= first
    if had_more or Passage.objects.filter(conversation=conversation, turn_number__gte=first).exists():
        packed = SignBlock.objects.filter(conversation=conversation).values("space")
        drop_passages(conversation, first_turn=first, spaces=EmbeddingSpace.objects.filter(pk__in=packed))


def _first_dirty(conversation: Conversation, state: ConversationIndex, space: EmbeddingSpace) -> int:
    every_change_noted = state.noted_version == conversation.turns_version
    if state.space_id == space.pk and every_change_noted and state.dirty_from is not None:
        return state.dirty_from
    return 0


def _index_turns(conversation: Conversation, space: EmbeddingSpace, first: int, last: int, result: IndexResult) -> None:
    messages = messages_of_turns(conversation, first, last)
    turns = texts_of(messages)
    known = dict(
        TurnDocument.objects.filter(conversation=conversation, turn_number__range=(first, last)).values_list(
            "turn_number", "content_hash"
        )
    )
    changed = {n: texts for n, texts in turns.items() if bytes(known.get(n, b"")) != texts.content_hash}
    store_documents(conversation, changed)
    _note_failures(conversation, embed_missing(conversation, space, messages, turns, result))


def embed_missing(
    conversation: Conversation,
    space: EmbeddingSpace,
    messages: Sequence[StoredMessage],
    turns: dict[int, TurnTexts],
    result: IndexResult,
) -> dict[int, str]:
    """Embed those of `turns` that the space lacks or holds with another content; why each failed, "" if it did not.

    Raises: EmbedderUnavailable.
    """
    embedded = TurnEmbedding.objects.filter(conversation=conversation, space=space, turn_number__in=list(turns))
    current = {(n, bytes(digest)) for n, digest in embedded.values_list("turn_number", "content_hash")}
    missing = {n: texts for n, texts in turns.items() if (n, texts.content_hash) not in current}
    if not missing:
        return {}
    passages = store_passages(conversation, space, [m for m in messages if m.turn_number in missing], list(missing))
    result.passages_computed += passages.computed
    failed = _store_embeddings(conversation, space, missing, passages.errors, result)
    result.turns += len(missing)
    result.failed += len(failed)
    return {number: failed.get(number, "") for number in missing}


def texts_of(messages: Iterable[StoredMessage]) -> dict[int, TurnTexts]:
    """The texts of each turn, by turn number; `messages` are in order."""
    return {
        number: turn_texts(list(turn)) for number, turn in groupby(messages, key=lambda message: message.turn_number)
    }


def store_documents(conversation: Conversation, turns: dict[int, TurnTexts]) -> None:
    """Insert or replace the lexical documents of these turns, in one query."""
    if not turns:
        return
    numbers = list(turns)
    texts = list(turns.values())
    parameters: dict[str, Any] = {
        "owner": conversation.owner_id,
        "conversation": conversation.pk,
        "turn_numbers": numbers,
        "message_ids": [t.message_id for t in texts],
        "questions": [t.question for t in texts],
        "created_at": [t.created_at or conversation.created_at for t in texts],
        "hashes": [t.content_hash for t in texts],
        "lengths": [t.length for t in texts],
        **{weight: [searchable(t.lexical[weight]) for t in texts] for weight in "ABCD"},
    }
    with connection.cursor() as cursor:
        cursor.execute(load_sql("search", "upsert_turn_documents"), parameters)


def _store_embeddings(
    conversation: Conversation,
    space: EmbeddingSpace,
    turns: dict[int, TurnTexts],
    errors: dict[int, str],
    result: IndexResult,
) -> dict[int, str]:
    """Embed the turns' chunks and replace their rows; `errors`, of their passages, are joined by those found here."""
    embedder = embedder_for(space)
    chunks = [
        (number, chunk_number, chunk)
        for number, texts in turns.items()
        for chunk_number, chunk in enumerate(
            chunk_text(texts.embedded, max_tokens=embedder.card.max_tokens, token_offsets=embedder.token_spans)
        )
    ]
    batch = embed_cached(space, [chunk for _, _, chunk in chunks], owner_id=conversation.owner_id)
    failed = errors | {chunks[index][0]: error for index, error in batch.errors.items()}
    token_counts = embedder.count_tokens([chunk for _, _, chunk in chunks])
    rows = [
        TurnEmbedding(
            owner_id=conversation.owner_id,
            conversation=conversation,
            space=space,
            turn_number=number,
            chunk_number=chunk_number,
            content_hash=turns[number].content_hash,
            token_count=tokens,
            embedding=vector,
        )
        for (number, chunk_number, _), vector, tokens in zip(chunks, batch.vectors, token_counts, strict=True)
        if number not in failed
    ]
    with transaction.atomic():
        lock_vectors(conversation.pk, space.pk)
        stale = TurnEmbedding.objects.filter(conversation=conversation, space=space, turn_number__in=list(turns))
        stale.delete()
        TurnEmbedding.objects.bulk_create(rows)
    result.computed += batch.computed
    return failed


def _note_failures(conversation: Conversation, outcomes: dict[int, str]) -> None:
    documents = TurnDocument.objects.filter(conversation=conversation)
    documents.filter(turn_number__in=list(outcomes)).exclude(error="").update(error="")
    for number, error in outcomes.items():
        if error:
            documents.filter(turn_number=number).update(error=error[:1000])
