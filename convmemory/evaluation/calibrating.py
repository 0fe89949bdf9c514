"""Fits the calibration of relevance by logistic regression, and measures probabilities. Pure.

Newton's method on the weighted log loss with L2 on standardised columns; the resulting weights apply to the original
columns.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from convmemory.evaluation.fitting import GROUPS

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]

# Newton's method: the penalty, the most steps, and the change at which it stops.
L2, STEPS, ENOUGH = 1e-3, 60, 1e-9
DRAWS, SEED = 2_000, 7


@dataclass(frozen=True, slots=True)
class Logistic:
    """The logarithm of odds: `intercept` and the sum of columns times `weights` (k,)."""

    intercept: float
    weights: Floats

    def probability(self, columns: Floats) -> Floats:
        """Return the probability for each row of (n, k)."""
        found: Floats = 1 / (1 + np.exp(-np.clip(self.intercept + columns @ self.weights, -30, 30)))
        return found


def fit_logistic(columns: Floats, truth: Mask, shares: Floats) -> Logistic:
    """Fit rows (n, k) with weights `shares` (n,); if all are true or all false, the columns get no weight."""
    if not 0 < truth.sum() < len(truth):
        prior = (float(truth.sum()) + 0.5) / (len(truth) + 1)
        return Logistic(float(np.log(prior / (1 - prior))), np.zeros(columns.shape[1]))
    mean, spread = columns.mean(axis=0), np.maximum(columns.std(axis=0), ENOUGH)
    rows = np.column_stack([np.ones(len(columns)), (columns - mean) / spread])
    counts, found = shares / shares.sum(), np.zeros(rows.shape[1])
    penalty = np.full(len(found), L2)
    penalty[0] = 0.0
    for _ in range(STEPS):
        chance = 1 / (1 + np.exp(-np.clip(rows @ found, -30, 30)))
        slope = rows.T @ (counts * (chance - truth)) + penalty * found
        curve = (rows * (counts * chance * (1 - chance))[:, None]).T @ rows + np.diag(penalty + ENOUGH)
        step = np.linalg.solve(curve, slope)
        found -= step
        if np.abs(step).max() < ENOUGH:
            break
    weights = found[1:] / spread
    return Logistic(float(found[0] - weights @ mean), weights)


def left_out(columns: Floats, truth: Mask, shares: Floats, folds: Sequence[str]) -> Floats:
    """Return the probability of each row, from a fit without any row of its group of folds."""
    names = sorted(set(folds))
    groups = np.array([names.index(fold) % GROUPS for fold in folds], np.int64)
    found = np.zeros(len(truth))
    for group in np.unique(groups):
        inside = groups == group
        fitted = fit_logistic(columns[~inside], truth[~inside], shares[~inside])
        found[inside] = fitted.probability(columns[inside])
    return found


def area_under_curve(scores: Floats, truth: Mask) -> float:
    """Return the probability that a true row scores higher than a false one."""
    ranks = np.argsort(np.argsort(scores, kind="stable"), kind="stable") + 1.0
    _, group, counts = np.unique(scores, return_inverse=True, return_counts=True)
    ranks = (np.bincount(group, ranks) / counts)[group]
    right, wrong = int(truth.sum()), int((~truth).sum())
    return float((ranks[truth].sum() - right * (right + 1) / 2) / (right * wrong)) if right and wrong else float("nan")


def share_with_interval(hits: Mask) -> tuple[float, float, float]:
    """Return the share of true values with its 95 % interval. Source: Wilson, 1927."""
    count, share, z = len(hits), float(hits.mean()) if len(hits) else 0.0, 1.96
    if not count:
        return 0.0, 0.0, 1.0
    middle = (share + z * z / (2 * count)) / (1 + z * z / count)
    half = z / (1 + z * z / count) * float(np.sqrt(share * (1 - share) / count + z * z / (4 * count * count)))
    return share, max(0.0, middle - half), min(1.0, middle + half)
