"""From candidates to one order: a first score for all, late interaction and a second score for the best, diversity.

Reads dates, vectors and token vectors of candidates; the scores themselves are the rankers'.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from convmemory.core.sql import pipelined
from convmemory.embeddings.embedder import Vector
from search.options import SearchOptions
from search.ranking.exchanges import exchange_features, named_share
from search.ranking.fusion import best_few, best_first, diversify
from search.ranking.in_time import date_features, in_order_of_time, read_moments
from search.ranking.late_interaction import NearPassages, find_passages, max_sim_features
from search.ranking.rankers import BlendedRanker, LinearRanker, Ranker
from search.ranking.relevance import Relevance, is_held_whole, relevance_of
from search.ranking.weights import weights_of
from search.retrieval.candidates import ITEM_MASK, Scores, distinct, spread_all
from search.retrieval.dense import PendingItemVectors
from search.retrieval.features import EXCHANGES, LATE_INTERACTION, Feature, FeatureTable
from search.retrieval.prepared import PreparedQuery
from search.retrieval.retriever import Retrieved
from search.sources import Utterance, adapter_of

RESCORED = 80  # how many of the best items by the first score get late interaction and a second score
TOP_K = 30  # how many of the best items are made diverse

Order = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Rankers:
    """Which ranker scores when. Late interaction's features are there for `hybrid` and `semantic` alone."""

    first_stage: Ranker
    hybrid: Ranker
    semantic: Ranker
    full_text: Ranker
    sections: Ranker  # for `hybrid` where documents alone are searched

    @property
    def features(self) -> frozenset[str]:
        """Every feature that any of them weighs."""
        rankers = (self.first_stage, self.hybrid, self.semantic, self.full_text, self.sections)
        return frozenset(name for ranker in rankers for name in ranker.features)

    @classmethod
    def fitted(cls) -> "Rankers":
        """Those with the product's own weights."""
        return cls(
            first_stage=LinearRanker(weights_of("first_stage")),
            hybrid=BlendedRanker(weights_of("hybrid"), weights_of("hybrid_long_items"), weights_of("hybrid_people")),
            semantic=LinearRanker(weights_of("semantic")),
            full_text=LinearRanker(weights_of("full_text")),
            sections=LinearRanker(weights_of("sections")),
        )


MADE_BY_RANKING: frozenset[str] = frozenset({Feature.DATE}) | LATE_INTERACTION | EXCHANGES
"""The features that no retriever makes but ranking itself."""


@dataclass(frozen=True, slots=True)
class RankedItems:
    """Candidates with their features and scores, and `order`: indices into the table's keys, best first."""

    query: PreparedQuery
    table: FeatureTable = field(default_factory=FeatureTable)
    scores: Scores = field(default_factory=lambda: np.empty(0, np.float32))
    order: Order = field(default_factory=lambda: np.empty(0, np.int64))
    word_weights: Mapping[str, float] = field(default_factory=dict)
    relevance: Relevance = field(default_factory=Relevance)

    def is_answered(self, bar: float) -> bool | None:
        """Whether it is likely, by at least `bar`, that anything found answers; None where nobody can tell.

        What holds a phrase that somebody quoted, or every word of the query, is what they looked for.
        """
        if not len(self.order):
            return False
        if self.relevance.answerable is None:
            return None
        if self.query.text.phrases or (self.relevance.evidence and is_held_whole(self.relevance.evidence)):
            return True
        return self.relevance.answerable >= bar


def rank_candidates(retrieved: Retrieved, *, rankers: Rankers, options: SearchOptions) -> RankedItems:
    """The candidates in the order of the query's mode, with their relevance. At most three queries."""
    ranked = _rank(retrieved, rankers, options)
    if not len(ranked.order):
        return ranked
    return replace(
        ranked,
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
        vectors = PendingItemVectors(query, table.keys[best]) if options.diversity_lambda < 1 else None
        if options.late_interaction:
            table = _with_late_features(retrieved, table, best)
            if Feature.MAX_SIM in table.columns:
                scores = second_ranker(query, rankers).score(table)
        scores = in_order_of_time(query, scores, table.keys, moments)
        order = best_first(scores, table.keys)
        if vectors is not None:
            order = _with_diverse_top(order, scores, best, vectors.read(), options.diversity_lambda)
    return RankedItems(query, table, scores, order, retrieved.word_weights)


def second_ranker(query: PreparedQuery, rankers: Rankers) -> Ranker:
    """The ranker of the best candidates, once late interaction has seen them."""
    if query.mode != "hybrid":
        return rankers.semantic
    return rankers.sections if query.is_of_documents_alone else rankers.hybrid


def _with_late_features(retrieved: Retrieved, table: FeatureTable, best: Order) -> FeatureTable:
    """The table with what late interaction tells of the items at `best`, and of what was asked before them."""
    keys = table.keys[best]
    wide_keys = distinct(np.concatenate([keys, keys[keys & ITEM_MASK > 0] - 1]))
    for_questions = np.isin(wide_keys, keys, invert=True)
    near = find_passages(retrieved.query, wide_keys, for_questions, retrieved.word_weights)
    if near is None:
        return table.with_columns({}, of=LATE_INTERACTION | EXCHANGES)
    pending = _ask_utterances(retrieved.query.owner_id, near)
    matches = near.matched()
    own = matches.of(~for_questions[matches.items])
    found = max_sim_features(keys, replace(own, items=np.searchsorted(keys, wide_keys[own.items])))
    utterances = {element: said for read in pending for element, said in read().items()}
    found |= exchange_features(keys, wide_keys, matches, utterances, retrieved.query.text.text)
    table = replace(table, named_share=named_share(utterances.values()))
    return table.with_columns(spread_all(table.keys, keys, found), of=LATE_INTERACTION | EXCHANGES)


def _ask_utterances(owner_id: int, near: NearPassages) -> list[Callable[[], dict[int, Utterance]]]:
    """Ask who said the elements of the passages. One query for each kind of source."""
    return [adapter_of(kind).ask_utterances(owner_id, ids) for kind, ids in near.elements_by_kind().items()]


def _with_diverse_top(order: Order, scores: Scores, best: Order, vectors: Vector, relevance: float) -> Order:
    """`vectors` (n, dim) are those of the items at `best` (sorted); another item of the top is like none."""
    top = order[:TOP_K]
    places = np.searchsorted(best, top).clip(max=len(best) - 1)
    own = np.where((best[places] == top)[:, None], vectors[places], 0)
    similarity = own @ own.T
    np.fill_diagonal(similarity, 0)
    return np.concatenate([top[diversify(scores[top], similarity, relevance=relevance)], order[len(top) :]])
