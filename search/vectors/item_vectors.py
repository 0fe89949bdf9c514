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
    chunks = [
        (number, chunk, tokens, total)
        for number, spoken in passages.items()
        for chunk, (tokens, total) in enumerate(_chunks(spoken, space.dimensions))
    ]
    numbers, chunk_numbers, tokens, totals = map(list, zip(*chunks, strict=True)) if chunks else ([],) * 4
    # Sums are rotated back together: each item by itself would take three times as long.
    vectors = unit_rows(rotated_back(np.array(totals, np.float32).reshape(-1, space.dimensions)))
    # An item in which nothing was said has a vector whose components are equal.
    vectors[np.array(tokens, np.int64) == 0] = unit_rows(np.ones((1, space.dimensions), np.float32))
    parameters: dict[str, Any] = {
        "owner": source.archive_id,
        "source": source.pk,
        "space": space.pk,
        "numbers": numbers,
        "chunks": chunk_numbers,
        "hashes": [hashes[number] for number in numbers],
        "tokens": tokens,
        "vectors": [vector_text(vector) for vector in vectors],
    }
    with connection.cursor() as cursor:
        ItemEmbedding.objects.filter(source=source, space=space, item_number__in=list(hashes)).delete()
        cursor.execute(load_sql("search.vectors", "insert_item_vectors"), parameters)


def _chunks(passages: Sequence[tuple[int, bytes]], dimensions: int) -> list[tuple[int, Vector]]:
    """Return the number of tokens and the rotated sum of each chunk; of equal length as far as passages allow."""
    if not passages:
        return [(0, np.zeros(dimensions, np.float32))]
    counts = np.array([count for count, _ in passages], np.int64)
    total = int(counts.sum())
    chunk_of = (np.cumsum(counts) - counts) * ceil(total / ITEM_TOKENS) // total
    vectors = decoded(b"".join(code for _, code in passages), dimensions)
    insides = [chunk_of == chunk for chunk in np.unique(chunk_of)]
    return [(int(counts[inside].sum()), counts[inside] @ vectors[inside]) for inside in insides]


def vector_text(vector: Vector) -> str:
    """Return pgvector's text form, with the digits that half precision can keep."""
    return "[" + ",".join([f"{value:.4g}" for value in vector.tolist()]) + "]"
