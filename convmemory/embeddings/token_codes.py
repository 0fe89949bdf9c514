"""Vectors after binary quantization, one bit per dimension, compared asymmetrically with a query that keeps its
precision.

A vector of 384 dimensions takes 48 bytes. The query's side is rounded only to 16 bits, so a score is the mean of its
values, each with the sign of the bit. The effect on the ranking: docs/adr/0008-late-interaction.md for tokens,
0010-exact-scan-or-binary-codes.md for passages.

Source: Gordo et al., Asymmetric Distances for Binary Embeddings, 2014.
"""

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from convmemory.embeddings.embedder import Vector
from convmemory.embeddings.graph_session import open_session

VECTORS_AT_ONCE = 4_096  # decoded bits of so many vectors fit into the processor's cache
_LARGEST = 127  # the largest signed 8-bit integer
_FINE_STEPS = 2 * _LARGEST  # fine steps in one coarse step

_ONNX_OPSET = 17
_ONNX_IR = 10


class _Rounded(NamedTuple):
    """Vectors (q, dim), each value as two 8-bit integers: `parts` (dim, 2 q) are all coarse ones, then all fine ones.

    A value is `(_FINE_STEPS * coarse + fine) * step`; the steps are (q, 1).
    """

    parts: NDArray[np.int8]
    step: Vector

    @classmethod
    def of(cls, vectors: Vector) -> "_Rounded":
        """Return the rounded vectors; a value differs by at most half a step: 1/64,516 of its vector's
        largest value.
        """
        largest = np.abs(vectors).max(axis=1, keepdims=True)
        coarse_step = np.maximum(largest, np.finfo(np.float32).tiny) / _LARGEST
        scaled = vectors / coarse_step
        coarse = np.rint(scaled)
        fine = np.rint((scaled - coarse) * _FINE_STEPS)
        return cls(np.concatenate([coarse, fine]).T.astype(np.int8), coarse_step / _FINE_STEPS)


def encode_vectors(vectors: Vector) -> bytes:
    """Return binary codes of `vectors` (t, dim), a bit 1 if positive: `dim / 8` bytes per vector, padded to whole
    bytes.
    """
    return np.packbits(vectors > 0, axis=1).tobytes()


def decode_bits(codes: NDArray[np.uint8], dimensions: int) -> NDArray[np.uint8]:
    """Return the bits of coded vectors (t, bytes) as 0 and 1, (t, dim)."""
    return np.unpackbits(codes, axis=1, count=dimensions)


def similarities(question: Vector, codes: NDArray[np.uint8]) -> Vector:
    """Return the approximate cosines (q, n) of the question's vectors (q, dim) to coded vectors (n, bytes)."""
    rounded = _Rounded.of(question)
    return _as_cosines(_sums(codes, rounded), question, rounded)


def best_similarities(question: Vector, data: bytes, starts: NDArray[np.int64]) -> Vector:
    """Return the approximate cosines (q, p) of the question's token vectors (q, dim) to each text's most similar token.

    `data` are the coded tokens of all texts, joined; `starts` (p,) are the positions of each text's first token among
    all tokens. Every text has at least one.
    """
    codes = np.frombuffer(data, np.uint8).reshape(-1, question.shape[1] // 8)
    rounded = _Rounded.of(question)
    return _as_cosines(np.maximum.reduceat(_sums(codes, rounded), starts, axis=0), question, rounded)


def _sums(codes: NDArray[np.uint8], rounded: _Rounded) -> NDArray[np.int32]:
    """Return for each coded vector (n, bytes) the sums (n, q) of the rounded values whose bits are 1, in steps."""
    dimensions, count = len(rounded.parts), len(rounded.step)
    sums = np.empty((len(codes), count), np.int32)
    for start in range(0, len(codes), VECTORS_AT_ONCE):
        rows = slice(start, start + VECTORS_AT_ONCE)
        products = bit_products(decode_bits(codes[rows], dimensions), rounded.parts)
        np.add(products[:, :count] * _FINE_STEPS, products[:, count:], out=sums[rows])
    return sums


def _as_cosines(sums: NDArray[np.int32], question: Vector, rounded: _Rounded) -> Vector:
    """Return the cosines (q, n) that follow from sums (n, q)."""
    signed = 2.0 * (sums.T * rounded.step) - question.sum(axis=1, keepdims=True)
    return np.asarray(signed / np.sqrt(question.shape[1]), np.float32)


def bit_products(bits: NDArray[np.uint8], integers: NDArray[np.int8]) -> NDArray[np.int32]:
    """Return the exact product (n, m) of `bits`, 0 or 1, (n, k) with `integers` (k, m).

    ONNX Runtime uses the processor's instructions for 8-bit integers, which NumPy does not: a product takes less than
    half the time that it takes in floating point. Measurements: docs/adr/0008-late-interaction.md.
    """
    (products,) = _session().run(None, {"bits": bits, "integers": integers})
    result: NDArray[np.int32] = products
    return result


@lru_cache(maxsize=1)
def _session() -> Any:
    """Return the graph of this product, on one thread: a second one made no search faster."""
    from onnx import TensorProto, helper

    graph = helper.make_graph(
        [helper.make_node("MatMulInteger", ["bits", "integers"], ["products"])],
        "bit_products",
        [
            helper.make_tensor_value_info("bits", TensorProto.UINT8, ["n", "k"]),
            helper.make_tensor_value_info("integers", TensorProto.INT8, ["k", "m"]),
        ],
        [helper.make_tensor_value_info("products", TensorProto.INT32, ["n", "m"])],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", _ONNX_OPSET)], ir_version=_ONNX_IR)
    return open_session(model.SerializeToString(), threads=1)
