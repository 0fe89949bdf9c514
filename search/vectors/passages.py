"""Making and storing the passages of turns: split, look up equal texts, embed the rest.

Reads messages, writes `Passage` and `PassageTokens`. A text that any passage of the space holds
already is copied with its token vectors, so that the same text is embedded once; token vectors come
out of the pass that makes the passage's vector.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.db import connection, transaction
from django.db.models import Q

from convmemory.conversations.models import Conversation
from convmemory.conversations.parts import part_text, speaker_of
from convmemory.conversations.reading import StoredMessage
from convmemory.core.errors import EmbedderUnavailable, EmbeddingError
from convmemory.core.measuring import timed
from convmemory.core.sql import load_sql
from convmemory.core.text import content_hash
from convmemory.embeddings.embedder import Embedder, TokenEmbedder, Vector, embed_each
from convmemory.embeddings.models import EmbeddingSpace
from convmemory.embeddings.spaces import embedder_for
from convmemory.embeddings.token_codes import encode_vectors
from search.index_signals import messages_embedded
from search.models import Passage
from search.vectors.codes import drop_signs, pack_signs
from search.vectors.locking import lock_vectors
from search.vectors.splitting import Kind, Span, split_message

KINDS: dict[Kind, int] = {
    "user": Passage.Kind.USER,
    "assistant": Passage.Kind.ASSISTANT,
    "thinking": Passage.Kind.THINKING,
    "tool": Passage.Kind.TOOL,
    "call": Passage.Kind.CALL,
}


@dataclass(frozen=True, slots=True)
class Draft:
    """A passage before it has a vector. `text` is what is embedded: the speaker, then the span."""

    source: StoredMessage
    span: Span
    text: str

    @property
    def digest(self) -> UUID:
        return passage_hash(self.text)


@dataclass(frozen=True, slots=True)
class Embedded:
    """A passage's vector in pgvector's text form, its token count, and its coded token vectors, if any."""

    vector: str
    token_count: int
    tokens: bytes | None


@dataclass(frozen=True, slots=True)
class StoredPassages:
    """How many passages the turns have now, how many were computed, and which turns failed and why."""

    passages: int
    computed: int
    errors: dict[int, str]


def passage_hash(text: str) -> UUID:
    """The first 16 bytes of the text's SHA-256."""
    return UUID(bytes=content_hash(text)[:16])


def draft_passages(sources: Iterable[StoredMessage]) -> Iterator[Draft]:
    """The passages of some messages, in order."""
    for source in sources:
        spans = split_message(source.parts, is_real_user=source.is_real_user, is_assistant=source.role == "assistant")
        for span in spans:
            said = part_text(source.parts[span.part_index])[span.start : span.end]
            speaker = "Tool" if span.kind in ("tool", "call") else speaker_of(source.role, source.name)
            yield Draft(source, span, f"{speaker}: {said}")


def store_passages(
    conversation: Conversation, space: EmbeddingSpace, sources: Sequence[StoredMessage], turns: Sequence[int]
) -> StoredPassages:
    """Replace the passages of `turns` by those of `sources` and note each message's end, in one transaction.

    Raises: EmbedderUnavailable where texts must be computed and the model cannot be used now; the
    messages are noted as failed.
    """
    passages, computed, errors = _replace(conversation, space, sources, Q(turn_number__in=list(turns)))
    turn_of = {source.message_id: source.turn_number for source in sources}
    return StoredPassages(passages, computed, {turn_of[message_id]: error for message_id, error in errors.items()})


def store_message_passages(
    conversation: Conversation, space: EmbeddingSpace, sources: Sequence[StoredMessage]
) -> dict[int, str]:
    """Replace the passages of these messages alone, as `store_passages` does; which failed, and why."""
    stale = Q(message_id__in=[source.message_id for source in sources])
    return _replace(conversation, space, sources, stale)[2]


def drop_passages(conversation: Conversation, *, first_turn: int, spaces: Iterable[EmbeddingSpace]) -> None:
    """Delete the passages of this turn and of all later ones in these spaces, and their signs."""
    for space in spaces:
        with transaction.atomic():
            lock_vectors(conversation.pk, space.pk)
            Passage.objects.filter(conversation=conversation, space=space, turn_number__gte=first_turn).delete()
            drop_signs(conversation, space, first_turn)


def _replace(
    conversation: Conversation, space: EmbeddingSpace, sources: Sequence[StoredMessage], stale: Q
) -> tuple[int, int, dict[int, str]]:
    """How many passages there are now, how many were computed, and the error of each message that failed."""
    drafts = list(draft_passages(sources))
    try:
        known, refused, computed = _embedded(space, drafts)
    except EmbedderUnavailable as error:
        errors = {source.message_id: str(error) for source in sources}
        _tell(conversation, space, sources, {}, errors, keep_completed=True)
        raise
    kept = [draft for draft in drafts if draft.digest in known]
    errors = {draft.source.message_id: refused[draft.digest] for draft in drafts if draft.digest in refused}
    token_counts: Counter[int] = Counter()
    for draft in kept:
        token_counts[draft.source.message_id] += known[draft.digest].token_count
    with transaction.atomic():
        lock_vectors(conversation.pk, space.pk)
        gone = Passage.objects.filter(stale, conversation=conversation, space=space)
        turns = {source.turn_number for source in sources} | set(gone.values_list("turn_number", flat=True))
        gone.delete()
        _insert(conversation, space, kept, known)
        pack_signs(conversation, space, turns)
        _tell(conversation, space, sources, token_counts, errors)
    return len(kept), computed, errors


def _tell(
    conversation: Conversation,
    space: EmbeddingSpace,
    messages: Sequence[StoredMessage],
    token_counts: Mapping[int, int],
    errors: Mapping[int, str],
    *,
    keep_completed: bool = False,
) -> None:
    messages_embedded.send(
        Conversation, conversation=conversation, space=space, messages=messages, token_counts=token_counts,
        errors=errors, keep_completed=keep_completed,
    )  # fmt: skip


def _embedded(space: EmbeddingSpace, drafts: Sequence[Draft]) -> tuple[dict[UUID, Embedded], dict[UUID, str], int]:
    """The drafts' texts as they are embedded, the reasons of those that were refused, and how many were computed."""
    texts = {draft.digest: draft.text for draft in drafts}
    known = _look_up(space, list(texts))
    missing = {digest: text for digest, text in texts.items() if digest not in known}
    refused = _compute(space, missing, known)
    return known, refused, len(missing)


def _compute(space: EmbeddingSpace, missing: dict[UUID, str], known: dict[UUID, Embedded]) -> dict[UUID, str]:
    """Embed `missing` and add it to `known`; why not, for those that failed."""
    if not missing:
        return {}
    errors: dict[UUID, str] = {}
    with timed("embedding", label="passages", items=len(missing)):
        for digest, result in zip(missing, _embed(embedder_for(space), list(missing.values())), strict=True):
            if isinstance(result, EmbeddingError):
                errors[digest] = str(result)
            else:
                known[digest] = result
    return errors


def _insert(
    conversation: Conversation, space: EmbeddingSpace, drafts: Sequence[Draft], known: dict[UUID, Embedded]
) -> None:
    if not drafts:
        return
    embedded = [known[draft.digest] for draft in drafts]
    parameters: dict[str, Any] = {
        "owner": conversation.owner_id,
        "conversation": conversation.pk,
        "space": space.pk,
        "messages": [draft.source.message_id for draft in drafts],
        "hashes": [draft.digest for draft in drafts],
        "turns": [draft.source.turn_number for draft in drafts],
        "starts": [draft.span.start for draft in drafts],
        "ends": [draft.span.end for draft in drafts],
        "parts": [draft.span.part_index for draft in drafts],
        "kinds": [KINDS[draft.span.kind] for draft in drafts],
        "token_counts": [item.token_count for item in embedded],
        "vectors": [item.vector for item in embedded],
        "tokens": [item.tokens for item in embedded],
    }
    with connection.cursor() as cursor:
        cursor.execute(load_sql("search", "insert_passages"), parameters)


def _look_up(space: EmbeddingSpace, digests: list[UUID]) -> dict[UUID, Embedded]:
    """Equal texts that are embedded already, whoever's they are: a vector tells nothing of its owner."""
    with connection.cursor() as cursor:
        cursor.execute(load_sql("search", "equal_passages"), [digests, space.pk])
        return {
            digest: Embedded(vector, token_count, bytes(tokens) if tokens else None)
            for digest, vector, token_count, tokens in cursor.fetchall()
        }


def _embed(embedder: Embedder, texts: Sequence[str]) -> Iterator[Embedded | EmbeddingError]:
    if isinstance(embedder, TokenEmbedder):
        for embedding in embedder.embed_passages_with_tokens(texts):
            tokens = encode_vectors(embedding.token_vectors)
            yield Embedded(vector_text(embedding.vector), len(embedding.token_ids), tokens)
        return
    for result, count in zip(embed_each(embedder, texts), embedder.count_tokens(texts), strict=True):
        yield result if isinstance(result, EmbeddingError) else Embedded(vector_text(result), count, None)


def vector_text(vector: Vector) -> str:
    """pgvector's text form, with the digits that half precision can keep."""
    return "[" + ",".join([f"{value:.4g}" for value in vector.tolist()]) + "]"
