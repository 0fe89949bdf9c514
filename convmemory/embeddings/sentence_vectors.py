"""Steps from the states of a text's tokens to its vector: pooling, Dense layers, cutting to the wanted dimensions.

Pure NumPy. Every step except pooling works on the last axis, so that token vectors are processed like the pooled vector
and can be compared with it.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from convmemory.embeddings.embedder import Vector, unit_rows


@dataclass(frozen=True, slots=True)
class DenseLayer:
    """`activation(vectors @ weight.T + bias)`, "Identity" or "Tanh"; `weight` (out, in), `bias` (out,)."""

    weight: Vector
    bias: Vector
    activation: str

    def apply(self, vectors: Vector) -> Vector:
        """Return the layer's output (..., out) for vectors (..., in)."""
        sums: Vector = np.matmul(vectors, self.weight.T) + self.bias
        return np.tanh(sums) if self.activation == "Tanh" else sums


@dataclass(frozen=True, slots=True)
class Finish:
    """The steps applied to both pooled vectors and token vectors. `dimensions` 0 keeps all."""

    dense: tuple[DenseLayer, ...]
    dimensions: int

    def apply(self, vectors: Vector) -> Vector:
        """Return the finished vectors (..., dim) of unit length for vectors (..., in).

        Cutting is possible for models with Matryoshka training: arXiv:2205.13147.
        """
        for layer in self.dense:
            vectors = layer.apply(vectors)
        return unit_rows(self.cut(vectors))

    def cut(self, vectors: Vector) -> Vector:
        """Return the first `dimensions` of vectors."""
        cut: Vector = vectors[..., : self.dimensions] if self.dimensions else vectors
        return cut


def pooled(states: Vector, mask: NDArray[np.integer], pooling: str) -> Vector:
    """Return vectors (b, dim) from states (b, t, dim), over the tokens where `mask` (b, t) is 1.

    `pooling` is "mean", "cls" (the first token) or "last" (the last token in the mask).
    """
    if pooling == "cls":
        first: Vector = states[:, 0]
        return first
    if pooling == "last":
        last = mask.shape[1] - 1 - np.argmax(mask[:, ::-1], axis=1)
        return np.asarray(states[np.arange(len(states)), last])
    weights = mask.astype(np.float32)
    sums = np.matmul(weights[:, None, :], states)[:, 0]
    means: Vector = sums / np.maximum(weights.sum(axis=1, keepdims=True), 1)
    return means
