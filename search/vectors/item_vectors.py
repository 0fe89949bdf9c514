"""Derives the vectors of items from those of their passages, without the model.

An item's vector is the mean of the vectors of what was said in it, each weighed by its tokens. A longer item has
several, each of a chunk of it, and the best counts (docs/adr/0116-vectors-of-items-from-passages.md). The
vectors of passages are decoded from their codes, so that equal items have equal vectors.
"""

from collections.abc import Mapping, Sequence
from math import ceil
from typing import Any

import numpy as np
from django.db import connection

from convmemory.core.sql import load_sql
from convmemory.embeddings.embedder import Vector, unit_rows
from convmemory.embeddings.models import EmbeddingSpace
from search.models import ItemEmbedding, Source
from search.vectors.codes import decoded, rotated_back

ITEM_TOKENS = 192
"""One vector is the mean of about this many tokens at most; a longer item is divided into equal chunks."""


def store_item_vectors(
    source: Source,
    space: EmbeddingSpace,
    hashes: Mapping[int, bytes],
    passages: Mapping[int, Sequence[tuple[int, bytes]]],
) -> None:
    """Replace the vectors of items.

    `hashes` are the content hashes of all of them, by number. `passages` are the numbers of tokens and the codes of
    what was said in each, in the order of the text; an item that is missing in it gets no vector. Call it in a
    transaction that has locked the vectors.
    """
    # An item in which nothing was said has one vector whose components are equal.
    nothing = unit_rows(np.ones((1, space.dimensions), np.float32))
    rows = [
        (number, chunk, hashes[number], tokens, vector_text(vector))
        for number, spoken in passages.items()
        for chunk, (tokens, vector) in enumerate(_chunks(spoken, space) if spoken else [(0, nothing[0])])
    ]
    numbers, chunk_numbers, row_hashes, tokens, vectors = map(list, zip(*rows, strict=True)) if rows else ([],) * 5
    parameters: dict[str, Any] = {
        "owner": source.archive_id,
        "source": source.pk,
        "space": space.pk,
        "numbers": numbers,
        "chunks": chunk_numbers,
        "hashes": row_hashes,
        "tokens": tokens,
        "vectors": vectors,
    }
    with connection.cursor() as cursor:
        ItemEmbedding.objects.filter(source=source, space=space, item_number__in=list(hashes)).delete()
        cursor.execute(load_sql("search.vectors", "insert_item_vectors"), parameters)


def _chunks(passages: Sequence[tuple[int, bytes]], space: EmbeddingSpace) -> list[tuple[int, Vector]]:
    """Return the number of tokens and the mean of each chunk; of equal length as far as passages allow."""
    counts = np.array([count for count, _ in passages], np.int64)
    total = int(counts.sum())
    chunk_of = (np.cumsum(counts) - counts) * ceil(total / ITEM_TOKENS) // total
    vectors = rotated_back(decoded(b"".join(code for _, code in passages), space.dimensions))
    chunks = []
    for chunk in np.unique(chunk_of):
        inside = chunk_of == chunk
        chunks.append((int(counts[inside].sum()), unit_rows((counts[inside] @ vectors[inside])[None])[0]))
    return chunks


def vector_text(vector: Vector) -> str:
    """Return pgvector's text form, with the digits that half precision can keep."""
    return "[" + ",".join([f"{value:.4g}" for value in vector.tolist()]) + "]"
