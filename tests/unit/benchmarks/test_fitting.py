"""Fitting the weights of the fusion on invented questions whose answer is known."""

from collections.abc import Mapping

import numpy as np
import pytest

from benchmarks.fitting import Example, fit_weights, leave_one_out
from search.ranking.rankers import fuse

NAMES = ("telling", "noise", "misleading")


def examples(count: int, *, dataset: str = "set", folds: int = 4) -> list[Example]:
    """Candidates whose right one has the best `telling` and the worst `misleading` score."""
    generator = np.random.default_rng(5)
    made = []
    for number in range(count):
        right = np.arange(10) == number % 10
        features = {
            "telling": (generator.random(10) + 1.5 * right).astype(np.float32),
            "noise": generator.random(10).astype(np.float32),
            "misleading": (generator.random(10) - 1.5 * right).astype(np.float32),
        }
        made.append(Example(dataset, f"fold {number % folds}", np.arange(10, dtype=np.int64), features, right))
    return made


def test_predictive_feature_weighs_most_and_misleading_one_nothing() -> None:
    weights = fit_weights(examples(80), NAMES)
    assert weights["telling"] > 1
    assert weights["telling"] > 3 * weights.get("noise", 0)
    assert "misleading" not in weights


def test_fitting_again_gives_same() -> None:
    assert fit_weights(examples(40), NAMES) == fit_weights(examples(40), NAMES)


def test_every_set_counts_same_however_large() -> None:
    small, large = examples(10, dataset="small"), examples(10, dataset="large")
    assert fit_weights(small + large * 8, NAMES) == pytest.approx(fit_weights(small + large, NAMES), abs=0.1)


def test_questions_without_right_candidate_do_not_change_weights() -> None:
    lost = [Example("set", "lost", e.keys, e.features, np.zeros(10, np.bool_)) for e in examples(5)]
    assert fit_weights(examples(20) + lost, NAMES) == fit_weights(examples(20), NAMES)
    assert fit_weights(lost, NAMES) == dict.fromkeys(NAMES, 0.0)


def test_features_that_question_lacks_count_as_zero() -> None:
    made = examples(20)
    made.append(Example("set", "bare", made[0].keys, {"telling": made[0].features["telling"]}, made[0].right))
    assert fit_weights(made, NAMES)["telling"] > 1


def test_weights_of_fold_are_fitted_without_it() -> None:
    made = examples(24, folds=2)
    odd = Example("set", "odd", made[0].keys, made[0].features, made[1].right)
    weights = leave_one_out([*made, odd], NAMES)
    assert len(weights) == 25
    assert weights[-1] == fit_weights(made, NAMES)
    assert weights[0] == weights[2] != weights[1]


def test_candidates_not_compared_are_ignored_by_fit() -> None:
    keys = np.arange(3, dtype=np.int64)
    features = {"good": np.array([0.5, 0.0, 1.0], np.float32)}
    right = np.array([True, False, False])
    compared = np.array([True, True, False])
    whole = fit_weights([Example("set", "f", keys, features, right)] * 4, ["good"])
    part = fit_weights([Example("set", "f", keys, features, right, compared)] * 4, ["good"])
    assert part["good"] > whole.get("good", 0.0)
    nothing = Example("set", "f", keys, features, right, ~right)
    assert fit_weights([nothing], ["good"]) == {"good": 0.0}


def test_fit_for_top_counts_wrong_candidates_above_right_one() -> None:
    """One feature puts a third of the right ones first by far, the other all of them just above the fifth place."""
    made = []
    for number in range(30):
        right = np.arange(12) == 0
        by_far = np.where(right, 1.0 if number % 3 == 0 else 0.0, np.linspace(0.3, 0.35, 12)).astype(np.float32)
        just = np.where(right, 0.9, np.where(np.arange(12) < 4, 1.0, 0.0)).astype(np.float32)
        made.append(Example("set", "f", np.arange(12, dtype=np.int64), {"far": by_far, "just": just}, right))
    plain, top = (fit_weights(made, ["far", "just"], for_top=for_top) for for_top in (False, True))
    assert _among_first_five(made, top) >= _among_first_five(made, plain)
    assert _among_first_five(made, top) == 30
    assert top != plain


def _among_first_five(made: list[Example], weights: Mapping[str, float]) -> int:
    fused = [(fuse(example.features, weights), example.right) for example in made]
    return sum(int((scores > scores[right].max()).sum()) < 5 for scores, right in fused)
