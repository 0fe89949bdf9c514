"""The coded token vectors stored for a passage: only those of words, because punctuation finds nothing.

Older rows contain the vectors of all tokens of the passage. Tokenizing the text again shows which of them are words,
without the model.
"""

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

import numpy as np
from django.db import connection

from convmemory.core.sql import load_sql
from convmemory.embeddings.embedder import TokenEmbedder, TokenEmbedding
from convmemory.embeddings.models import EmbeddingSpace
from convmemory.embeddings.token_codes import encode_vectors
from search.models import Source


def coded_words(embedder: TokenEmbedder, embedding: TokenEmbedding) -> bytes | None:
    """Return the codes of the tokens that are words; None if there are none."""
    return encode_vectors(embedding.token_vectors[embedder.are_words(embedding.token_ids)]) or None


def only_words(embedder: TokenEmbedder, text: str, codes: bytes, token_count: int) -> bytes | None:
    """Drop the codes of other tokens from those of a passage with this text, which may cover all `token_count`
    tokens.
    """
    width = -(-embedder.card.dimensions // 8)
    token_ids = embedder.tokenize(text).ids[:token_count]
    if len(codes) != width * token_count or len(token_ids) != token_count:
        return codes
    return np.frombuffer(codes, np.uint8).reshape(-1, width)[embedder.are_words(token_ids)].tobytes() or None


def drop_punctuation(
    source: Source, space: EmbeddingSpace, embedder: TokenEmbedder, texts: Mapping[UUID, str], items: Sequence[int]
) -> int:
    """Keep only the vectors of words for these items' passages; return how many changed.

    Two queries, in a transaction.
    """
    parameters: dict[str, Any] = {
        "owner": source.owner_id,
        "source": source.pk,
        "space": space.pk,
        "items": list(items),
        "width": -(-embedder.card.dimensions // 8),
    }
    with connection.cursor() as cursor:
        cursor.execute(load_sql("search.vectors", "token_vectors_of_all"), parameters)
        changed = {
            passage_id: kept
            for passage_id, digest, token_count, codes in cursor.fetchall()
            if digest in texts
            and (kept := only_words(embedder, texts[digest], bytes(codes), token_count)) != bytes(codes)
        }
        if changed:
            parameters |= {"passages": list(changed), "vectors": [kept or b"" for kept in changed.values()]}
            cursor.execute(load_sql("search.vectors", "keep_token_vectors"), parameters)
    return len(changed)
