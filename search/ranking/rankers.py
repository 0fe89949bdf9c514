"""Rankers: from a table of features to one score a candidate.

To add one, write a class with `features` and `score`, and name it in `Rankers` in `search/pipeline.py`.
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

LONG_ITEM_WORDS, STEEPNESS = 350, 4  # items of so many words lie half way between two tables of weights


class MissingFeature(ConvMemoryError):
    """A ranker weighs a feature that nothing has made for this table."""


class Ranker(Protocol):
    """Scores candidates by their features."""

    @property
    def features(self) -> Collection[str]:
        """The features that it weighs."""

    def score(self, table: FeatureTable) -> Scores:
        """A score (n,) for each candidate, the higher the better. Raises: MissingFeature."""


@dataclass(frozen=True, slots=True)
class LinearRanker:
    """The weighted sum of scaled features; what this query has not got counts as 0."""

    weights: Weights

    @property
    def features(self) -> Collection[str]:
        return self.weights.keys()

    def score(self, table: FeatureTable) -> Scores:
        require_features(table, self.features)
        return fuse(table.columns, self.weights) if table.columns else np.zeros(len(table.keys), np.float32)


@dataclass(frozen=True, slots=True)
class BlendedRanker:
    """Between tables of weights by what the archive is like, without a step.

    `short` and `long` are for items of few and of many words; `people` is for what people with names say to each other.
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
        """The weights for items of this mean length, in words, and for speech of which so much is named."""
        by_length = blend(self.short, self.long, long_share(mean_item_length))
        return blend(by_length, self.people, named_share)


def blend(first: Weights, second: Weights, share: float) -> Weights:
    """So much of the second table, and of the first what is left."""
    names = sorted(first.keys() | second.keys())
    return {name: (1 - share) * first.get(name, 0.0) + share * second.get(name, 0.0) for name in names}


def long_share(mean_item_length: float) -> float:
    """How far items of this mean length, in words, count as long: 0 to 1, without a step.

    Chats of 60 words a turn have .001, questions to an assistant with 140 .02, agents' runs with 760 .96.
    """
    length, middle = max(mean_item_length, 0.0) ** STEEPNESS, float(LONG_ITEM_WORDS**STEEPNESS)
    return length / (length + middle)


def require_features(table: FeatureTable, features: Collection[str]) -> None:
    """Raises: MissingFeature if one is neither a column nor known to be unavailable."""
    if missing := set(features) - table.columns.keys() - table.unavailable:
        raise MissingFeature(f"Nothing has made {', '.join(sorted(missing))} for this ranking.")
