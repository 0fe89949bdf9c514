"""Codes of passages' vectors: what they keep, and that they never change."""

import numpy as np
import pytest

from convmemory.embeddings.embedder import Vector, unit_rows
from search.vectors.codes import ShortCodes, decoded, encode, rotated, rotated_back, short_bytes


def vectors_of(dimensions: int, count: int = 200) -> Vector:
    drawn = np.random.default_rng(1).standard_normal((count, dimensions)).astype(np.float32)
    drawn[:, 0] += 5  # as in models whose vectors lean to one side
    return unit_rows(drawn)


@pytest.mark.parametrize("dimensions", [3, 8, 64, 100, 384, 1_536])
def test_rotation_keeps_products_and_is_undone(dimensions: int) -> None:
    vectors = vectors_of(dimensions)
    turned = rotated(vectors)
    np.testing.assert_allclose(turned @ turned.T, vectors @ vectors.T, atol=1e-4)
    np.testing.assert_allclose(rotated_back(turned), vectors, atol=1e-5)


@pytest.mark.parametrize(("dimensions", "error"), [(64, 0.004), (384, 0.0015), (1_536, 0.0008)])
def test_cosines_of_codes_are_close_and_unbiased(dimensions: int, error: float) -> None:
    vectors = vectors_of(dimensions)
    codes, query = encode(vectors), rotated(vectors[:1])[0]
    whole, cosines = b"".join(codes), vectors @ vectors[0]
    difference = decoded(whole, dimensions) @ query - cosines
    assert np.abs(difference).mean() < error
    assert abs(difference.mean()) < error / 3
    short = b"".join(code[: short_bytes(dimensions)] for code in codes)
    difference = ShortCodes.read(short, dimensions).cosines(query) - cosines
    assert np.abs(difference).mean() < 15 * error
    assert abs(difference.mean()) < 4 * error


def test_codes_take_six_bits_a_dimension_after_rotation_that_stays_the_same() -> None:
    assert [len(code) for code in encode(vectors_of(384, 2))] == [292, 292]
    (turned,) = rotated(np.eye(8, dtype=np.float32)[:1])  # stored codes are compared with later ones
    np.testing.assert_allclose(turned, [0.25, 0.25, 0.25, -0.75, 0.25, 0.25, 0.25, 0.25], atol=1e-6)


def test_zero_vector_and_no_vectors_are_coded() -> None:
    (code,) = encode(np.zeros((1, 12), np.float32))
    assert decoded(code, 12).tolist() == [[0.0] * 12]
    assert encode(np.empty((0, 12), np.float32)) == []
