"""The features of a candidate, made by retrievers and rescoring, and the table that contains them. Pure.

A feature is one number per candidate. It is named here, its maker fills it in, and `search/ranking/weights.json` gives
its weight; a ranker refuses a table that lacks a feature which it weighs.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

import numpy as np

from search.retrieval.candidates import NO_ITEMS, ItemKeys, Scores


class Feature(StrEnum):
    """Features of an item."""

    PASSAGE_COSINE = "passage_cosine"  # of the item's nearest passage
    SOURCE_PASSAGE_COSINE = "source_passage_cosine"  # the best of these in the item's source
    ITEM_COSINE = "item_cosine"  # of the item's own vector, the best chunk's

    BM25 = "bm25"
    NEIGHBOUR_BM25 = "neighbour_bm25"  # the item with half of its neighbours' scores
    SOURCE_BM25 = "source_bm25"  # of the whole source
    SOURCE_BM25_RARE = "source_bm25_rare"  # with the idf squared: a long source contains every common word (ADR 7)
    SOURCE_BEST_BM25 = "source_best_bm25"  # the best item of the source
    COVERAGE = "coverage"  # the share of the query's idf that the item contains
    NEIGHBOUR_COVERAGE = "neighbour_coverage"  # the same, with the item's neighbours

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
        Feature.NEIGHBOUR_BM25,
        Feature.SOURCE_BM25,
        Feature.SOURCE_BM25_RARE,
        Feature.SOURCE_BEST_BM25,
        Feature.COVERAGE,
        Feature.NEIGHBOUR_COVERAGE,
    }
)
LATE_INTERACTION = frozenset({Feature.MAX_SIM, Feature.NEIGHBOUR_MAX_SIM, Feature.PASSAGE_MAX_SIM})
EXCHANGES = frozenset(
    {Feature.ANSWERS, Feature.ANSWERS_QUESTION, Feature.NAMED_SPEAKER, Feature.SETTLED, Feature.MAX_SIM_BEFORE}
)
UNSCALED = frozenset({Feature.ANSWERS, Feature.ANSWERS_QUESTION, Feature.NAMED_SPEAKER, Feature.SETTLED})
"""Features that are not scaled within the query: 0 means no effect, and values may exceed 1."""


@dataclass(frozen=True, slots=True)
class FeatureTable:
    """Candidates, keys sorted (n,), and a column (n,) per feature, NaN if the feature's maker did not see the item.

    `unavailable` names the features that this query does not have, such as a date that it does not name.
    `mean_item_length`, in words, is the mean over the `item_count` items of the owner; `named_share`, 0 to 1, is the
    degree to which the best candidates are conversations between people with names.
    """

    keys: ItemKeys = field(default_factory=lambda: NO_ITEMS)
    columns: Mapping[str, Scores] = field(default_factory=dict)
    unavailable: frozenset[str] = frozenset()
    mean_item_length: float = 0.0
    item_count: int = 0
    named_share: float = 0.0

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
