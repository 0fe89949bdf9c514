"""Scaling and fusing features."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from search.ranking.rankers import best_few, best_first, diversify, fuse, scale
from search.retrieval.candidates import item_keys, median, split_keys, spread_all

NAN = float("nan")


def array(*values: float) -> np.ndarray:
    return np.array(values, dtype=np.float32)


def test_scaling_keeps_margins() -> None:
    assert_allclose(scale(array(1, 2, 5)), [0, 0.25, 1])


def test_missing_score_scales_to_zero() -> None:
    assert_allclose(scale(array(4, NAN, 6, 8)), [0, 0, 0.5, 1])


def test_equal_scores_count_fully_and_no_scores_not_at_all() -> None:
    assert_allclose(scale(array(3, 3)), [1, 1])
    assert_allclose(scale(array(NAN, NAN)), [0, 0])


def test_features_without_weight_do_not_count() -> None:
    features = {"a": array(0, 1), "b": array(1, 0), "c": array(9, 0)}
    assert_allclose(fuse(features, {"a": 2.0, "b": 0.5}), [0.5, 2.0])


def test_equal_scores_are_ordered_by_key() -> None:
    keys = np.array([10, 20, 30], dtype=np.int64)
    assert_array_equal(best_first(array(1, 2, 2), keys), [2, 1, 0])


@pytest.mark.parametrize("levels", [1, 3, 50, 100_000])
def test_ties_anywhere_are_in_order_of_sort_by_both(levels: int) -> None:
    generator = np.random.default_rng(levels)
    scores = (generator.integers(0, levels, 400) / levels).astype(np.float32)
    scores[:3] = np.nan
    keys = np.sort(generator.choice(10_000, 400, replace=False))
    assert_array_equal(best_first(scores, keys), np.lexsort((-keys, -scores)))


@pytest.mark.parametrize("count", [1, 7, 50, 99, 100, 101])
def test_best_few_are_first_of_all_also_among_equals(count: int) -> None:
    scores = np.random.default_rng(1).integers(0, 12, 100).astype(np.float32)
    keys = np.arange(100, dtype=np.int64) * 3
    assert_array_equal(best_few(scores, keys, count), best_first(scores, keys)[:count])


def test_keys_hold_conversation_and_turn() -> None:
    keys = item_keys([7, 7, 8], [0, 12, 3])
    assert split_keys(keys) == ([7, 7, 8], [0, 12, 3])
    assert_array_equal(spread_all(keys, keys[1:2], {"": array(5)})[""], array(NAN, 5, NAN))


@pytest.mark.parametrize("size", [1, 2, 3, 4, 79, 80])
def test_median_is_numpy_s(size: int) -> None:
    values = np.random.default_rng(size).random(size).astype(np.float32)
    assert median(values) == float(np.median(values))


@pytest.mark.parametrize(("relevance", "order"), [(1.0, [0, 1, 2]), (0.5, [0, 2, 1])])
def test_item_similar_to_better_one_comes_later(relevance: float, order: list[int]) -> None:
    similarity = np.array([[0, 1, 0], [1, 0, 0], [0, 0, 0]], np.float32)
    assert diversify(array(1, 0.9, 0.5), similarity, relevance=relevance).tolist() == order
