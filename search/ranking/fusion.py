"""Combines features into one score, and scores into one order. Pure: arrays in, arrays out.

Each feature is scaled to 0..1 within the query, then added with its weight: scaled scores keep the margins that
reciprocal rank fusion discards. Source: docs/adr/0007-linear-fusion-of-scaled-features.md.
"""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from search.retrieval.candidates import ItemKeys, Scores
from search.retrieval.features import UNSCALED

Order = NDArray[np.int64]
"""Indices of candidates, the best first."""


def scale(scores: Scores) -> Scores:
    """Scale the scores to 0..1 by minimum and maximum; unseen items get 0, equal scores all get 1."""
    seen = ~np.isnan(scores)
    if not seen.any():
        return np.zeros_like(scores)
    low, high = float(np.fmin.reduce(scores)), float(np.fmax.reduce(scores))
    scaled = np.ones_like(scores) if high <= low else (scores - low) / (high - low)
    return (scaled if seen.all() else np.where(seen, scaled, 0.0)).astype(np.float32, copy=False)


def fuse(features: Mapping[str, Scores], weights: Mapping[str, float]) -> Scores:
    """Return the weighted sum of the scaled features; features without a weight do not count."""
    size = len(next(iter(features.values())))
    total = np.zeros(size, dtype=np.float32)
    for name, scores in features.items():
        if weight := weights.get(name):
            total += np.float32(weight) * scaled(name, scores)
    return total


def scaled(name: str, scores: Scores) -> Scores:
    """Return a feature as it enters the sum: scaled to 0..1 unless it needs no scaling; unseen items get 0."""
    return np.nan_to_num(scores).astype(np.float32) if name in UNSCALED else scale(scores)


def best_first(scores: Scores, keys: ItemKeys) -> Order:
    """Return indices from the highest score to the lowest; ties in a fixed order, the newest first."""
    order = np.argsort(-scores)
    is_less = np.diff(scores[order]) < 0
    if is_less.all():
        return order
    follows, leads = np.concatenate([[False], ~is_less]), np.concatenate([~is_less, [False]])
    # Mostly few are tied; sorting all by two keys takes several times as long.
    is_tied = follows | leads
    tied, runs = order[is_tied], np.cumsum(~follows)[is_tied]
    order[is_tied] = tied[np.lexsort((-keys[tied], -scores[tied], runs))]
    return order


def best_few(scores: Scores, keys: ItemKeys, count: int) -> Order:
    """Return the first `count` of `best_first`, without ordering the others."""
    if len(scores) <= count:
        return best_first(scores, keys)
    least = np.partition(scores, len(scores) - count)[len(scores) - count]
    high = np.flatnonzero(scores >= least)
    first: Order = high[best_first(scores[high], keys[high])][:count]
    return first


def diversify(scores: Scores, similarity: NDArray[np.float32], *, relevance: float) -> Order:
    """Return indices in the order of maximal marginal relevance (MMR).

    Each step takes the greatest `relevance * score - (1 - relevance) * max similarity`. `scores` (n,) are scaled to
    0..1 first; `similarity` (n, n) contains cosines. Source: Carbonell and Goldstein, 1998.
    """
    gains = relevance * scale(scores)
    chosen: list[int] = []
    nearest = np.zeros(len(scores), np.float32)
    for _ in range(len(scores)):
        best = int(np.argmax(gains - (1 - relevance) * nearest))
        chosen.append(best)
        gains[best] = -np.inf
        nearest = np.maximum(nearest, similarity[best])
    return np.array(chosen, dtype=np.int64)
