"""Measures of rankings: of each question, as means and with intervals. Pure.

Questions are resampled with replacement, so an interval shows how far other questions of the same kind would move the
figure, not how far other archives would. Source: Efron and Tibshirani, 1993, An Introduction to the Bootstrap.
"""

import math
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from statistics import fmean

import numpy as np
from numpy.typing import NDArray

CUTOFFS = (1, 5, 10, 20)
DEPTH = 20
"""The number of hits that are measured, if a protocol does not measure all of them."""
# The draws of the bootstrap.
SAMPLES = 2_000
MEASURES = ("hit@1", "hit@5", "hit@10", "recall@10", "mrr")
"""The measures of the comparison with other systems, which have intervals."""

Row = dict[str, float]
"""The measures of a question, or their means."""
Values = NDArray[np.float64]
"""A measure of all questions, in order."""
Figures = dict[str, dict[str, float]]


def recall(right: Collection[Hashable], ranked: Sequence[Hashable], k: int) -> float:
    """Return the share of the right results among the first k."""
    return len(set(right) & set(ranked[:k])) / len(right) if right else 0.0


def hit(right: Collection[Hashable], ranked: Sequence[Hashable], k: int) -> float:
    """Return 1 if any right result is among the first k, otherwise 0."""
    return float(not set(right).isdisjoint(ranked[:k]))


def reciprocal_rank(right: Collection[Hashable], ranked: Sequence[Hashable]) -> float:
    """Return 1 over the rank of the first right result, 0 if none was found."""
    return next((1 / rank for rank, result in enumerate(ranked, 1) if result in right), 0.0)


def ndcg(right: Collection[Hashable], ranked: Sequence[Hashable], k: int) -> float:
    """Return the discounted gain of the first k over that of the best possible order.

    Source: Järvelin and Kekäläinen, 2002.
    """
    ideal = _discounted(range(1, min(len(right), k) + 1))
    return _discounted(rank for rank, result in enumerate(ranked[:k], 1) if result in right) / ideal if ideal else 0.0


def _discounted(ranks: Iterable[int]) -> float:
    return sum(1 / math.log2(rank + 1) for rank in ranks)


def measures(right: Collection[Hashable], ranked: Sequence[Hashable], cutoffs: Sequence[int] = CUTOFFS) -> Row:
    """Return the measures of one question from its right results and the results found, best first."""
    values = {f"recall@{k}": recall(right, ranked, k) for k in cutoffs}
    values |= {f"hit@{k}": hit(right, ranked, k) for k in cutoffs}
    return values | {"mrr": reciprocal_rank(right, ranked), "ndcg@10": ndcg(right, ranked, 10)}


def means(rows: Sequence[Mapping[str, float]]) -> Row:
    """Return the mean of each measure over the questions, to four digits."""
    return {name: round(fmean(row[name] for row in rows), 4) for name in rows[0]} if rows else {}


def values_of(
    questions: Iterable[tuple[Collection[Hashable], Sequence[Hashable]]],
) -> dict[str, Values]:
    """Return the measures of all questions, from their right results and the first twenty of those found."""
    rows = [measures(right, ranked[:DEPTH]) for right, ranked in questions]
    return {name: np.array([row[name] for row in rows]) for name in MEASURES}


def quality(values: Mapping[str, Values]) -> Figures:
    """Return the mean of each measure with its interval."""
    return {name: mean_interval(one) for name, one in values.items()}


def differences(this: Mapping[str, Values], other: Mapping[str, Values]) -> Figures:
    """Return by how much `this` exceeds `other`, question by question, for each measure."""
    return quality({name: this[name] - other[name] for name in this})


def mean_interval(values: Values) -> Row:
    """Return the mean of the values, and the interval of the means of resampled values; the same at each call."""
    drawn = np.random.default_rng(0).integers(0, len(values), (SAMPLES, len(values)))
    low, high = np.percentile(values[drawn].mean(axis=1), [2.5, 97.5])
    return {name: round(float(value), 4) for name, value in (("mean", values.mean()), ("low", low), ("high", high))}


def percentiles(milliseconds: Sequence[float]) -> dict[str, float]:
    """Return the median and the 95th percentile."""
    return {f"p{share}": round(float(np.percentile(milliseconds, share)), 2) for share in (50, 95)}
