"""Orders candidates: a first score for all, late interaction and a second score for the best, then diversity.

Reads dates, vectors and token vectors of candidates; the rankers compute the scores.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from convmemory.core.sql import pipelined
from search.options import SearchOptions
from search.ranking.diversity import PendingItemVectors, with_diverse_top
from search.ranking.fusion import Order, best_few, best_first
from search.ranking.in_time import date_features, in_order_of_time
from search.ranking.late_features import passages_of_best, with_late_features
from search.ranking.moments import read_moments
from search.ranking.rankers import BlendedRanker, LinearRanker, Ranker
from search.ranking.relevance import Relevance, relevance_of
from search.ranking.weights import weights_of
from search.retrieval.candidates import Scores
from search.retrieval.features import EXCHANGES, LATE_INTERACTION, Feature, FeatureTable
from search.retrieval.held_words import HeldWords
from search.retrieval.prepared import PreparedQuery
from search.retrieval.retriever import Retrieved

# The number of best items by the first score that get late interaction and a second score; ADR 8 and ADR 10 measure
# with it.
RESCORED = 80


@dataclass(frozen=True, slots=True)
class Rankers:
    """The ranker of each stage. Late interaction's features exist for `hybrid` and `semantic` only."""

    first_stage: Ranker
    hybrid: Ranker
    semantic: Ranker
    full_text: Ranker
    sections: Ranker  # for `hybrid` if only documents are searched

    @property
    def features(self) -> frozenset[str]:
        """Return all features that any of the rankers weighs."""
        rankers = (self.first_stage, self.hybrid, self.semantic, self.full_text, self.sections)
        return frozenset(name for ranker in rankers for name in ranker.features)

    @classmethod
    def fitted(cls) -> "Rankers":
        """Return the rankers with the product's weights."""
        return cls(
            first_stage=LinearRanker(weights_of("first_stage")),
            hybrid=BlendedRanker(weights_of("hybrid"), weights_of("hybrid_long_items"), weights_of("hybrid_people")),
            semantic=LinearRanker(weights_of("semantic")),
            full_text=LinearRanker(weights_of("full_text")),
            sections=LinearRanker(weights_of("sections")),
        )


MADE_BY_RANKING: frozenset[str] = frozenset({Feature.DATE}) | LATE_INTERACTION | EXCHANGES
"""The features that ranking makes and no retriever."""


@dataclass(frozen=True, slots=True)
class RankedItems:
    """Candidates with their features and scores, and `order`: indices into the table's keys, best first."""

    query: PreparedQuery
    table: FeatureTable = field(default_factory=FeatureTable)
    scores: Scores = field(default_factory=lambda: np.empty(0, np.float32))
    order: Order = field(default_factory=lambda: np.empty(0, np.int64))
    word_weights: Mapping[str, float] = field(default_factory=dict)
    held: HeldWords = field(default_factory=HeldWords)
    relevance: Relevance = field(default_factory=Relevance)

    def is_answered(self, bar: float) -> bool | None:
        """Return whether any result answers with at least the probability `bar`; None if that is unknown.

        An item that contains a quoted phrase, or all words of the query, counts as an answer.
        """
        if not len(self.order):
            return False
        if self.relevance.answerable is None:
            return None
        if self.query.text.phrases or (self.relevance.evidence and self.relevance.evidence.has_every_word):
            return True
        return self.relevance.answerable >= bar


def rank_candidates(retrieved: Retrieved, *, rankers: Rankers, options: SearchOptions) -> RankedItems:
    """Return the candidates in the order of the query's mode, with their relevance. At most three queries."""
    ranked = _rank(retrieved, rankers, options)
    if not len(ranked.order):
        return ranked
    return replace(
        ranked,
        held=retrieved.held,
        relevance=relevance_of(ranked.query, ranked.table, ranked.scores, ranked.order, ranked.word_weights),
    )


def _rank(retrieved: Retrieved, rankers: Rankers, options: SearchOptions) -> RankedItems:
    query, table = retrieved.query, retrieved.table
    if not len(table.keys):
        return RankedItems(query, table, word_weights=retrieved.word_weights)
    moments = None
    if query.time:
        moments = read_moments(query, table.keys, item_count=table.item_count, of_all=retrieved.moments)
    table = table.with_columns(date_features(query, table.keys, moments), of={Feature.DATE})
    if query.space is None:
        scores = in_order_of_time(query, rankers.full_text.score(table), table.keys, moments)
        return RankedItems(query, table, scores, best_first(scores, table.keys), retrieved.word_weights)
    if query.by_distance:
        scores = table.similarities
        return RankedItems(query, table, scores, best_first(scores, table.keys), retrieved.word_weights)
    scores = rankers.first_stage.score(table)
    best = np.sort(best_few(scores, table.keys, RESCORED))
    with pipelined():
        passages = passages_of_best(retrieved, table.keys[best]) if options.late_interaction else None
        vectors = PendingItemVectors(query, table.keys[best]) if options.diversity_lambda < 1 else None
        if options.late_interaction:  # while PostgreSQL looks up the vectors
            table = with_late_features(retrieved, table, passages)
            if Feature.MAX_SIM in table.columns:
                scores = second_ranker(query, rankers).score(table)
        scores = in_order_of_time(query, scores, table.keys, moments)
        order = best_first(scores, table.keys)
        if vectors is not None:
            order = with_diverse_top(order, scores, best, vectors.read(), relevance=options.diversity_lambda)
    return RankedItems(query, table, scores, order, retrieved.word_weights)


def second_ranker(query: PreparedQuery, rankers: Rankers) -> Ranker:
    """Return the ranker for the best candidates, after late interaction."""
    if query.mode != "hybrid":
        return rankers.semantic
    return rankers.sections if query.is_of_documents_alone else rankers.hybrid
