"""The interface of embedders: the protocols, the card that describes one, and the report of a refused text.

Every class that turns text into vectors implements `Embedder`. Models that run here also implement `TokenEmbedder`,
whose token vectors come from the same forward pass. Vectors are float32 arrays of unit length, so that a dot product is
the cosine.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from convmemory.core.errors import EmbeddingError
from convmemory.core.text import Span

Vector = NDArray[np.float32]
TokenIds = NDArray[np.int32]

MAX_DIMENSIONS = 4_000
"""The most dimensions of pgvector's HNSW index over halfvec."""


@dataclass(frozen=True, slots=True)
class ModelCard:
    """Facts about a model that are known without loading it.

    `max_tokens` counts a text's own tokens, as `count_tokens` does: a text within it is read in full, a longer one is
    cut off. `licence` is empty if it is not known, `token_dimensions` 0 if there are no token vectors.
    """

    provider: str
    model: str
    dimensions: int
    max_tokens: int
    licence: str
    token_dimensions: int

    @property
    def has_token_vectors(self) -> bool:
        return self.token_dimensions > 0


@dataclass(frozen=True, slots=True)
class Tokens:
    """A text's tokens without special ones, not cut: `ids` (t,), `spans` t pairs of character offsets."""

    ids: TokenIds
    spans: list[Span]


@dataclass(frozen=True, slots=True)
class TokenEmbedding:
    """A text's vector (dim,) with its token ids (t,) and token vectors (t, token_dim), no special tokens."""

    vector: Vector
    token_ids: TokenIds
    token_vectors: Vector

    @classmethod
    def of_vector(cls, vector: Vector) -> "TokenEmbedding":
        """Return an embedding without token vectors, for a model that has none."""
        return cls(vector, np.zeros(0, dtype=np.int32), np.zeros((0, len(vector)), dtype=np.float32))


class TextsRefused(EmbeddingError):
    """Some texts of a batch could not be embedded; the others were."""

    def __init__(self, errors: dict[int, str], vectors: Vector) -> None:
        """Store `errors`, reasons by index, and `vectors` (n, dim), with rows of zeros for refused texts."""
        self.errors = errors
        self.vectors = vectors
        first = min(errors)
        super().__init__(f"{len(errors)} of {len(vectors)} texts could not be embedded; text {first}: {errors[first]}")


class Embedder(Protocol):
    """Turns texts into vectors. Thread-safe."""

    @property
    def card(self) -> ModelCard:
        """The model's card. Reads at most small files."""

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        """Return the number of tokens of each text, comparable with `card.max_tokens`."""

    def token_spans(self, text: str) -> list[Span]:
        """Return the character span of each token of `text`, for cutting it to a token budget."""

    def embed_passages(self, texts: Sequence[str]) -> Vector:
        """Return vectors (n, dim) in the order of `texts`.

        Raises:
            TextsRefused: the model refuses some texts; the error carries the vectors of the others.
            EmbedderUnavailable: the model cannot be used now.
        """

    def embed_query(self, text: str) -> Vector:
        """Return the vector (dim,) of a question. Raises as `embed_passages` does."""


@runtime_checkable
class TokenEmbedder(Embedder, Protocol):
    """An embedder that also provides token vectors, which may be those of another model."""

    def tokenize(self, text: str) -> Tokens:
        """Return all tokens of the passage `text` with their offsets."""

    def tokenize_query(self, text: str) -> Tokens:
        """Return all tokens of a question with their offsets; those with vectors from `embed_query_tokens`
        come first.
        """

    def are_words(self, token_ids: TokenIds) -> NDArray[np.bool_]:
        """Return for each token (t,) whether it is a word or a piece of one; the others are punctuation and symbols."""

    def embed_passages_with_tokens(self, texts: Sequence[str]) -> Iterator[TokenEmbedding]:
        """Yield one embedding per text, in order; about 65,000 token vectors are in memory at a time."""

    def embed_query_tokens(self, text: str) -> TokenEmbedding:
        """Return a question's vector with its token vectors."""


def embed_each(embedder: Embedder, texts: Sequence[str]) -> list[Vector | EmbeddingError]:
    """Return a vector (dim,) or the error for each text, in order: one bad text does not affect the others.

    Raises:
        EmbedderUnavailable: the model is unavailable.
    """
    if not texts:
        return []
    try:
        return list(embedder.embed_passages(texts))
    except TextsRefused as refusal:
        return [
            EmbeddingError(refusal.errors[index]) if index in refusal.errors else vector
            for index, vector in enumerate(refusal.vectors)
        ]


def unit_rows(vectors: Vector) -> Vector:
    """Return `vectors` (..., dim) scaled to unit length; rows of zeros stay unchanged."""
    lengths = np.sqrt(np.einsum("...i,...i->...", vectors, vectors))[..., None]
    unit: Vector = vectors / np.maximum(lengths, np.finfo(np.float32).tiny)
    return unit
