"""Vectors by content: a text that was embedded in a space before is looked up, not computed.

Passages are kept in the table `CachedVector` as float16; fresh vectors are rounded the same way, so
that it makes no difference which of the two a caller got. Questions are kept in memory only.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice

import numpy as np
from django.db import connection

from convmemory.core.errors import EmbeddingError
from convmemory.core.measuring import timed
from convmemory.core.sql import load_sql
from convmemory.core.text import content_hash
from convmemory.embeddings.embedder import TokenEmbedder, TokenEmbedding, Vector, embed_each
from convmemory.embeddings.models import CachedVector, EmbeddingSpace
from convmemory.embeddings.spaces import embedder_for

STORED_DTYPE = np.dtype("<f2")
STORE_BATCH = 512
QUERY_CACHE_SIZE = 128

SpaceKey = tuple[str, str, int, int, str]


@dataclass(frozen=True, slots=True)
class EmbeddedBatch:
    """`vectors` (n, dim) in the order of the texts, rows of zeros where `errors` has the index.

    `computed` counts the texts that the model was asked for.
    """

    vectors: Vector
    computed: int
    errors: dict[int, str]


def embed_cached(space: EmbeddingSpace, texts: Sequence[str], *, owner_id: int | None = None) -> EmbeddedBatch:
    """The vectors of `texts`: one query finds the known ones, each distinct other text is computed once.

    `owner_id` is whose texts they are: vectors that nobody uses any more go when a person is erased.
    What was computed is stored in batches, so that a run which breaks off has lost at most one.

    Raises:
        EmbedderUnavailable: texts are missing and the model cannot be used now.
    """
    hashes = [content_hash(text) for text in texts]
    known = _look_up(space, set(hashes))
    missing = {digest: text for digest, text in zip(hashes, texts, strict=True) if digest not in known}
    reasons: dict[bytes, str] = {}
    for batch in _slices(missing, STORE_BATCH):
        _compute(space, batch, known, reasons)

    vectors = np.zeros((len(texts), space.dimensions), dtype=np.float32)
    for index, digest in enumerate(hashes):
        if digest in known:
            vectors[index] = np.frombuffer(known[digest], dtype=STORED_DTYPE)
    if owner_id is not None:
        _note_uses(space, owner_id, [digest for digest in set(hashes) if digest in known])
    errors = {index: reasons[digest] for index, digest in enumerate(hashes) if digest in reasons}
    return EmbeddedBatch(vectors=vectors, computed=len(missing), errors=errors)


def query_vector(space: EmbeddingSpace, text: str) -> Vector:
    """The vector (dim,) of a question, read-only; the last few questions are remembered.

    Raises:
        EmbeddingError: the model refuses the text or cannot be used now.
    """
    return _query(_key(space), text).vector


def query_embedding(space: EmbeddingSpace, text: str) -> TokenEmbedding:
    """The question's vector with its token vectors, none where the model gives none; read-only, remembered likewise.

    Raises:
        EmbeddingError: the model refuses the text or cannot be used now.
    """
    return _query(_key(space), text)


def _look_up(space: EmbeddingSpace, hashes: set[bytes]) -> dict[bytes, bytes]:
    if not hashes:
        return {}
    rows = CachedVector.objects.filter(space=space, content_hash__in=list(hashes))
    return {bytes(digest): bytes(vector) for digest, vector in rows.values_list("content_hash", "vector")}


def _compute(
    space: EmbeddingSpace, texts: dict[bytes, str], known: dict[bytes, bytes], reasons: dict[bytes, str]
) -> None:
    """Embed `texts`, store them, and add them to `known`, or why not to `reasons`."""
    with timed("embedding", label="chunks", items=len(texts)):
        results = list(embed_each(embedder_for(space), list(texts.values())))
    fresh: dict[bytes, bytes] = {}
    for digest, result in zip(texts, results, strict=True):
        if isinstance(result, EmbeddingError):
            reasons[digest] = str(result)
        else:
            fresh[digest] = result.astype(STORED_DTYPE).tobytes()
    CachedVector.objects.bulk_create(
        [CachedVector(space=space, content_hash=digest, vector=vector) for digest, vector in fresh.items()],
        ignore_conflicts=True,
    )
    known.update(fresh)


def _note_uses(space: EmbeddingSpace, owner_id: int, hashes: list[bytes]) -> None:
    if hashes:
        with connection.cursor() as cursor:
            cursor.execute(load_sql("convmemory.embeddings", "note_uses"), [owner_id, space.pk, hashes])


def _slices(texts: dict[bytes, str], size: int) -> Iterator[dict[bytes, str]]:
    items = iter(texts.items())
    while batch := dict(islice(items, size)):
        yield batch


def _key(space: EmbeddingSpace) -> SpaceKey:
    return space.provider, space.model, space.dimensions, space.recipe_version, space.location


@lru_cache(maxsize=QUERY_CACHE_SIZE)
def _query(key: SpaceKey, text: str) -> TokenEmbedding:
    provider, model, dimensions, recipe, location = key
    embedder = embedder_for(
        EmbeddingSpace(provider=provider, model=model, dimensions=dimensions, recipe_version=recipe, location=location)
    )
    if isinstance(embedder, TokenEmbedder):
        embedding = embedder.embed_query_tokens(text)
    else:
        embedding = TokenEmbedding.of_vector(embedder.embed_query(text))
    for array in (embedding.vector, embedding.token_ids, embedding.token_vectors):
        array.flags.writeable = False  # it is shared by all who ask the same
    return embedding
