"""Token vectors in compact form: one bit a dimension, the sign.

A token of 384 dimensions takes 48 bytes. The question's side stays in full precision, so a score is
the mean signed weight; what this keeps of the ranking stands in docs/adr/0008-late-interaction.md.
"""

import numpy as np
from numpy.typing import NDArray

from convmemory.embeddings.embedder import Vector


def encode_vectors(vectors: Vector) -> bytes:
    """Signs of `vectors` (t, dim), packed: `t * dim / 8` bytes. `dim` is a multiple of 8."""
    return np.packbits(vectors > 0, axis=1).tobytes()


def decode_bits(data: bytes, dimensions: int) -> NDArray[np.uint8]:
    """The signs as 0 and 1, (t, dim)."""
    packed = np.frombuffer(data, dtype=np.uint8).reshape(-1, dimensions // 8)
    return np.unpackbits(packed, axis=1)


def similarities(question: Vector, bits: NDArray[np.uint8]) -> Vector:
    """Approximate cosines (q, t) of the question's token vectors (q, dim) to coded tokens (t, dim)."""
    signed = 2.0 * (question @ bits.astype(np.float32).T) - question.sum(axis=1, keepdims=True)
    result: Vector = signed / np.float32(np.sqrt(bits.shape[1]))
    return result
