"""Turns as keys, and scores laid out over them."""

import numpy as np
import pytest

from search.retrieval.candidates import (
    NO_ITEMS,
    are_among,
    best_of_source,
    distinct,
    item_keys,
    split_keys,
    spread_all,
)


def test_keys_keep_conversation_and_turn_and_their_order() -> None:
    keys = item_keys([1, 1, 2], [0, 3, 1])
    assert split_keys(keys) == ([1, 1, 2], [0, 3, 1])
    assert keys.tolist() == sorted(keys.tolist())


def test_items_that_were_not_found_have_no_score() -> None:
    keys = item_keys([1, 1, 2], [0, 3, 1])
    scores = spread_all(keys, item_keys([1, 9], [3, 9]), {"": np.array([0.5, 0.7], np.float32)})[""]
    assert scores.tolist() == pytest.approx([np.nan, 0.5, np.nan], nan_ok=True)


def test_every_turn_gets_best_score_of_its_conversation() -> None:
    keys = item_keys([1, 1, 2, 5, 5], [0, 3, 1, 0, 1])
    scores = np.array([0.1, 0.4, 0.2, -1.0, -2.0], np.float32)
    assert best_of_source(keys, scores).tolist() == pytest.approx([0.4, 0.4, 0.2, -1.0, -1.0])
    assert best_of_source(keys[:0], scores[:0]).tolist() == []


def test_distinct_returns_each_key_once_in_order() -> None:
    assert distinct(np.array([5, 3, 5, 9, 3])).tolist() == [3, 5, 9]
    assert distinct(NO_ITEMS).tolist() == []


def test_are_among_tells_membership_per_item() -> None:
    keys = np.array([3, 5, 9])
    assert are_among(np.array([9, 2, 5, 10, 5, 3]), keys).tolist() == [True, False, True, False, True, True]
    assert are_among(keys, NO_ITEMS).tolist() == [False] * 3
    assert are_among(NO_ITEMS, keys).tolist() == []


def test_several_features_are_laid_out_as_each_by_itself() -> None:
    keys, found = np.array([3, 5, 9]), np.array([5, 7, 9])
    features = {"a": np.array([1, 2, 3], np.float32), "b": np.array([4, 5, 6], np.float32)}
    laid_out = spread_all(keys, found, features)
    for name, scores in features.items():
        np.testing.assert_array_equal(laid_out[name], spread_all(keys, found, {"": scores})[""])
    np.testing.assert_array_equal(laid_out["b"], [np.nan, 4, 6])


def test_spread_all_copies_scores_of_equal_keys() -> None:
    keys, scores = np.array([3, 5]), np.array([1, np.nan], np.float32)
    laid_out = spread_all(keys, keys.copy(), {"a": scores})["a"]
    np.testing.assert_array_equal(laid_out, scores)
    laid_out[:] = 0
    assert scores[0] == 1
