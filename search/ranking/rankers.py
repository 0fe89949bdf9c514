"""Rankers: from a table of features to one score a candidate.

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
        """The weights for items of this mean length, in words, with this share of named speech."""
        by_length = blend(self.short, self.long, long_share(mean_item_length))
        return blend(by_length, self.people, named_share)


def blend(first: Weights, second: Weights, share: float) -> Weights:
    """The second table with weight `share`, and the first with the rest."""
    names = sorted(first.keys() | second.keys())
    return {name: (1 - share) * first.get(name, 0.0) + share * second.get(name, 0.0) for name in names}


def long_share(mean_item_length: float) -> float:
    """To what degree items of this mean length, in words, count as long: 0 to 1, without a step.

    Chats of 60 words a turn have .001, questions to an assistant with 140 .02, agents' runs with 760 .96.
    """
    length, middle = max(mean_item_length, 0.0) ** STEEPNESS, float(LONG_ITEM_WORDS**STEEPNESS)
    return length / (length + middle)


def require_features(table: FeatureTable, features: Collection[str]) -> None:
    """Raises: MissingFeature if one is neither a column nor known to be unavailable."""
    if missing := set(features) - table.columns.keys() - table.unavailable:
        raise MissingFeature(f"Nothing has made {', '.join(sorted(missing))} for this ranking.")
