"""Fits the weights of the fusion and the calibration of relevance. Pure.

The loss of a question is the negative logarithm of the probability that the softmax of its fused scores gives to all
its right turns together, plus L2; each data set counts the same, however many questions it has. Weights are never
negative, so that each can be read as an amount of evidence. Adam minimises the loss.

If only the first few results matter, the fit continues with a second loss added: a smooth count of the wrong turns
above the best right one, with most weight on those that keep it out of the first five. Source:
docs/adr/0007-linear-fusion-of-scaled-features.md.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from search.ranking.rankers import scaled
from search.retrieval.candidates import ItemKeys, Scores

# The steps, their size, and the penalty on large weights.
STEPS, RATE, L2 = 250, 0.05, 1e-4
# The same for the fit for the first places, and the share of its loss.
TOP_STEPS, TOP_RATE, TOP_WEIGHT = 300, 0.02, 8.0
# The number of wrong turns above the best right one at which the loss rises most, and the steepness of that rise.
TOP_K, SOFTNESS = 4.5, 1.5
NEAR = 0.2  # scores that differ by less count as nearly equal
GROUPS = 10  # the number of fits for a set with more folds
SMALL = 0.05  # a smaller weight is left out
# The usual parameters of Adam.
DECAY_MEAN, DECAY_SQUARE, TINY = 0.9, 0.999, 1e-8

Weights = dict[str, float]

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]

# Newton's method: the penalty, the most steps, and the change at which it stops.
CALIBRATION_L2, CALIBRATION_STEPS, ENOUGH = 1e-3, 60, 1e-9
DRAWS, SEED = 2_000, 7


@dataclass(frozen=True, slots=True)
class Example:
    """One question: its candidates' features, unscaled, which candidates are right, its set and its fold.

    If `compared` is given, only these candidates enter the softmax; features are scaled over all candidates.
    """

    dataset: str
    fold: str
    keys: ItemKeys
    features: Mapping[str, Scores]
    right: NDArray[np.bool_]
    compared: NDArray[np.bool_] | None = None

    @property
    def within(self) -> NDArray[np.bool_]:
        """Return which candidates are compared."""
        return np.ones(len(self.keys), np.bool_) if self.compared is None else self.compared


@dataclass(frozen=True, slots=True)
class _Batch:
    """All questions padded to one shape: (q, n, k) features, (q, n) right and present, (q,) shares that sum to 1."""

    features: Scores
    right: NDArray[np.bool_]
    present: NDArray[np.bool_]
    shares: Scores


def fit_weights(examples: Sequence[Example], names: Sequence[str], *, for_top: bool = False) -> Weights:
    """Return weights for those features of `names` that count; a question without a right candidate is ignored."""
    usable = [example for example in examples if (example.right & example.within).any()]
    if not usable:
        return dict.fromkeys(names, 0.0)
    shape = (len(usable), max(len(example.keys) for example in usable))
    features = np.zeros((*shape, len(names)), np.float32)
    right, present = np.zeros(shape, np.bool_), np.zeros(shape, np.bool_)
    for row, example in enumerate(usable):
        count = len(example.keys)
        right[row, :count] = example.right & example.within
        present[row, :count] = example.within
        for column, name in enumerate(names):
            if name in example.features:
                features[row, :count, column] = scaled(name, example.features[name])
    sets = [example.dataset for example in usable]
    shares = np.array([1 / sets.count(name) for name in sets], np.float32)
    batch = _Batch(features, right, present, shares / shares.sum())
    weights = _descend(np.ones(len(names), np.float32), partial(_gradient, batch), STEPS, RATE)
    if for_top:
        weights = _descend(weights, partial(_gradient_with_top_loss, batch), TOP_STEPS, TOP_RATE)
    return {name: round(float(weight), 2) for name, weight in zip(names, weights, strict=True) if weight >= SMALL}


def _descend(weights: Scores, gradient_at: Callable[[Scores], NDArray[np.float64]], steps: int, rate: float) -> Scores:
    """Minimise by Adam, with weights kept from becoming negative."""
    mean, square = np.zeros(len(weights)), np.zeros(len(weights))
    for step in range(1, steps + 1):
        gradient = gradient_at(weights)
        mean = DECAY_MEAN * mean + (1 - DECAY_MEAN) * gradient
        square = DECAY_SQUARE * square + (1 - DECAY_SQUARE) * gradient**2
        move = mean / (1 - DECAY_MEAN**step) / (np.sqrt(square / (1 - DECAY_SQUARE**step)) + TINY)
        weights = np.maximum(weights - rate * move, 0).astype(np.float32)
    return weights


def leave_one_out(examples: Sequence[Example], names: Sequence[str], *, for_top: bool = False) -> list[Weights]:
    """Return, for each example, the weights fitted without any example of its group of folds."""
    # The fold of each example; a data set with many folds has them put into `GROUPS` groups.
    folds = {name: sorted({e.fold for e in examples if e.dataset == name}) for name in {e.dataset for e in examples}}
    groups = [(e.dataset, folds[e.dataset].index(e.fold) % GROUPS) for e in examples]
    fitted = {}
    for left_out in sorted(set(groups)):
        others = [example for example, group in zip(examples, groups, strict=True) if group != left_out]
        fitted[left_out] = fit_weights(others, names, for_top=for_top)
    return [fitted[group] for group in groups]


def _gradient(batch: _Batch, weights: Scores) -> NDArray[np.float64]:
    scores = np.where(batch.present, batch.features @ weights, -np.inf)
    exponents = np.exp(scores - scores.max(axis=1, keepdims=True))
    probability = exponents / exponents.sum(axis=1, keepdims=True)
    among_right = probability * batch.right
    target = among_right / np.maximum(among_right.sum(axis=1, keepdims=True), 1e-12)
    pull = (probability - target) * batch.shares[:, None]
    gradient: NDArray[np.float64] = pull.reshape(-1) @ batch.features.reshape(-1, len(weights)) + 2 * L2 * weights
    return gradient


def _gradient_with_top_loss(batch: _Batch, weights: Scores) -> NDArray[np.float64]:
    scores = np.where(batch.present, batch.features @ weights, -np.inf)
    rows = np.arange(len(scores))
    best = np.where(batch.right, scores, -np.inf).argmax(axis=1)
    behind = np.where(batch.present & ~batch.right, scores - scores[rows, best][:, None], -np.inf)
    above = _sigmoid(behind / NEAR)
    lost = _sigmoid((above.sum(axis=1) - TOP_K) / SOFTNESS)
    pull = (lost * (1 - lost) / SOFTNESS)[:, None] * above * (1 - above) / NEAR
    pull[rows, best] -= pull.sum(axis=1)
    pull *= batch.shares[:, None] * TOP_WEIGHT
    return _gradient(batch, weights) + pull.reshape(-1) @ batch.features.reshape(-1, len(weights))


def _sigmoid(values: NDArray[np.floating[Any]]) -> NDArray[np.float64]:
    smooth: NDArray[np.float64] = 1 / (1 + np.exp(-np.clip(values, -30.0, 30.0)))
    return smooth


@dataclass(frozen=True, slots=True)
class Logistic:
    """The logarithm of odds: `intercept` and the sum of columns times `weights` (k,)."""

    intercept: float
    weights: Floats

    def probability(self, columns: Floats) -> Floats:
        """Return the probability for each row of (n, k)."""
        probabilities: Floats = 1 / (1 + np.exp(-np.clip(self.intercept + columns @ self.weights, -30, 30)))
        return probabilities


def fit_logistic(columns: Floats, truth: Mask, shares: Floats) -> Logistic:
    """Fit rows (n, k) with weights `shares` (n,); if all are true or all false, the columns get no weight.

    Newton's method on the weighted log loss with L2 on standardised columns; the resulting weights apply to the
    original columns.
    """
    if not 0 < truth.sum() < len(truth):
        prior = (float(truth.sum()) + 0.5) / (len(truth) + 1)
        return Logistic(float(np.log(prior / (1 - prior))), np.zeros(columns.shape[1]))
    mean, spread = columns.mean(axis=0), np.maximum(columns.std(axis=0), ENOUGH)
    rows = np.column_stack([np.ones(len(columns)), (columns - mean) / spread])
    counts, coefficients = shares / shares.sum(), np.zeros(rows.shape[1])
    penalty = np.full(len(coefficients), CALIBRATION_L2)
    penalty[0] = 0.0
    for _ in range(CALIBRATION_STEPS):
        chance = 1 / (1 + np.exp(-np.clip(rows @ coefficients, -30, 30)))
        slope = rows.T @ (counts * (chance - truth)) + penalty * coefficients
        curve = (rows * (counts * chance * (1 - chance))[:, None]).T @ rows + np.diag(penalty + ENOUGH)
        step = np.linalg.solve(curve, slope)
        coefficients -= step
        if np.abs(step).max() < ENOUGH:
            break
    weights = coefficients[1:] / spread
    return Logistic(float(coefficients[0] - weights @ mean), weights)


def left_out(columns: Floats, truth: Mask, shares: Floats, folds: Sequence[str]) -> Floats:
    """Return the probability of each row, from a fit without any row of its group of folds."""
    names = sorted(set(folds))
    groups = np.array([names.index(fold) % GROUPS for fold in folds], np.int64)
    probabilities = np.zeros(len(truth))
    for group in np.unique(groups):
        inside = groups == group
        fitted = fit_logistic(columns[~inside], truth[~inside], shares[~inside])
        probabilities[inside] = fitted.probability(columns[inside])
    return probabilities


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


def weighted_share(hits: Mask, weights: Floats) -> tuple[float, float, float]:
    """Return the weighted share of true values with its 95 % interval, by bootstrap."""
    if not len(hits):
        return 0.0, 0.0, 1.0
    drawn = np.random.default_rng(SEED).integers(len(hits), size=(DRAWS, len(hits)))
    shares = (weights * hits)[drawn].sum(axis=1) / weights[drawn].sum(axis=1)
    low, high = np.quantile(shares, [0.025, 0.975])
    return float((weights * hits).sum() / weights.sum()), float(low), float(high)
