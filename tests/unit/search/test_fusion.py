"""Scaling and fusing signals."""

import numpy as np
from numpy.testing import assert_allclose, assert_array_equal

from search.ranking.fusion import (
    LONG_TURNS,
    SECOND_STAGE,
    best_first,
    fuse,
    inverse_document_frequency,
    long_share,
    scale,
    second_stage,
)
from search.retrieval.candidates import split_keys, spread, turn_keys

NAN = float("nan")


def array(*values: float) -> np.ndarray:
    return np.array(values, dtype=np.float32)


def test_scaling_keeps_the_margins() -> None:
    assert_allclose(scale(array(1, 2, 5)), [0, 0.25, 1])


def test_an_unseen_turn_gets_nothing() -> None:
    assert_allclose(scale(array(4, NAN, 6, 8)), [0, 0, 0.5, 1])


def test_equal_scores_count_fully_and_no_scores_not_at_all() -> None:
    assert_allclose(scale(array(3, 3)), [1, 1])
    assert_allclose(scale(array(NAN, NAN)), [0, 0])


def test_signals_without_a_weight_do_not_count() -> None:
    signals = {"a": array(0, 1), "b": array(1, 0), "c": array(9, 0)}
    assert_allclose(fuse(signals, {"a": 2.0, "b": 0.5}), [0.5, 2.0])


def test_rare_words_weigh_more_and_none_weighs_less_than_nothing() -> None:
    weights = inverse_document_frequency(np.array([1, 50, 100]), 100)
    assert weights[0] > weights[1] > weights[2] >= 0


def test_the_order_is_total() -> None:
    keys = np.array([10, 20, 30], dtype=np.int64)
    assert_array_equal(best_first(array(1, 2, 2), keys), [2, 1, 0])


def test_keys_hold_conversation_and_turn() -> None:
    keys = turn_keys([7, 7, 8], [0, 12, 3])
    assert split_keys(keys) == ([7, 7, 8], [0, 12, 3])
    assert_array_equal(spread(keys, keys[1:2], array(5)), array(NAN, 5, NAN))


def test_long_turns_are_weighed_by_another_table_without_a_step() -> None:
    shares = [long_share(length) for length in (0, 60, 140, 350, 760, 10_000)]
    assert shares == sorted(shares)
    assert (shares[0], shares[3]) == (0.0, 0.5)
    assert shares[2] < 0.03
    assert shares[-1] > 0.99
    short, long = second_stage(0), second_stage(1e9)
    assert short == {name: SECOND_STAGE.get(name, 0.0) for name in short}
    assert_allclose([long[name] for name in LONG_TURNS], list(LONG_TURNS.values()), atol=1e-6)
    middle = second_stage(350)["lexical"]
    assert_allclose(middle, (SECOND_STAGE["lexical"] + LONG_TURNS["lexical"]) / 2)
