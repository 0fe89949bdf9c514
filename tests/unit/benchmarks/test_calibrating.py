"""Logistic regression and the figures of a probability, against made data whose truth is known."""

import numpy as np
import pytest

from benchmarks.fitting import Floats, Mask, area_under_curve, fit_logistic, left_out, share_with_interval


def made(count: int = 20_000) -> tuple[Floats, Mask]:
    """Rows of two columns with very different scales, and a truth whose odds they make."""
    random = np.random.default_rng(5)
    columns = np.column_stack([random.normal(0.4, 0.1, count), random.normal(20, 5, count)])
    odds = -1 + 8 * (columns[:, 0] - 0.4) - 0.2 * (columns[:, 1] - 20)
    return columns, random.random(count) < 1 / (1 + np.exp(-odds))


def test_odds_that_made_truth_are_found() -> None:
    columns, truth = made()
    fitted = fit_logistic(columns, truth, np.ones(len(truth)))
    assert fitted.weights == pytest.approx([8, -0.2], rel=0.1)
    chance = fitted.probability(columns)
    for low in (0.1, 0.3, 0.5):
        inside = (chance >= low) & (chance < low + 0.1)
        assert truth[inside].mean() == pytest.approx(chance[inside].mean(), abs=0.04)


def test_rows_count_by_their_shares() -> None:
    columns, truth = np.array([[0.0], [0.0]]), np.array([True, False])
    assert fit_logistic(columns, truth, np.array([3.0, 1.0])).probability(columns)[0] == pytest.approx(0.75, abs=1e-3)


@pytest.mark.parametrize(("truth", "chance"), [([], 0.5), ([True] * 9, 0.95), ([False] * 9, 0.05)])
def test_logistic_fit_of_one_class_ignores_columns(truth: list[bool], chance: float) -> None:
    columns = np.arange(len(truth), dtype=float)[:, None]
    fitted = fit_logistic(columns, np.array(truth, np.bool_), np.ones(len(truth)))
    assert fitted.probability(np.array([[0.0], [99.0]])) == pytest.approx(chance)


def test_fold_is_judged_by_others_alone() -> None:
    columns, truth = np.array([[0.0], [0.0], [1.0]]), np.array([True, True, False])
    chance = left_out(columns, truth, np.ones(3), ["a", "b", "c"])
    assert chance[2] > 0.8, "nothing but right rows is left to learn from"


def test_area_under_curve_counts_pairs_and_halves_ties() -> None:
    truth = np.array([True, True, False, False])
    assert area_under_curve(np.array([4.0, 3.0, 2.0, 1.0]), truth) == 1.0
    assert area_under_curve(np.array([4.0, 1.0, 3.0, 2.0]), truth) == 0.5
    assert area_under_curve(np.array([2.0, 1.0, 1.0, 0.0]), truth) == 0.875


def test_interval_holds_share_and_stays_in_its_bounds() -> None:
    share, low, high = share_with_interval(np.array([True] * 9 + [False]))
    assert (share, round(low, 3), round(high, 3)) == (0.9, 0.596, 0.982)
    assert share_with_interval(np.zeros(5, np.bool_))[:2] == (0.0, 0.0)
    assert share_with_interval(np.zeros(0, np.bool_)) == (0.0, 0.0, 1.0)
