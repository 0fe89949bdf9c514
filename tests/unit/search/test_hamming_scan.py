"""Binary codes of vectors in machine words: distances, pieces, and which are the nearest."""

import numpy as np
import pytest

from convmemory.embeddings.token_codes import encode_vectors
from search.retrieval.hamming_scan import _least
from search.vectors.blocks import Codes
from search.vectors.codes import ENTRY


def packed(vectors: np.ndarray, first_id: int = 0) -> Codes:
    places = np.zeros(len(vectors), ENTRY)
    places["id"] = np.arange(first_id, first_id + len(vectors))
    places["item"], places["kind"] = 7, 4
    return Codes.unpacked(places.tobytes(), encode_vectors(vectors))


@pytest.mark.parametrize("dimensions", [384, 96, 48, 12])
def test_the_distance_is_the_number_of_bits_that_differ(dimensions: int) -> None:
    vectors = np.random.default_rng(3).standard_normal((50, dimensions)).astype(np.float32)
    question, codes = vectors[0], packed(vectors)
    expected = ((vectors > 0) != (question > 0)).sum(axis=1)
    assert codes.distances(question).tolist() == expected.tolist()
    assert (codes.ids[3], codes.items[3], codes.kinds[3]) == (3, 7, 4)


def test_pieces_that_are_joined_are_the_whole() -> None:
    vectors = np.random.default_rng(4).standard_normal((30, 64)).astype(np.float32)
    whole = packed(vectors)
    first = whole.ids < 11
    again = whole.those(first).followed_by(whole.those(~first))
    assert again.ids.tolist() == whole.ids.tolist()
    assert again.distances(vectors[5]).tolist() == whole.distances(vectors[5]).tolist()


@pytest.mark.parametrize(
    ("limit", "nearest"), [(1, {2}), (2, {2, 3}), (3, {2, 3, 1}), (4, {2, 3, 1, 0}), (5, {2, 3, 1, 0}), (0, set())]
)
def test_of_what_is_equally_far_the_newest_are_kept(limit: int, nearest: set[int]) -> None:
    distances, ids = np.array([9, 5, 2, 5], np.uint16), np.array([70, 40, 60, 50])
    assert set(_least(distances, ids, limit).tolist()) == nearest


def test_of_nothing_nothing_is_nearest() -> None:
    assert _least(np.array([], np.uint16), np.array([], np.int64), 3).tolist() == []
