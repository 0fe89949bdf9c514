"""Computes the figures of a ranking with intervals, and the differences between two rankings. Pure.

Questions are resampled with replacement, so an interval shows how far other questions of the same kind would move the
figure, not how far other archives would. Source: Efron and Tibshirani, 1993, An Introduction to the Bootstrap.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from benchmarks.archives import Asked
from convmemory.evaluation.metrics import hit, recall, reciprocal_rank

DEPTH = 20
# The draws of the bootstrap.
SAMPLES = 2_000
LEVEL = 95
MEASURES = ("hit@1", "hit@5", "hit@10", "recall@10", "mrr")

Values = NDArray[np.float64]
Figures = dict[str, dict[str, float]]


@dataclass(frozen=True, slots=True)
class Interval:
    """A mean with its 95 % interval."""

    mean: float
    low: float
    high: float

    def rounded(self) -> dict[str, float]:
        return {"mean": round(self.mean, 4), "low": round(self.low, 4), "high": round(self.high, 4)}


def values_of(questions: Sequence[Asked], found: Sequence[Sequence[str]]) -> dict[str, Values]:
    """Return the measures of each question, over the first twenty turns found."""
    pairs = [(asked.right, ids[:DEPTH]) for asked, ids in zip(questions, found, strict=True)]
    measures = {
        "hit@1": [hit(right, ids, 1) for right, ids in pairs],
        "hit@5": [hit(right, ids, 5) for right, ids in pairs],
        "hit@10": [hit(right, ids, 10) for right, ids in pairs],
        "recall@10": [recall(right, ids, 10) for right, ids in pairs],
        "mrr": [reciprocal_rank(right, ids) for right, ids in pairs],
    }
    return {name: np.array(values) for name, values in measures.items()}


def quality(values: Mapping[str, Values], *, seed: int = 0) -> Figures:
    """Return the mean of each measure with its interval."""
    return {name: mean_interval(one, seed=seed).rounded() for name, one in values.items()}


def differences(this: Mapping[str, Values], other: Mapping[str, Values], *, seed: int = 0) -> Figures:
    """Return by how much `this` exceeds `other`, question by question, for each measure."""
    return {name: mean_interval(this[name] - other[name], seed=seed).rounded() for name in this}


def mean_interval(values: Values, *, seed: int = 0) -> Interval:
    """Return the mean of the values, and the interval of the means of resampled values."""
    drawn = np.random.default_rng(seed).integers(0, len(values), (SAMPLES, len(values)))
    means = values[drawn].mean(axis=1)
    low, high = np.percentile(means, [(100 - LEVEL) / 2, (100 + LEVEL) / 2])
    return Interval(float(values.mean()), float(low), float(high))


def percentiles(milliseconds: Sequence[float]) -> dict[str, float]:
    """Return the median and the 95th percentile."""
    return {f"p{share}": round(float(np.percentile(milliseconds, share)), 2) for share in (50, 95)}
