"""Token vectors of one model next to the sentence vectors of another, and the mean that is subtracted from them.

Trained sentence models point most of their token vectors in one direction, so that their signs say little. Without the
mean over a fixed background, `background.txt`, they differ again. Source: docs/adr/0089-token-model-of-its-own.md.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from importlib import resources

import numpy as np
from numpy.typing import NDArray

from convmemory.core.text import Span
from convmemory.embeddings.embedder import (
    Embedder,
    TokenEmbedder,
    TokenEmbedding,
    TokenIds,
    Tokens,
    Vector,
)


class PairedEmbedder:
    """A sentence model with the token vectors of another model. Thread-safe."""

    def __init__(self, sentences: Embedder, tokens: TokenEmbedder) -> None:
        self.sentences = sentences
        self.tokens = tokens
        self.card = replace(sentences.card, token_dimensions=tokens.card.token_dimensions)

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        return self.sentences.count_tokens(texts)

    def token_spans(self, text: str) -> list[Span]:
        return self.sentences.token_spans(text)

    def embed_passages(self, texts: Sequence[str]) -> Vector:
        return self.sentences.embed_passages(texts)

    def embed_query(self, text: str) -> Vector:
        return self.sentences.embed_query(text)

    def tokenize(self, text: str) -> Tokens:
        return self.tokens.tokenize(text)

    def tokenize_query(self, text: str) -> Tokens:
        return self.tokens.tokenize_query(text)

    def are_words(self, token_ids: TokenIds) -> NDArray[np.bool_]:
        return self.tokens.are_words(token_ids)

    def embed_passages_with_tokens(self, texts: Sequence[str]) -> Iterator[TokenEmbedding]:
        vectors = self.sentences.embed_passages(texts)
        for vector, embedding in zip(vectors, self.tokens.embed_passages_with_tokens(texts), strict=True):
            yield replace(embedding, vector=vector)

    def embed_query_tokens(self, text: str) -> TokenEmbedding:
        return replace(self.tokens.embed_query_tokens(text), vector=self.sentences.embed_query(text))


def background_texts() -> list[str]:
    """Return the sentences of the background, of many subjects and languages."""
    return resources.files("convmemory.embeddings").joinpath("background.txt").read_text(encoding="utf-8").splitlines()


def background_mean(tokens: TokenEmbedder) -> Vector:
    """Return the mean (token_dim,) of the token vectors of all words in the background. Runs the model."""
    vectors = [
        embedding.token_vectors[tokens.are_words(embedding.token_ids)]
        for embedding in tokens.embed_passages_with_tokens(background_texts())
    ]
    mean: Vector = np.concatenate(vectors).mean(axis=0, dtype=np.float64).astype(np.float32)
    return mean
