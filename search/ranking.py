"""How signals become one order. Pure: arrays in, arrays out.

A signal is an array of scores over the candidate turns, NaN where the leg that makes it did not
see the turn. Each is scaled to 0..1 within the query, then added with its weight: scaled scores keep
the margins that reciprocal ranks throw away. Source: docs/adr/0007-fusion.md.
"""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

Scores = NDArray[np.float32]

# Fitted on development sets only, by `manage.py fit_ranking`.
HYBRID_WEIGHTS: Mapping[str, float] = {"turn": 1.0, "lexical": 1.0}


def scale(scores: Scores) -> Scores:
    """Min-max scaled to 0..1; unseen turns get 0, equal scores all get 1."""
    seen = ~np.isnan(scores)
    if not seen.any():
        return np.zeros_like(scores)
    low, high = float(np.nanmin(scores)), float(np.nanmax(scores))
    if not seen.all():
        low = min(low, 0.0) if low > 0 else low
    spread = high - low
    scaled = np.ones_like(scores) if spread <= 0 else (scores - low) / spread
    return np.where(seen, scaled, 0.0).astype(np.float32)


def fuse(signals: Mapping[str, Scores], weights: Mapping[str, float]) -> Scores:
    """The weighted sum of the scaled signals; signals without a weight do not count."""
    size = len(next(iter(signals.values())))
    total = np.zeros(size, dtype=np.float32)
    for name, scores in signals.items():
        if weight := weights.get(name):
            total += np.float32(weight) * scale(scores)
    return total


def inverse_document_frequency(found_in: NDArray[np.int64], documents: int) -> Scores:
    """BM25's idf, never negative: ln(1 + (N - df + .5) / (df + .5))."""
    return np.log1p((documents - found_in + 0.5) / (found_in + 0.5)).clip(min=0).astype(np.float32)


def best_first(scores: Scores, keys: NDArray[np.int64]) -> NDArray[np.int64]:
    """Indices from the highest score to the lowest; ties in a fixed order, the newest first."""
    return np.lexsort((-keys, -scores))
