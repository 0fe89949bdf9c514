"""Candidates: items as 64-bit keys of arrays, and the table of their features. Pure."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from convmemory.core.numbers import MAX_BIGINT

ITEM_BITS = 24
ITEM_MASK = (1 << ITEM_BITS) - 1

Ints = NDArray[np.int64]
ItemKeys = NDArray[np.int64]
Scores = NDArray[np.float32]
NO_ITEMS: ItemKeys = np.empty(0, np.int64)


def item_keys(source_ids: Sequence[int] | ItemKeys, item_numbers: Sequence[int] | ItemKeys) -> ItemKeys:
    """Return keys of items, sorted like (source, item)."""
    return (np.asarray(source_ids, dtype=np.int64) << ITEM_BITS) | np.asarray(item_numbers, dtype=np.int64)


def split_keys(keys: ItemKeys) -> tuple[list[int], list[int]]:
    """Return the source ids and item numbers of the keys."""
    return (keys >> ITEM_BITS).tolist(), (keys & ((1 << ITEM_BITS) - 1)).tolist()


def distinct(keys: ItemKeys) -> ItemKeys:
    """Return the distinct keys, sorted, without numpy's hash table, which is slower."""
    # The stable sort merges runs that are sorted already.
    ordered = np.sort(keys, kind="stable")
    kept: ItemKeys = np.concatenate([ordered[:1], ordered[1:][ordered[1:] != ordered[:-1]]])
    return kept


def are_among(items: ItemKeys, keys: ItemKeys) -> NDArray[np.bool_]:
    """Return whether each of `items` is one of `keys` (sorted).

    numpy's `isin` would sort both once more.
    """
    if not len(keys):
        return np.zeros(len(items), np.bool_)
    inside: NDArray[np.bool_] = keys[np.minimum(np.searchsorted(keys, items), len(keys) - 1)] == items
    return inside


def spread_all(
    keys: ItemKeys, items: ItemKeys, features: Mapping[str, Scores], *, unseen: float = np.nan
) -> dict[str, Scores]:
    """Align several features of `items` with one look-up; `unseen` for keys that were not found."""
    if len(keys) == len(items) and np.array_equal(keys, items):
        return {name: scores.astype(np.float32) for name, scores in features.items()}
    columns = {name: np.full(len(keys), unseen, dtype=np.float32) for name in features}
    if len(keys) and len(items):
        places = np.searchsorted(keys, items)
        places[places == len(keys)] = 0
        inside = keys[places] == items
        places = places[inside]
        for name, scores in features.items():
            columns[name][places] = scores[inside]
    return columns


def ranks_within(counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the rank of each row within its group, from 0; groups of these sizes follow each other."""
    ranks: NDArray[np.int64] = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    return ranks


def group_starts(groups: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the index at which each run of equal values begins, in a third of the time of `np.diff`."""
    begins = np.ones(len(groups), np.bool_)
    np.not_equal(groups[1:], groups[:-1], out=begins[1:])
    return np.flatnonzero(begins)


def source_starts(keys: ItemKeys) -> NDArray[np.int64]:
    """Return the index in `keys` (sorted) at which each source begins."""
    return group_starts(keys >> ITEM_BITS)


def best_of_source(keys: ItemKeys, scores: Scores) -> Scores:
    """Return for each item (keys sorted) the best score of any item in its source."""
    if not len(keys):
        return scores
    starts = source_starts(keys)
    best: Scores = np.repeat(np.maximum.reduceat(scores, starts), np.diff(starts, append=len(keys)))
    return best


def put_first(order: NDArray[np.int64], keys: ItemKeys, placed: Sequence[int]) -> NDArray[np.int64]:
    """`order` (indices into the sorted `keys`) with the distinct items `placed` first; unknown ones are ignored."""
    first_keys = np.array([key for key in placed if key <= MAX_BIGINT], dtype=np.int64)
    if not len(first_keys) or not len(keys):
        return order
    places = np.minimum(np.searchsorted(keys, first_keys), len(keys) - 1)
    first = places[keys[places] == first_keys]
    return np.concatenate([first, order[~np.isin(order, first)]])


def known(scores: Scores) -> Scores:
    """Return the scores with 0 in place of NaN, in a fifth of the time that numpy's own function takes."""
    return np.where(np.isnan(scores), np.float32(0), scores)


def median(values: Scores) -> float:
    """Return the median of at least one value, in half of numpy's time for a few hundred values."""
    middle = len(values) // 2
    if len(values) % 2:
        return float(np.partition(values, middle)[middle])
    return float(np.partition(values, (middle - 1, middle))[middle - 1 : middle + 1].mean())


# A feature is one number per candidate. Its maker (a retriever or the rescoring) fills it in, and
# `search/ranking/weights.json` gives its weight; a ranker refuses a table that lacks a feature which it weighs.
class Feature(StrEnum):
    """Features of an item."""

    PASSAGE_COSINE = "passage_cosine"  # of the item's nearest passage
    SOURCE_PASSAGE_COSINE = "source_passage_cosine"  # the best of these in the item's source
    ITEM_COSINE = "item_cosine"  # of the item's own vector, the best chunk's

    BM25 = "bm25"
    SOURCE_BM25 = "source_bm25"  # of the whole source
    SOURCE_BEST_BM25 = "source_best_bm25"  # the best item of the source
    COVERAGE = "coverage"  # the share of the query's idf that the item contains
    NEIGHBOUR_COVERAGE = "neighbour_coverage"  # the same, with the item's neighbours

    # The share of the query's idf that stands outside of turns, in text that has no vector. No ranker weighs it.
    ASIDE_COVERAGE = "aside_coverage"

    DATE = "date"  # closeness to a date that the query names

    MAX_SIM = "max_sim"
    NEIGHBOUR_MAX_SIM = "neighbour_max_sim"  # with the item's neighbours
    PASSAGE_MAX_SIM = "passage_max_sim"  # of the best single passage

    ANSWERS = "answers"  # MaxSim of the question at the end of the item before
    ANSWERS_QUESTION = "answers_question"  # the same, only if it stands out and the query is a question
    NAMED_SPEAKER = "named_speaker"  # MaxSim of the named speaker's words, with the question before them
    SETTLED = "settled"  # how little of its score rests on a question that it leaves open
    MAX_SIM_BEFORE = "max_sim_before"  # MaxSim, the item before included


class MessageFeature(StrEnum):
    """Features of a message among the messages of the best items."""

    COSINE = "cosine"
    NEIGHBOUR_COSINE = "neighbour_cosine"
    MAX_SIM = "max_sim"
    NEIGHBOUR_MAX_SIM = "neighbour_max_sim"
    PASSAGE_MAX_SIM = "passage_max_sim"
    WORD_COVERAGE = "word_coverage"
    BM25 = "bm25"
    SPEAKER = "speaker"  # the query names the speaker
    ANSWERS = "answers"  # MaxSim of the question that the message before asks
    ITEM_SCORE = "item_score"  # the score of the message's item
    NEIGHBOUR_ITEM_SCORE = "neighbour_item_score"


DENSE = frozenset({Feature.PASSAGE_COSINE, Feature.SOURCE_PASSAGE_COSINE, Feature.ITEM_COSINE})
LEXICAL = frozenset(
    {
        Feature.BM25,
        Feature.SOURCE_BM25,
        Feature.SOURCE_BEST_BM25,
        Feature.COVERAGE,
        Feature.NEIGHBOUR_COVERAGE,
    }
)
LATE_INTERACTION = frozenset({Feature.MAX_SIM, Feature.NEIGHBOUR_MAX_SIM, Feature.PASSAGE_MAX_SIM})
EXCHANGES = frozenset(
    {Feature.ANSWERS, Feature.ANSWERS_QUESTION, Feature.NAMED_SPEAKER, Feature.SETTLED, Feature.MAX_SIM_BEFORE}
)
NEED_VECTORS = DENSE | LATE_INTERACTION | {Feature.MAX_SIM_BEFORE}
"""Scaled features that an item without a vector lacks."""
UNSCALED = frozenset({Feature.ANSWERS, Feature.ANSWERS_QUESTION, Feature.NAMED_SPEAKER, Feature.SETTLED})
"""Features that are not scaled within the query: 0 means no effect, and values may exceed 1."""


@dataclass(frozen=True, slots=True)
class FeatureTable:
    """Candidates, keys sorted (n,), and a column (n,) per feature, NaN if the feature's maker did not see the item.

    `unavailable` names the features that this query does not have, such as a date that it does not name.
    `mean_item_length`, in words, is the mean over the `item_count` items of the owner; `named_share`, 0 to 1, is the
    degree to which the best candidates are conversations between people with names. `imputed` (n,), from 0 to 1,
    replaces the scaled features that a candidate lacks because it has no vector; 0 for the others, None if none lacks
    them.
    """

    keys: ItemKeys = field(default_factory=lambda: NO_ITEMS)
    columns: Mapping[str, Scores] = field(default_factory=dict)
    unavailable: frozenset[str] = frozenset()
    mean_item_length: float = 0.0
    item_count: int = 0
    named_share: float = 0.0
    imputed: Scores | None = None

    def with_columns(self, columns: Mapping[str, Scores], *, of: Collection[str]) -> "FeatureTable":
        """Return the table with further columns; features `of` a maker that are missing become unavailable."""
        missing = frozenset(of) - columns.keys()
        return replace(self, columns={**self.columns, **columns}, unavailable=self.unavailable | missing)

    @property
    def similarities(self) -> Scores:
        """Return (n,) from 0 to 1: the better cosine of the item and its nearest passage, 0 if no vector was
        compared.
        """
        nothing = np.zeros(len(self.keys), np.float32)
        cosines = [self.columns[name] for name in (Feature.PASSAGE_COSINE, Feature.ITEM_COSINE) if name in self.columns]
        best: Scores = np.fmax.reduce([nothing, *cosines]).clip(max=1)
        return best
