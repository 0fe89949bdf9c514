"""Short codes in machine words: distances, cosines, pieces, and which are the nearest."""

import numpy as np
import pytest

from convmemory.embeddings.embedder import unit_rows
from search.retrieval.candidates import item_keys
from search.vectors.blocks import Blocks, ComparedVectors, least
from search.vectors.codes import ShortCodes, encode, rotated, short_bytes
from search.vectors.packing import ENTRY, OF_ITEM


def packed(vectors: np.ndarray) -> ShortCodes:
    dimensions = vectors.shape[1]
    return ShortCodes.read(b"".join(code[: short_bytes(dimensions)] for code in encode(vectors)), dimensions)


@pytest.mark.parametrize("dimensions", [384, 96, 48, 12])
def test_distance_is_number_of_bits_that_differ(dimensions: int) -> None:
    vectors = np.random.default_rng(3).standard_normal((50, dimensions)).astype(np.float32)
    codes, (question, *_) = packed(vectors), rotated(vectors)
    expected = ((rotated(vectors) > 0) != (question > 0)).sum(axis=1)
    assert codes.distances(question).tolist() == expected.tolist()


def test_nearest_passages_of_items_are_found_item_by_item() -> None:
    vectors = unit_rows(np.random.default_rng(6).standard_normal((6, 64)).astype(np.float32))
    entries = np.zeros(6, ENTRY)
    entries["item"], entries["asks"] = [2, 1, 2, 5, 1, 1], [1, 0, 0, 0, 0, 0]
    blocks = Blocks((2, 0), np.array([1, 2]), np.array([7, 8]), np.array([4, 2]), {}, entries, packed(vectors), None, 8)
    keys = item_keys([7, 7, 7, 8, 9], [1, 2, 3, 1, 1])
    question = vectors[2] + vectors[5]
    compared = ComparedVectors(blocks, rotated(question[None])[0])
    for nearest, places in ((2, [1, 2, 0, 5, 4]), (1, [1, 2, 5])):
        near = compared.nearest_of_items(keys, [0], nearest)
        assert near.places.tolist() == places
        assert np.bincount(near.of_item, minlength=5).tolist() == [1, nearest, 0, nearest, 0]
        exact = vectors[near.places] @ question
        assert np.abs(near.cosines - exact).max() < 0.2
    asking = np.array([False, True, False, False, False])
    assert compared.nearest_of_items(keys, [0], 1, asking_alone=asking).places.tolist() == [1, 0, 5]
    for items, kinds in ((keys[:0], [0]), (keys, [1]), (keys, [])):
        assert not len(compared.nearest_of_items(items, kinds, 2).places)


def test_joined_pieces_equal_whole() -> None:
    vectors = np.random.default_rng(4).standard_normal((30, 64)).astype(np.float32)
    whole, first = packed(vectors), np.arange(30) < 11
    again = whole.of(first).joined(whole.of(~first))
    question = rotated(vectors[:1])[0]
    assert again.words.tolist() == whole.words.tolist()
    assert again.cosines(question).tolist() == whole.cosines(question).tolist()
    np.testing.assert_allclose(whole.vectors() @ question, whole.cosines(question), atol=1e-3)


@pytest.mark.parametrize(
    ("limit", "nearest"), [(1, {2}), (2, {2, 3}), (3, {2, 3, 1}), (4, {2, 3, 1, 0}), (5, {2, 3, 1, 0}), (0, set())]
)
def test_least_keeps_newest_of_equal_distances(limit: int, nearest: set[int]) -> None:
    distances, items = np.array([9, 5, 2, 5], np.uint16), np.array([70, 40, 60, 50])
    assert set(least(distances, items, limit).tolist()) == nearest


def test_least_of_no_distances_is_empty() -> None:
    assert least(np.array([], np.uint16), np.array([], np.int64), 3).tolist() == []


def test_only_admitted_vectors_of_these_kinds_are_nearest() -> None:
    vectors = unit_rows(np.random.default_rng(6).standard_normal((6, 64)).astype(np.float32))
    entries = np.zeros(6, ENTRY)
    entries["item"], entries["kind"] = np.arange(6), [0, 1, 0, 1, 0, 1]
    blocks = Blocks((1, 0), np.array([1]), np.array([0]), np.array([6]), {}, entries, packed(vectors), None, 8)
    compared = ComparedVectors(blocks, rotated(vectors[:1])[0])
    admitted = np.array([False, True, True, True, True, True])
    for kinds, limit, items in (([0], 9, {2, 4}), ([1], 9, {1, 3, 5}), ([0, 1], 9, {1, 2, 3, 4, 5}), ([2], 9, set())):
        assert set(compared.nearest(kinds, limit, admitted)[0].tolist()) == items
    assert len(compared.nearest([0, 1], 2, admitted)[0]) == 2
    assert compared.nearest([0, 1], 1, None)[0].tolist() == [0]


def test_vectors_of_items_are_those_of_their_first_chunks_at_odd_dimensions_too() -> None:
    vectors = unit_rows(np.random.default_rng(6).standard_normal((3, 12)).astype(np.float32))
    entries = np.zeros(3, ENTRY)
    entries["element"], entries["item"], entries["kind"], entries["part"] = [1, 2, 3], [4, 4, 5], OF_ITEM, [0, 1, 0]
    blocks = Blocks((1, 0), np.array([1]), np.array([7]), np.array([3]), {}, entries, packed(vectors), None, 2)
    compared = ComparedVectors(blocks, rotated(vectors[:1])[0])
    of_items = compared.item_vectors(item_keys([7, 7, 7], [4, 5, 6]))
    cosines = blocks.codes.cosines(compared.question)
    np.testing.assert_allclose(of_items[:2] @ compared.question, cosines[[0, 2]], atol=1e-3)
    assert not of_items[2].any()
    sums = (vectors[0] + vectors[1] + vectors[2]) / np.linalg.norm(vectors.sum(axis=0))
    assert compared.mean_cosines([7, 8])[7] == pytest.approx(float(sums @ vectors[0]), abs=0.15)
