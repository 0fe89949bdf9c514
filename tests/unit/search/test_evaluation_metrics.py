"""Measures of a ranking, against values worked out by hand."""

import math

import pytest

from convmemory.evaluation.metrics import hit, means, measure, ndcg, ranked, recall, reciprocal_rank

FOUND = ["a", "b", "c", "d"]


def test_best_score_comes_first_and_ties_go_by_name() -> None:
    assert ranked({"b": 1.0, "a": 1.0, "c": 2.0}) == ["c", "a", "b"]


def test_recall_hit_and_reciprocal_rank() -> None:
    assert recall(["b", "x"], FOUND, 2) == 0.5
    assert recall([], FOUND, 2) == 0.0
    assert (hit(["c"], FOUND, 2), hit(["c"], FOUND, 3)) == (0.0, 1.0)
    assert reciprocal_rank(["c", "d"], FOUND) == pytest.approx(1 / 3)
    assert reciprocal_rank(["x"], FOUND) == 0.0


def test_ndcg_of_best_order_is_one_and_later_gains_count_less() -> None:
    assert ndcg({"a": 2.0, "b": 1.0}, FOUND, 10) == pytest.approx(1.0)
    assert ndcg({"b": 1.0}, FOUND, 10) == pytest.approx(1 / math.log2(3))


def test_measures_are_averaged_over_queries_and_query_without_hits_counts_nothing() -> None:
    gold = {"q1": {"a": 1.0}, "q2": {"z": 1.0}}
    values = means(measure(gold, {"q1": {"a": 3.0, "b": 1.0}}))
    assert (values["recall@1"], values["hit@5"], values["mrr"]) == (0.5, 0.5, 0.5)
