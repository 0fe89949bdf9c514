"""Token vectors after binary quantization: one bit per dimension.

A token of 384 dimensions takes 48 bytes. The query's side stays in full precision, so a score is the mean of its
values, each with the sign of the bit. What this preserves of the ranking: docs/adr/0008-late-interaction.md.
"""

import numpy as np
from numpy.typing import NDArray

from convmemory.embeddings.embedder import Vector

AT_ONCE = 1_024  # tokens whose decoded bits stay in the processor's cache


def encode_vectors(vectors: Vector) -> bytes:
    """Binary codes of `vectors` (t, dim), a bit 1 where positive: `dim / 8` bytes per vector, padded to whole bytes."""
    return np.packbits(vectors > 0, axis=1).tobytes()


def decode_bits(codes: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """The bits of coded tokens (t, bytes) as 0 and 1, (t, dim)."""
    return np.unpackbits(codes, axis=1)


def similarities(question: Vector, data: bytes) -> Vector:
    """Approximate cosines (q, t) of the question's token vectors (q, dim) to coded tokens."""
    dimensions = question.shape[1]
    codes = np.frombuffer(data, np.uint8).reshape(-1, dimensions // 8)
    products = np.empty((len(question), len(codes)), np.float32)
    for start in range(0, len(codes), AT_ONCE):
        rows = slice(start, start + AT_ONCE)
        np.matmul(question, decode_bits(codes[rows]).astype(np.float32).T, out=products[:, rows])
    signed = 2.0 * products - question.sum(axis=1, keepdims=True)
    result: Vector = signed / np.float32(np.sqrt(dimensions))
    return result
