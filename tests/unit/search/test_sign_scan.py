"""Signs of vectors in machine words: distances, pieces, and where the best end."""

import numpy as np
import pytest

from memory.signs import PLACE, sign_bytes
from search.sign_scan import Signs, _cutoff


def packed(vectors: np.ndarray, first_id: int = 0) -> Signs:
    places = np.zeros(len(vectors), PLACE)
    places["id"] = np.arange(first_id, first_id + len(vectors))
    places["turn"], places["kind"] = 7, 4
    return Signs.unpacked(places.tobytes(), sign_bytes(vectors).tobytes())


@pytest.mark.parametrize("dimensions", [384, 100, 12])
def test_the_distance_is_the_number_of_signs_that_differ(dimensions: int) -> None:
    vectors = np.random.default_rng(3).standard_normal((50, dimensions)).astype(np.float32)
    question, signs = vectors[0], packed(vectors)
    expected = ((vectors > 0) != (question > 0)).sum(axis=1)
    assert signs.distances(question).tolist() == expected.tolist()
    assert (signs.ids[3], signs.turns[3], signs.kinds[3]) == (3, 7, 4)


def test_pieces_that_are_joined_are_the_whole() -> None:
    vectors = np.random.default_rng(4).standard_normal((30, 64)).astype(np.float32)
    whole = packed(vectors)
    again = Signs.joined([whole.part(0, 11), whole.part(11, 11), whole.part(11, 30)])
    assert again.ids.tolist() == whole.ids.tolist()
    assert again.distances(vectors[5]).tolist() == whole.distances(vectors[5]).tolist()


@pytest.mark.parametrize(("limit", "cutoff"), [(1, 2), (2, 5), (3, 5), (4, 9), (100, 10)])
def test_what_is_equally_far_is_cut_off_together(limit: int, cutoff: int) -> None:
    assert _cutoff(np.array([9, 5, 2, 5], np.uint16), limit) == cutoff
