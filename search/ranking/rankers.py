"""Rankers turn a table of features into one score for each candidate.

To add one, write a class with `features` and `score`, and name it in `Rankers` in `search/ranking/stages.py`.
"""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from convmemory.core.errors import ConvMemoryError
from search.ranking.fusion import fuse
from search.ranking.weights import Weights
from search.retrieval.candidates import Scores
from search.retrieval.features import FeatureTable

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
        require_features(table, self.features)
        return fuse(table.columns, self.weights) if table.columns else np.zeros(len(table.keys), np.float32)


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


def require_features(table: FeatureTable, features: Collection[str]) -> None:
    """Raise MissingFeature if a feature is neither a column nor known to be unavailable."""
    if missing := set(features) - table.columns.keys() - table.unavailable:
        raise MissingFeature(f"Nothing has made {', '.join(sorted(missing))} for this ranking.")
