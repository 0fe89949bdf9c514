"""Blends a reranker's score with the fused score. Pure.

The reranker's weight is fitted on labelled questions. A reranker whose gain is not significant gets weight 0, so that a
bad one does no harm; the weight is also capped, so that even the best does not decide alone.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from search.ranking.rankers import scale
from search.retrieval.candidates import Scores

WEIGHTS = (0.0, 0.05, 0.1, 0.2, 0.3, 0.5, 0.75, 1.0, 1.5, 2.0)
"""The weights that a fit tries."""

UNFITTED_WEIGHT = 0.3
"""The weight of a reranker without a fit: it decides between hits with about equal scores."""

# Each fold is judged with the weight that the other folds ask for (ADR 62).
FOLDS = 10
# The draws of the bootstrap behind the 95 % interval (ADR 62).
RESAMPLES = 2_000
# Scores are clipped to this, so that differences of them stay finite in single precision.
LARGEST = 1e30


@dataclass(frozen=True, slots=True)
class Reranked:
    """A question's best hits in the fused order: their fused and reranker scores, and which of them are right.

    `fold` names the group of questions that is left out together.
    """

    fold: str
    fused: Scores
    reranked: Scores
    right: NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class WeightFit:
    """The weight to use, the number of questions it was fitted on, and its gain in mean reciprocal rank.

    `before` is the mean without the reranker, `after` with weights fitted without the question's fold; `low` to `high`
    is the 95 % interval of the difference.
    """

    weight: float
    questions: int
    before: float
    after: float
    low: float
    high: float


def as_scores(scores: Sequence[float]) -> Scores:
    """Return a reranker's scores, which may be on any scale, clipped to finite numbers."""
    return np.asarray(scores, np.float64).clip(-LARGEST, LARGEST).astype(np.float32)


def blended_order(fused: Scores, reranked: Scores, weight: float) -> NDArray[np.int64]:
    """Return indices, best first, of hits given in the fused order; with weight 0 the order stays.

    Both scores are scaled to 0..1 among these hits. A hit that diversity moved to the front keeps its place.
    """
    # The running minimum: a hit placed first for diversity counts as good as the hits behind it.
    total = scale(np.minimum.accumulate(fused)) + np.float32(weight) * scale(reranked)
    return np.argsort(-total, kind="stable")


def fit_weight(questions: Sequence[Reranked]) -> WeightFit:
    """Return the weight with the best mean reciprocal rank; 0 if the gain on left-out folds may be chance."""
    values = np.array([[_reciprocal_rank(question, weight) for weight in WEIGHTS] for question in questions])
    # The fold in which each question is left out; a single group is split by turns.
    names = sorted({question.fold for question in questions})
    places = range(len(questions)) if len(names) == 1 else [names.index(question.fold) for question in questions]
    folds = np.array(places) % FOLDS
    honest = np.zeros(len(questions))
    for fold in np.unique(folds):
        others = values[folds != fold]
        honest[folds == fold] = values[folds == fold, int(others.mean(axis=0).argmax()) if len(others) else 0]
    before = values[:, 0]
    # The 95 % bootstrap interval of the mean gain; the same at each call.
    chosen = np.random.default_rng(0).integers(0, len(questions), (RESAMPLES, len(questions)))
    low, high = map(float, np.quantile((honest - before)[chosen].mean(axis=1), [0.025, 0.975]))
    weight = WEIGHTS[int(values.mean(axis=0).argmax())] if low > 0 else 0.0
    return WeightFit(weight, len(questions), float(before.mean()), float(honest.mean()), low, high)


def _reciprocal_rank(question: Reranked, weight: float) -> float:
    places = np.flatnonzero(question.right[blended_order(question.fused, question.reranked, weight)])
    return 1 / (int(places[0]) + 1) if len(places) else 0.0
