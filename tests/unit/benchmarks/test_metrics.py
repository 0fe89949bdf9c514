"""Measures of a ranking, intervals and the figures of other authors' protocols, against values worked out by hand."""

import math

import numpy as np
import pytest

from benchmarks.metrics import (
    differences,
    hit,
    mean_interval,
    means,
    measures,
    ndcg,
    percentiles,
    quality,
    recall,
    reciprocal_rank,
    values_of,
)
from benchmarks.protocols import Ranked, by_category, lmeb_figures, protocol_figures

FOUND = ["a", "b", "c", "d"]
RANKINGS = [("a", ["a", "b"]), ("bc", ["x", "b", "y", "w", "v", "c"]), ("z", ["a", "b"])]


def test_recall_hit_and_reciprocal_rank() -> None:
    assert recall(["b", "x"], FOUND, 2) == 0.5
    assert recall([], FOUND, 2) == 0.0
    assert (hit(["c"], FOUND, 2), hit(["c"], FOUND, 3)) == (0.0, 1.0)
    assert reciprocal_rank(["c", "d"], FOUND) == pytest.approx(1 / 3)
    assert reciprocal_rank(["x"], FOUND) == 0.0


def test_ndcg_of_best_order_is_one_and_later_gains_count_less() -> None:
    assert ndcg(["a", "b"], FOUND, 10) == pytest.approx(1.0)
    assert ndcg(["b"], FOUND, 10) == pytest.approx(1 / math.log2(3))


def test_measures_are_averaged_over_questions_and_one_without_hits_counts_nothing() -> None:
    values = means([measures(["a"], ["a", "b"]), measures(["z"], [])])
    assert (values["recall@1"], values["hit@5"], values["mrr"]) == (0.5, 0.5, 0.5)


def test_values_are_computed_per_question_over_first_twenty_hits() -> None:
    values = values_of([*RANKINGS, ("a", [*map(str, range(20)), "a"])])
    assert values["hit@1"].tolist() == [1, 0, 0, 0]
    assert values["hit@5"].tolist() == [1, 1, 0, 0]
    assert values["recall@10"].tolist() == [1, 1, 0, 0]
    assert values["mrr"].tolist() == [1, 0.5, 0, 0]


def test_interval_holds_mean_and_narrows_with_more_questions() -> None:
    few, many = mean_interval(np.tile([0.0, 1.0], 10)), mean_interval(np.tile([0.0, 1.0], 1_000))
    assert few["low"] < few["mean"] == 0.5 < few["high"]
    assert many["high"] - many["low"] < (few["high"] - few["low"]) / 5


def test_equal_rankings_do_not_differ_and_better_one_does() -> None:
    values, worse = values_of(RANKINGS), values_of([(right, ["n"]) for right, _ in RANKINGS])
    assert differences(values, values)["mrr"] == {"mean": 0, "low": 0, "high": 0}
    assert differences(values, worse)["mrr"]["mean"] == 0.5
    assert quality(values)["hit@5"]["mean"] == pytest.approx(2 / 3, abs=1e-4)


def test_percentiles_are_of_times() -> None:
    assert percentiles([float(number) for number in range(1, 102)]) == {"p50": 51.0, "p95": 96.0}


def row(category: str, right: str, ranked: str) -> Ranked:
    return Ranked(category, frozenset(map(ord, right)), tuple(map(ord, ranked)))


def test_lmeb_is_mean_of_its_tasks_not_of_its_questions() -> None:
    rows = [row("single-hop", "a", "ab"), row("single-hop", "a", "ab"), row("adversarial", "b", "xb")]
    figures = lmeb_figures(rows)
    assert figures["single_hop"] == {"questions": 2, "ndcg@10": 1.0, "recall@10": 1.0}
    assert figures["adversarial"]["ndcg@10"] == pytest.approx(0.6309, abs=1e-4)
    assert figures["mean of tasks"]["ndcg@10"] == pytest.approx((1 + 0.6309) / 2, abs=1e-4)


def test_any_at_k_and_all_at_k() -> None:
    figures = protocol_figures([row("", "ab", "axxxb"), row("", "ab", "axxxxxxxb")])
    assert (figures["any@1"], figures["all@1"]) == (1, 0)
    assert (figures["any@5"], figures["all@5"], figures["all@10"]) == (1, 0.5, 1)


def test_turns_are_counted_together_and_by_category() -> None:
    figures = by_category([row("multi", "ab", "a"), row("single", "a", "xa")])
    assert figures["all"]["recall@1"] == 0.25
    assert (figures["multi"]["recall@1"], figures["single"]["recall@5"], figures["single"]["mrr"]) == (0.5, 1, 0.5)
