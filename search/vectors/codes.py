"""Codes the vectors of passages: six bits for each dimension after a fixed rotation, and a scale.

A vector of 384 dimensions takes 292 bytes; the first third of its code is a code of two bits. The rotation spreads what
a model puts into few dimensions over all of them, and needs no data, so that codes of different times compare. A query
keeps its precision. How well this ranks: docs/adr/0010-exact-scan-or-binary-codes.md. Sources: Gao and Long, RaBitQ,
2024; Max, Quantizing for Minimum Distortion, 1960.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from convmemory.embeddings.embedder import Vector
from convmemory.embeddings.token_codes import decode_bits, encode_vectors, similarities

SCALE = np.dtype(">f2")
"""Follows the bits of a part: what the decoded vector is multiplied by, so that its cosines are those of the vector."""
# A value is the sum of these weights, each with a sign, a bit: 64 levels at equal distances, Max's for values of a
# normal distribution. By its first two signs alone it is decoded as the mean of such values with them.
WEIGHTS = (1.6656, 0.8328, 0.4164, 0.2082, 0.1041, 0.05205)
SHORT_WEIGHTS = (1.3715, 0.7096)
# Each round changes some signs and mixes as many dimensions as a power of two has, the first or the last ones.
ROUNDS = 4


@lru_cache(maxsize=8)
def _signs(dimensions: int) -> Vector:
    """Return the signs of all rounds, (rounds, dim): they must never change, and are the same on every machine."""
    drawn = np.frombuffer(hashlib.shake_256(b"passages").digest(ROUNDS * dimensions), np.uint8)
    return np.where(drawn & 1, np.float32(1), np.float32(-1)).reshape(ROUNDS, dimensions)


def rotated(vectors: Vector) -> Vector:
    """Return the vectors (n, dim) rotated: lengths and cosines stay."""
    turned = vectors.astype(np.float32)
    for number, signs in enumerate(_signs(turned.shape[1])):
        turned *= signs
        _mix(turned, number)
    return turned


def rotated_back(vectors: Vector) -> Vector:
    """Return the vectors (n, dim) of which `rotated` makes these."""
    turned = vectors.astype(np.float32)
    for number, signs in reversed(list(enumerate(_signs(turned.shape[1])))):
        _mix(turned, number)
        turned *= signs
    return turned


def _mix(vectors: Vector, number: int) -> None:
    """Apply a Walsh-Hadamard transform, its own inverse, to the first dimensions in even rounds, else to the last."""
    size = 1 << (vectors.shape[1].bit_length() - 1)
    place = slice(0, size) if number % 2 == 0 else slice(vectors.shape[1] - size, None)
    mixed, width = np.ascontiguousarray(vectors[:, place]), 1
    while width < size:
        pairs = mixed.reshape(len(mixed), size // (2 * width), 2, width)
        mixed = np.stack([pairs[:, :, 0] + pairs[:, :, 1], pairs[:, :, 0] - pairs[:, :, 1]], axis=2)
        width *= 2
    vectors[:, place] = mixed.reshape(len(mixed), size) / np.float32(np.sqrt(size))


def encode(vectors: Vector) -> list[bytes]:
    """Return the code of each vector (n, dim)."""
    if not len(vectors):
        return []
    turned = rotated(vectors)
    lengths = np.linalg.norm(turned, axis=1, keepdims=True)
    left = turned * np.float32(np.sqrt(turned.shape[1])) / np.maximum(lengths, np.finfo(np.float32).tiny)
    signs = []
    for weight in WEIGHTS:
        signs.append(np.where(left > 0, np.float32(1), np.float32(-1)))
        left = left - np.float32(weight) * signs[-1]
    columns = []
    for weights, new in ((SHORT_WEIGHTS, signs[:2]), (WEIGHTS, signs[2:])):
        sums = (_weighed(weights, signs) * turned).sum(axis=1)
        scales = np.divide(lengths[:, 0], sums, out=np.zeros_like(sums), where=sums > 0).astype(SCALE)
        columns += [np.frombuffer(encode_vectors(plane), np.uint8).reshape(len(turned), -1) for plane in new]
        columns.append(scales.view(np.uint8).reshape(-1, SCALE.itemsize))
    return [row.tobytes() for row in np.concatenate(columns, axis=1)]


def _weighed(weights: Sequence[float], signs: Sequence[Vector]) -> Vector:
    total: Vector = sum(np.float32(weight) * plane for weight, plane in zip(weights, signs, strict=False))  # type: ignore[assignment]
    return total


def short_bytes(dimensions: int) -> int:
    """Return the size of the first part of a code."""
    return 2 * -(-dimensions // 8) + SCALE.itemsize


def code_bytes(dimensions: int) -> int:
    """Return the size of a code."""
    return len(WEIGHTS) * -(-dimensions // 8) + 2 * SCALE.itemsize


@dataclass(frozen=True, slots=True)
class Parts:
    """The parts of codes: the bits of each weight, (n, bytes), and scales (n,)."""

    planes: tuple[NDArray[np.uint8], ...]
    scales: Vector

    @classmethod
    def of(cls, codes: bytes, dimensions: int, *, is_short: bool = False) -> "Parts":
        """Return the parts of joined codes, or of the first parts of codes."""
        width = -(-dimensions // 8)
        starts = [0, width]
        if not is_short:
            starts += [short_bytes(dimensions) + number * width for number in range(len(WEIGHTS) - 2)]
        rows = np.frombuffer(codes, np.uint8).reshape(-1, starts[-1] + width + SCALE.itemsize)
        planes = tuple(rows[:, start : start + width] for start in starts)
        scales = np.ascontiguousarray(rows[:, -SCALE.itemsize :]).view(SCALE)[:, 0].astype(np.float32)
        return cls(planes, scales)

    @property
    def weights(self) -> tuple[float, ...]:
        return WEIGHTS if len(self.planes) == len(WEIGHTS) else SHORT_WEIGHTS

    def cosines(self, query: Vector) -> Vector:
        """Return the approximate cosines (n,) of a query (dim,), rotated."""
        found = _weighed(self.weights, [similarities(query[None], plane)[0] for plane in self.planes])
        return found * np.float32(np.sqrt(len(query))) * self.scales


def decoded(codes: bytes, dimensions: int) -> Vector:
    """Return approximate vectors (n, dim), rotated, of joined codes: their products with a query's are its cosines."""
    parts = Parts.of(codes, dimensions)
    signs = [decode_bits(plane, dimensions).astype(np.float32) * 2 - 1 for plane in parts.planes]
    return _weighed(parts.weights, signs) * parts.scales[:, None]
