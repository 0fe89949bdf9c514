"""Blending a reranker's score with the fused one: the order, and the weight fitted to labelled questions."""

import numpy as np
from numpy.testing import assert_array_equal

from search.ranking.blending import WEIGHTS, Reranked, as_scores, blended_order, fit_weight
from search.retrieval.candidates import Scores

HITS = 10


def scores(*values: float) -> Scores:
    return np.array(values, np.float32)


def questions(skill: float, count: int = 200) -> list[Reranked]:
    """Questions whose right hit stands anywhere among ten about equal ones; a reranker of skill 1 always knows it."""
    random = np.random.default_rng(7)
    found = []
    for number in range(count):
        right = np.arange(HITS) == random.integers(HITS)
        knows = random.random() < skill
        fused = np.sort(random.random(HITS) * 0.2 + (random.random() < 0.5) * right)[::-1]
        reranked = random.random(HITS) + (right if knows else 0)
        found.append(
            Reranked(f"conversation {number % 8}", fused.astype(np.float32), as_scores(reranked.tolist()), right)
        )
    return found


def test_reranker_of_weight_zero_keeps_fused_order() -> None:
    assert_array_equal(blended_order(scores(3, 2, 1), scores(0, 5, 9), 0.0), [0, 1, 2])


def test_hit_that_diversity_put_first_stays_there_without_weight() -> None:
    assert_array_equal(blended_order(scores(3, 1, 2), scores(1, 1, 1), 0.0), [0, 1, 2])


def test_hits_that_are_about_as_good_are_put_in_order_and_others_are_not() -> None:
    assert_array_equal(blended_order(scores(9, 8.9, 1), scores(0, 0.5, 1), 0.3), [1, 0, 2])


def test_scale_of_reranker_does_not_matter() -> None:
    fused, reranked = scores(3, 2.9, 2.8), np.array([0.1, 0.3, 0.2])
    assert_array_equal(blended_order(fused, as_scores(reranked.tolist()), 1.0), [1, 0, 2])
    assert_array_equal(blended_order(fused, as_scores((reranked * 1e25 - 5).tolist()), 1.0), [1, 0, 2])


def test_blending_handles_largest_floats() -> None:
    assert_array_equal(blended_order(scores(3, 3, 3), as_scores([1e308, -1e308, 0.0]), 1.0), [0, 2, 1])


def test_equal_scores_keep_fused_order() -> None:
    assert_array_equal(blended_order(scores(3, 2, 1), as_scores([7.0, 7.0, 7.0]), 2.0), [0, 1, 2])


def test_skilled_reranker_gets_weight_and_certain_gain() -> None:
    fit = fit_weight(questions(skill=0.9))
    assert fit.weight > 0
    assert fit.low > 0
    assert fit.after > fit.before


def test_random_reranker_gets_weight_zero() -> None:
    rows = [Reranked(q.fold, q.fused, q.reranked, np.arange(HITS) == 0) for q in questions(skill=0.0)]
    fit = fit_weight(rows)
    assert fit.weight == 0
    assert fit.after <= fit.before


def test_reranker_weights_are_at_most_two() -> None:
    assert max(WEIGHTS) <= 2


def test_question_without_its_answer_among_hits_has_no_effect() -> None:
    nothing = [Reranked("a", scores(1, 0.5), scores(0, 1), np.zeros(2, np.bool_))] * 3
    fit = fit_weight(nothing)
    assert (fit.weight, fit.before, fit.after) == (0, 0, 0)
