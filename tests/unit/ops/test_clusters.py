"""Clumps of a map and their words."""

import numpy as np
import pytest
from numpy.typing import NDArray

from convmemory.ops.observability.clusters import clusters_of

BREAD = ("how long does the sourdough rise", "why is my sourdough flat", "what flour for sourdough bread")
LOCKS = ("why does the payments job deadlock", "set a lock timeout for the payments role", "deadlock in payments again")


@pytest.fixture
def places() -> NDArray[np.float64]:
    chance = np.random.default_rng(3)
    return np.vstack([chance.normal((-0.6, 0.2), 0.05, (30, 2)), chance.normal((0.7, -0.4), 0.05, (24, 2))])


def test_clump_is_named_after_its_distinctive_words(places: NDArray[np.float64]) -> None:
    found = clusters_of(places, [*BREAD * 10, *LOCKS * 8])
    assert [cluster.count for cluster in found] == [30, 24]
    assert "sourdough" in found[0].words
    assert "payments" in found[1].words
    assert not {"the", "why"} & {word for cluster in found for word in cluster.words}
    assert found[0].x == pytest.approx(-0.6, abs=0.1)
    assert found[1].y == pytest.approx(-0.4, abs=0.1)


def test_same_points_have_same_clumps(places: NDArray[np.float64]) -> None:
    headings = [*BREAD * 10, *LOCKS * 8]
    assert clusters_of(places, headings) == clusters_of(places, headings)


def test_few_points_and_equal_points_have_no_names(places: NDArray[np.float64]) -> None:
    assert clusters_of(places[:10], ["a word of it"] * 10) == []
    assert clusters_of(np.zeros((60, 2)), ["the same words"] * 60) == []


def test_headings_without_repeated_words_name_no_clump(places: NDArray[np.float64]) -> None:
    assert clusters_of(places, [f"q{'x' * number} alone" for number in range(54)]) == []
