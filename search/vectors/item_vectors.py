"""Derives the vectors of items from those of their passages, without the model.

An item's vector is the mean of the vectors of what was said in it, each weighed by its tokens. A longer item has
several, each of a chunk of it, and the best counts (docs/adr/0116-vectors-of-items-from-passages.md). The
vectors of passages are decoded from their codes, so that equal items have equal vectors.
"""

from collections import defaultdict
from collections.abc import Container, Mapping, Sequence
from math import ceil
from typing import Any

import numpy as np
from django.db import connection

from convmemory.core.sql import load_sql
from convmemory.embeddings.embedder import Vector, unit_rows
from convmemory.embeddings.models import EmbeddingSpace
from search.models import ItemEmbedding, Source
from search.sources import ItemText
from search.vectors.codes import decoded, rotated_back

ITEM_TOKENS = 192
"""One vector is the mean of about this many tokens at most; a longer item is divided into equal chunks."""


def store_item_vectors(
    source: Source,
    space: EmbeddingSpace,
    items: Sequence[ItemText],
    hashes: Mapping[int, bytes],
    *,
    without: Container[int] = (),
) -> None:
    """Replace the vectors of the items, whose passages are stored; those of the numbers `without` are only deleted.

    `hashes` are the items' content hashes by number. Call it in a transaction that has locked the vectors.
    """
    kept = [item.number for item in items if item.number not in without]
    chunks = _chunks(source, space, [item for item in items if item.number not in without])
    # An item in which nothing was said has one vector whose components are equal.
    nothing = unit_rows(np.ones((1, space.dimensions), np.float32))
    rows = [
        (number, chunk, hashes[number], tokens, vector_text(vector))
        for number in kept
        for chunk, (tokens, vector) in enumerate(chunks.get(number) or [(0, nothing[0])])
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
        replaced = [item.number for item in items]
        ItemEmbedding.objects.filter(source=source, space=space, item_number__in=replaced).delete()
        cursor.execute(load_sql("search.vectors", "insert_item_vectors"), parameters)


def _chunks(source: Source, space: EmbeddingSpace, items: Sequence[ItemText]) -> dict[int, list[tuple[int, Vector]]]:
    """Return the number of tokens and the vector of each chunk of the items in which something was said. One query."""
    spoken = [
        (item.number, element.element_id, part.index)
        for item in items
        for element in item.elements
        for part in element.parts
        if part.in_vector
    ]
    if not spoken:
        return {}
    parameters: dict[str, Any] = {
        "owner": source.archive_id,
        "source": source.pk,
        "space": space.pk,
        "items": [item for item, _, _ in spoken],
        "elements": [element for _, element, _ in spoken],
        "parts": [part for _, _, part in spoken],
    }
    with connection.cursor() as cursor:
        cursor.execute(load_sql("search.vectors", "passages_of_items"), parameters)
        rows = cursor.fetchall()
    if not rows:
        return {}
    vectors = rotated_back(decoded(b"".join(bytes(code) for _, code, _ in rows), space.dimensions))
    passages: dict[int, list[tuple[int, Vector]]] = defaultdict(list)
    for (index, _, count), vector in zip(rows, vectors, strict=True):
        passages[spoken[index][0]].append((max(count, 1), vector))
    return {number: _chunks_of(of_item) for number, of_item in passages.items()}


def _chunks_of(passages: Sequence[tuple[int, Vector]]) -> list[tuple[int, Vector]]:
    """Return the number of tokens and the mean of each chunk; of equal length as far as passages allow."""
    counts = np.array([count for count, _ in passages], np.int64)
    total = int(counts.sum())
    chunk_of = (np.cumsum(counts) - counts) * ceil(total / ITEM_TOKENS) // total
    vectors = np.array([vector for _, vector in passages], np.float32)
    chunks = []
    for chunk in np.unique(chunk_of):
        inside = chunk_of == chunk
        chunks.append((int(counts[inside].sum()), unit_rows((counts[inside] @ vectors[inside])[None])[0]))
    return chunks


def vector_text(vector: Vector) -> str:
    """Return pgvector's text form, with the digits that half precision can keep."""
    return "[" + ",".join([f"{value:.4g}" for value in vector.tolist()]) + "]"
