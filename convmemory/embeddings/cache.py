"""Vectors by owner and content: a text that its owner has embedded in a space before is not embedded again.

Passages are kept in the table `CachedVector` as float16; fresh vectors are rounded the same way, so that callers get
the same vector either way. Questions are kept in memory only. Nothing is shared between owners, because a fast answer
would reveal what others store (docs/adr/0025-no-data-shared-between-owners.md).
"""

from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import partial
from threading import Lock
from typing import Generic, TypeVar

import numpy as np

from convmemory.core.text import content_hash
from convmemory.embeddings.embedder import TokenEmbedder, TokenEmbedding, Vector
from convmemory.embeddings.models import SENTENCE_FIELDS, TOKEN_FIELDS, CachedVector, EmbeddingSpace
from convmemory.embeddings.spaces import embedder_for, with_same_sentences

STORED_DTYPE = np.dtype("<f2")
QUESTIONS_PER_OWNER = 16  # one owner's questions never push out another's
MAX_QUESTIONS = 256
"""For all owners in one process; a long question with its token vectors takes 0.4 MB, a usual one 15 kB."""

SpaceKey = tuple[str | int | bool, ...]

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class OwnerCache(Generic[K, V]):
    """The most recently used values of one process, by owner and key. Thread-safe.

    No owner finds another's entries, and no entry is evicted in favour of an owner who has more entries.
    """

    def __init__(self, *, per_owner: int, total: int) -> None:
        """Limit the entries to `per_owner` of one owner and `total` of all."""
        self._per_owner, self._total = per_owner, total
        self._lock = Lock()
        self._owners: OrderedDict[int, OrderedDict[K, V]] = OrderedDict()  # both in order of last use

    def get_or_make(self, archive_id: int, key: K, make: Callable[[], V]) -> V:
        """Return the owner's value for `key`, computed if missing; an exception of `make` is not cached."""
        with self._lock:
            entries = self._owners.get(archive_id)
            if entries is not None and key in entries:
                self._owners.move_to_end(archive_id)
                entries.move_to_end(key)
                return entries[key]
        value = make()  # outside the lock, so that other owners need not wait for slow values
        with self._lock:
            entries = self._owners.setdefault(archive_id, OrderedDict())
            entries[key] = value
            entries.move_to_end(key)
            self._owners.move_to_end(archive_id)
            while len(entries) > self._per_owner:
                entries.popitem(last=False)
            while sum(map(len, self._owners.values())) > self._total:
                largest_owner, largest = max(self._owners.items(), key=lambda item: len(item[1]))
                largest.popitem(last=False)
                if not largest:
                    del self._owners[largest_owner]
        return value

    def clear(self) -> None:
        with self._lock:
            self._owners.clear()


_questions: OwnerCache[tuple[SpaceKey, str], TokenEmbedding] = OwnerCache(
    per_owner=QUESTIONS_PER_OWNER, total=MAX_QUESTIONS
)


def vectors_ahead(space: EmbeddingSpace, texts: Sequence[str], *, archive_id: int) -> dict[str, Vector]:
    """Return the cached vectors of the owner's texts, by text. One query."""
    digests = {content_hash(text): text for text in texts}
    cached = _look_up(space, archive_id, set(digests))
    return {digests[digest]: np.frombuffer(data, STORED_DTYPE).astype(np.float32) for digest, data in cached.items()}


def unknown_texts(space: EmbeddingSpace, texts: Sequence[str], *, archive_id: int) -> list[str]:
    """Return the owner's distinct texts that are not cached, in order. One query."""
    digests = {content_hash(text): text for text in texts}
    cached = _look_up(space, archive_id, set(digests))
    return [text for digest, text in digests.items() if digest not in cached]


def store_vectors(space: EmbeddingSpace, vectors: Mapping[bytes, Vector], *, archive_id: int) -> None:
    """Cache vectors of the owner's texts by the hashes of the texts; existing ones stay."""
    CachedVector.objects.bulk_create(
        [
            CachedVector(
                archive_id=archive_id, space=space, content_hash=digest, vector=vector.astype(STORED_DTYPE).tobytes()
            )
            for digest, vector in vectors.items()
        ],
        ignore_conflicts=True,
    )


def query_embedding(space: EmbeddingSpace, text: str, *, archive_id: int) -> TokenEmbedding:
    """Return the question's vector with its token vectors, if the model provides them; read-only.

    The owner's last few questions are cached.

    Raises:
        EmbeddingError: the model refuses the text or is unavailable.
    """
    key = tuple(getattr(space, name) for name in (*SENTENCE_FIELDS, *TOKEN_FIELDS, "location", "token_location"))
    return _questions.get_or_make(archive_id, (key, text), partial(_embed_question, space, text))


def _look_up(space: EmbeddingSpace, archive_id: int, hashes: set[bytes]) -> dict[bytes, bytes]:
    if not hashes:
        return {}
    spaces = with_same_sentences(space)  # another token model changes nothing about these vectors
    rows = CachedVector.objects.filter(archive_id=archive_id, space__in=spaces, content_hash__in=list(hashes))
    return {bytes(digest): bytes(vector) for digest, vector in rows.values_list("content_hash", "vector")}


def _embed_question(space: EmbeddingSpace, text: str) -> TokenEmbedding:
    embedder = embedder_for(space)
    if isinstance(embedder, TokenEmbedder):
        embedding = embedder.embed_query_tokens(text)
    else:
        embedding = TokenEmbedding.of_vector(embedder.embed_query(text))
    for array in (embedding.vector, embedding.token_ids, embedding.token_vectors):
        array.flags.writeable = False  # the cache returns the same array to every search
    return embedding
