"""Rankers: from a table of features to one score a candidate, by the weights of `weights.json`.

To add one, write a class with `features` and `score`, and name it in `Rankers` in `search/pipeline.py`.
"""

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from convmemory.core.errors import ConvMemoryError
from search.retrieval.candidates import NEED_VECTORS, UNSCALED, FeatureTable, ItemKeys, Scores, known

Weights = Mapping[str, float]


@cache
def weights_of(table: str) -> Weights:
    """Return one table of `weights.json`, which names the features that it weighs."""
    text = resources.files("search.ranking").joinpath("weights.json").read_text(encoding="utf-8")
    weights: Weights = json.loads(text)["tables"][table]
    return weights


# At this mean length, in words, both tables of weights count half (ADR 7).
LONG_ITEM_WORDS, STEEPNESS = 350, 4


class MissingFeature(ConvMemoryError):
    """A ranker weighs a feature that the table lacks."""


class Ranker(Protocol):
    """Scores candidates by their features."""

    @property
    def features(self) -> Collection[str]:
        """Return the features that it weighs."""

    def score(self, table: FeatureTable) -> Scores:
        """Return a score (n,) for each candidate, higher is better. Raises: MissingFeature."""


@dataclass(frozen=True, slots=True)
class LinearRanker:
    """The weighted sum of scaled features; features unavailable for this query count as 0."""

    weights: Weights

    @property
    def features(self) -> Collection[str]:
        return self.weights.keys()

    def score(self, table: FeatureTable) -> Scores:
        if missing := set(self.features) - table.columns.keys() - table.unavailable:
            raise MissingFeature(f"Nothing has made {', '.join(sorted(missing))} for this ranking.")
        if not table.columns:
            return np.zeros(len(table.keys), np.float32)
        return fuse(table.columns, self.weights, imputed=table.imputed)


@dataclass(frozen=True, slots=True)
class BlendedRanker:
    """Blends tables of weights by the nature of the archive, without a step.

    `short` and `long` are for items of few and of many words; `people` is for conversations between people with names.
    """

    short: Weights
    long: Weights
    people: Weights

    @property
    def features(self) -> Collection[str]:
        return self.short.keys() | self.long.keys() | self.people.keys()

    def score(self, table: FeatureTable) -> Scores:
        return LinearRanker(self.blended(table.mean_item_length, table.named_share)).score(table)

    def blended(self, mean_item_length: float, named_share: float) -> Weights:
        """Return the weights for items of this mean length, in words, with this share of named speech."""
        by_length = blend(self.short, self.long, long_share(mean_item_length))
        return blend(by_length, self.people, named_share)


def blend(first: Weights, second: Weights, share: float) -> Weights:
    """Blend two tables: the second with weight `share`, the first with the rest."""
    names = sorted(first.keys() | second.keys())
    return {name: (1 - share) * first.get(name, 0.0) + share * second.get(name, 0.0) for name in names}


def long_share(mean_item_length: float) -> float:
    """Return how much items of this mean length, in words, count as long: 0 to 1, without a step.

    Chats of 60 words a turn have .001, questions to an assistant with 140 .02, agents' runs with 760 .96.
    """
    length, middle = max(mean_item_length, 0.0) ** STEEPNESS, float(LONG_ITEM_WORDS**STEEPNESS)
    return length / (length + middle)


Order = NDArray[np.int64]
"""Indices of candidates, the best first."""


# Each feature is scaled to 0..1 within the query, then added with its weight: scaled scores keep the margins that
# reciprocal rank fusion discards. Source: docs/adr/0007-linear-fusion-of-scaled-features.md.
def scale(scores: Scores) -> Scores:
    """Scale each row (..., n) to 0..1 by minimum and maximum; unseen items get 0, equal scores all get 1."""
    if not scores.size:
        return scores
    low, high = (reduced(scores, axis=-1, keepdims=True) for reduced in (np.fmin.reduce, np.fmax.reduce))
    spread = high - low
    scaled = np.divide(scores - low, spread, out=np.ones_like(scores), where=spread > 0)
    return np.where(np.isnan(scores), np.float32(0), scaled)


def fuse(features: Mapping[str, Scores], weights: Mapping[str, float], *, imputed: Scores | None = None) -> Scores:
    """Return the weighted sum of the scaled features; features without a weight do not count.

    `imputed` (n,) is the least value of the features that need vectors, for items that lack these.
    """
    names = [name for name in features if weights.get(name)]
    if not names:
        return np.zeros(len(next(iter(features.values()))), np.float32)
    # All rows at once: numpy takes as long for one of a few hundred values as for twenty.
    rows = np.stack([features[name] for name in names])
    needs_vector = np.array([[name in NEED_VECTORS] for name in names])
    if imputed is not None:
        rows[needs_vector & (imputed > 0) & (rows == 0)] = np.nan
    is_unscaled = np.array([[name in UNSCALED] for name in names])
    values = np.where(is_unscaled, known(rows), scale(rows))
    if imputed is not None:
        values = np.where(needs_vector, np.maximum(imputed, values), values)
    total: Scores = np.array([weights[name] for name in names], np.float32) @ values
    return total


def scaled(name: str, scores: Scores) -> Scores:
    """Return a feature as it enters the sum: scaled to 0..1 unless it needs no scaling; unseen items get 0."""
    return known(scores) if name in UNSCALED else scale(scores)


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
