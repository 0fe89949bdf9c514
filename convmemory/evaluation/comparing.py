"""Compares two rankings of the same questions by the difference of their means with an interval. Pure.

Questions of one conversation are not independent evidence, so whole conversations are resampled (a cluster bootstrap).
Source: Field and Welsh, 2007, Bootstrapping clustered data.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

SAMPLES = 2_000
LEVEL = 95
"""The percentage of resampled differences within the interval."""

MIN_CLUSTERS = 10
"""With fewer conversations an interval is too narrow to be trusted."""


@dataclass(frozen=True, slots=True)
class Difference:
    """The mean of `other - this` over the questions, and the interval from `low` to `high`."""

    mean: float
    low: float
    high: float
    clusters: int

    @property
    def verdict(self) -> str:
        if self.clusters < MIN_CLUSTERS:
            return "too few conversations to tell"
        if self.low > 0:
            return "better here"
        if self.high < 0:
            return "worse here"
        return "not told apart"


def paired_difference(
    this: Sequence[float], other: Sequence[float], clusters: Sequence[int], *, seed: int = 0
) -> Difference:
    """Compare values of the same questions in the same order; `clusters` names the conversation of each."""
    differences = np.asarray(other, float) - np.asarray(this, float)
    names, places = np.unique(np.asarray(clusters), return_inverse=True)
    sums, counts = np.bincount(places, differences), np.bincount(places)
    drawn = np.random.default_rng(seed).integers(0, len(names), (SAMPLES, len(names)))
    means = sums[drawn].sum(axis=1) / counts[drawn].sum(axis=1)
    low, high = np.percentile(means, [(100 - LEVEL) / 2, (100 + LEVEL) / 2])
    return Difference(float(differences.mean()), float(low), float(high), len(names))
