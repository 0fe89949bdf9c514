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
from typing import Any, Protocol

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
Words = NDArray[np.unsignedinteger[Any]]
Rows = NDArray[np.bool_] | NDArray[np.int64]
HALF = np.dtype(">f2")  # as PostgreSQL sends half precision
_WORD_SIZES: Sequence[type[np.unsignedinteger[Any]]] = (np.uint64, np.uint32, np.uint16, np.uint8)
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
    half = slice(0, size) if number % 2 == 0 else slice(vectors.shape[1] - size, None)
    mixed, width = np.ascontiguousarray(vectors[:, half]), 1
    while width < size:
        pairs = mixed.reshape(len(mixed), size // (2 * width), 2, width)
        mixed = np.empty_like(pairs)
        np.add(pairs[:, :, 0], pairs[:, :, 1], out=mixed[:, :, 0])
        np.subtract(pairs[:, :, 0], pairs[:, :, 1], out=mixed[:, :, 1])
        width *= 2
    vectors[:, half] = mixed.reshape(len(mixed), size) / np.float32(np.sqrt(size))


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


class Codes(Protocol):
    """The codes of some vectors (n,), rotated; all that are cached of an owner are long ones, or short ones."""

    @property
    def size(self) -> int:
        """Return the size in bytes."""

    def of(self, rows: Rows) -> "Codes":
        """Return these codes alone."""

    def joined(self, other: Any) -> "Codes":
        """Return these codes, then the others, which are of the same kind."""

    def cosines(self, query: Vector, rows: Rows | None = None) -> Vector:
        """Return the approximate cosines (n,) of a query (dim,), rotated."""

    def vectors(self) -> Vector:
        """Return approximate vectors (n, dim), rotated: their products with a query's are its cosines."""


@dataclass(frozen=True, slots=True)
class LongCodes:
    """Whole codes, decoded: `matrix` (n, dim), rotated; its products with a query's vector are the cosines."""

    matrix: Vector

    @property
    def size(self) -> int:
        return self.matrix.nbytes

    def of(self, rows: Rows) -> "LongCodes":
        return LongCodes(self.matrix[rows])

    def joined(self, other: "LongCodes") -> "LongCodes":
        return LongCodes(np.concatenate([self.matrix, other.matrix]))

    def cosines(self, query: Vector, rows: Rows | None = None) -> Vector:
        return np.asarray((self.matrix if rows is None else self.matrix[rows]) @ query, np.float32)

    def vectors(self) -> Vector:
        return self.matrix


@dataclass(frozen=True, slots=True)
class ShortCodes:
    """First parts of codes: bits of the first weight as words (words, n), of the second one (n, bytes), and scales."""

    words: Words
    fine: NDArray[np.uint8]
    scales: Vector

    @classmethod
    def read(cls, codes: bytes, dimensions: int) -> "ShortCodes":
        """Return the values of joined first parts."""
        width = -(-dimensions // 8)
        rows = np.frombuffer(codes, np.uint8).reshape(-1, short_bytes(dimensions))
        return cls(as_words(rows[:, :width]), rows[:, width : 2 * width], _scales(rows))

    def __len__(self) -> int:
        return len(self.scales)

    @property
    def size(self) -> int:
        return self.words.nbytes + self.fine.nbytes + self.scales.nbytes

    def of(self, rows: Rows) -> "ShortCodes":
        return ShortCodes(self.words[:, rows], self.fine[rows], self.scales[rows])

    def joined(self, other: "ShortCodes") -> "ShortCodes":
        return ShortCodes(
            np.concatenate([self.words, other.words], axis=1),
            np.concatenate([self.fine, other.fine]),
            np.concatenate([self.scales, other.scales]),
        )

    def cosines(self, query: Vector, rows: Rows | None = None) -> Vector:
        chosen = self if rows is None else self.of(rows)
        planes = np.concatenate(chosen._planes, axis=1)
        weighed = np.zeros((len(SHORT_WEIGHTS), planes.shape[1] * 8 // len(SHORT_WEIGHTS)), np.float32)
        weighed[:, : len(query)] = np.outer(SHORT_WEIGHTS, query)
        # Both planes at once; without the scale of cosines.
        sums: Vector = similarities(weighed.reshape(1, -1), planes)[0] * np.float32(np.sqrt(weighed.size))
        return sums * chosen.scales

    def vectors(self) -> Vector:
        signs = [decode_bits(plane, 8 * plane.shape[1]).astype(np.float32) * 2 - 1 for plane in self._planes]
        return _weighed(SHORT_WEIGHTS, signs) * self.scales[:, None]

    def distances(self, query: Vector) -> NDArray[np.uint16]:
        """Return the Hamming distances (n,) of the first bits from those of a query (dim,)."""
        code = np.frombuffer(encode_vectors(query[None]), np.uint8)
        differing = np.zeros(len(self), np.uint16)
        for column, word in zip(self.words, as_words(code[None])[:, 0], strict=True):
            differing += np.bitwise_count(column ^ word)
        return differing

    @property
    def _planes(self) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
        return np.ascontiguousarray(self.words.T).view(np.uint8), self.fine


def _scales(rows: NDArray[np.uint8]) -> Vector:
    """Return the scales at the ends of codes (n, bytes)."""
    return np.ascontiguousarray(rows[:, -SCALE.itemsize :]).view(SCALE)[:, 0].astype(np.float32)


def as_words(rows: NDArray[np.uint8]) -> Words:
    """Convert rows of bytes (n, bytes) to columns of the largest machine words that fit: (words, n)."""
    word = next(word for word in _WORD_SIZES if rows.shape[1] % np.dtype(word).itemsize == 0)
    return np.ascontiguousarray(np.ascontiguousarray(rows).view(word).T)


def decoded(codes: bytes, dimensions: int) -> Vector:
    """Return approximate vectors (n, dim), rotated, of joined codes: their products with a query's are its cosines."""
    width = -(-dimensions // 8)
    rows = np.frombuffer(codes, np.uint8).reshape(-1, code_bytes(dimensions))
    signs = []
    for number in range(len(WEIGHTS)):
        start = number * width + (SCALE.itemsize if number >= len(SHORT_WEIGHTS) else 0)
        signs.append(decode_bits(rows[:, start : start + width], dimensions).astype(np.float32) * 2 - 1)
    return _weighed(WEIGHTS, signs) * _scales(rows)[:, None]
