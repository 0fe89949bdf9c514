"""Defines the state of a search, which its stages fill, and a retriever, which finds candidates and describes them.

To add a retriever, write a class with `features`, `needs_vector` and `add_candidates`, and name it in
`search/pipeline.py`.
"""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from convmemory.embeddings.models import EmbeddingSpace
from search.ranking.rankers import Order
from search.ranking.relevance import RELATED_RELEVANCE, STRONG_RELEVANCE, WHOLE, Relevance
from search.results.rows import PageContents
from search.retrieval.candidates import (
    ITEM_BITS,
    NO_ITEMS,
    Feature,
    FeatureTable,
    ItemKeys,
    Scores,
    are_among,
    distinct,
    spread_all,
)
from search.retrieval.corpus import Corpus, inverse_document_frequency
from search.retrieval.prepared import PreparedQuery
from search.retrieval.typing_errors import Correction
from search.retrieval.word_scores import MatchedTerms
from search.steering import is_steering
from search.vectors.blocks import ComparedVectors, NearPassages

# A word is rare if its idf is this share of that of a word in no item.
RARE_SHARE = 0.5
# One of the best items is about the query's subject if it contains words of it with this share of that idf together. Of
# 102 questions of tests/retrieval with an answer it keeps all 38 with a probability of .9, .85 keeps 36.
SUBJECT_SHARE, BEST, LEAST_ITEMS = 0.7, 5, 50
# A query of so few words must have half of them in one of the best items, or be as likely answered. Of 119 questions of
# tests/retrieval with an answer that silences none, of 125 without one 10 of 86 that are answered otherwise.
FEW_WORDS, FEW_WORDS_SHARE, FEW_WORDS_RELEVANCE = 3, 0.5, 0.7
# The share of right ones among hits that contain all words of their query, a rare one among them: 21 of 22 in
# tests/retrieval.
LITERAL_RELEVANCE = 0.95

AddedItems = tuple[ItemKeys, ItemKeys, Mapping[str, Scores], float]
"""What one retriever added: the items that become candidates, the items of the arrays, these, and the unseen value."""


@dataclass(slots=True)
class SearchState:
    """A query on its way through the stages of a search, and what they have found out about its candidates.

    Retrievers `add` items, of which `merge` makes the `table`; ranking fills in `scores`, `order` (indices into the
    table's keys, best first) and `relevance`. `word_weights` gives the idf of the query's words, and `matched` which
    items contain them. `compared` are the codes of the owner's vectors, and `moments` the times of all of the owner's
    items, if they were read ahead (`search/ranking/in_time.py`); `behind` are the sources with items that may not be in
    the space yet; `is_incomplete` as in `Corpus`. `space` is the one that was searched, None if no vectors were
    compared. With a `correction`, words of the query were searched for as they were probably meant. `repeated` are the
    keys of items that only ask the question again (`search/ranking/repeated.py`), `contents` what was read of the hits.
    """

    query: PreparedQuery
    table: FeatureTable = field(default_factory=FeatureTable)
    scores: Scores = field(default_factory=lambda: np.empty(0, np.float32))
    order: Order = field(default_factory=lambda: np.empty(0, np.int64))
    relevance: Relevance = field(default_factory=Relevance)
    word_weights: Mapping[str, float] = field(default_factory=dict)
    matched: MatchedTerms = field(default_factory=MatchedTerms)
    compared: ComparedVectors | None = None
    moments: tuple[Any, ...] | None = None
    behind: Sequence[int] = ()
    space: EmbeddingSpace | None = None
    is_incomplete: bool = False
    is_listing: bool = False
    correction: Correction | None = None
    repeated: set[int] = field(default_factory=set)
    contents: PageContents | None = None
    added: list[AddedItems] = field(default_factory=list)

    def add(
        self,
        items: ItemKeys,
        features: Mapping[str, Scores],
        *,
        keys: ItemKeys | None = None,
        unseen: float = float("nan"),
    ) -> None:
        """Add items that a retriever found, and features of `keys` (sorted), by default of the items.

        Other items get the value `unseen`.
        """
        self.added.append((items, items if keys is None else keys, features, unseen))

    def merge(self, corpus: Corpus, features: Collection[str]) -> None:
        """Make one table of all items found; those of the `features` that no retriever made are unavailable."""
        keys = distinct(np.concatenate([items for items, _, _, _ in self.added])) if self.added else NO_ITEMS
        keys = keys[are_among(keys >> ITEM_BITS, corpus.sources)]  # no filter has seen a source that was stored since
        columns: dict[str, Scores] = {}
        for _, of_keys, of_features, unseen in self.added:
            columns |= spread_all(keys, of_keys, of_features, unseen=unseen)
        table = FeatureTable(keys, mean_item_length=corpus.mean_item_length, item_count=corpus.items)
        self.table = table.with_columns(columns, of=features)
        self.space = self.query.space
        self.behind = corpus.behind if self.space is not None else ()
        self.is_incomplete = corpus.is_incomplete

    def nearest_passages(self, keys: ItemKeys, kinds: Sequence[int], limit: int) -> NearPassages | None:
        """Return the nearest passages of some items, at most `limit` of each; None if the owner has no passages."""
        return self.compared.nearest_of_items(keys, kinds, limit) if self.compared else None

    def note(self, *notes: str) -> None:
        """Add notes for the caller to those of the query."""
        self.query = replace(self.query, notes=(*self.query.notes, *notes))

    def is_answered(self, bar: float, *, is_bar_named: bool = False) -> bool | None:
        """Return whether the query is answered with at least the probability `bar`; None if that is unknown.

        An item that contains a quoted phrase or all words of the query counts as an answer, as do those of a listing. A
        bar that the caller names holds for all of them, and for a query whose subject none of the best items mentions,
        such as "now do the same for the other file", nothing is an answer then.
        """
        if not len(self.order):
            return False
        if self.is_listing:
            return True
        if self.relevance.answerable is None:
            return None
        if is_bar_named:
            return self.relevance.answerable >= bar and (not bar or self._mentions_subject())
        return self.relevance.answerable >= bar or self.has_literal(self.order)

    def holds_little_of_few_words(self) -> bool:
        """Return whether the query has few words, of which no best item contains half by weight: "wifi password"."""
        words = {word.written for word in self.query.words if not word.is_stop_word}
        if not words or len(words) > FEW_WORDS or self.has_literal(self.order):
            return False
        subject = self._subject()
        of_items = self.matched.of_items(self.table.keys[self.order[:BEST]])
        best = max((sum(subject.get(word, 0.0) for word in words_of) for words_of in of_items), default=0.0)
        return best < FEW_WORDS_SHARE * sum(subject.values()) or not subject

    def relevance_of(self, hits: Order) -> list[float | None]:
        """Return the probability that each of these few hits answers; None where it is unknown.

        The first hit answers at least as probably as anything does, a literal one as often as such hits do (ADR 93);
        neither alone makes a hit strong.
        """
        of_first = np.where(hits == self.order[:1], self.relevance.answerable or 0.0, 0.0)
        least = np.maximum(of_first, np.where(self._are_literal(hits), LITERAL_RELEVANCE, 0.0))
        least = np.minimum(least, STRONG_RELEVANCE - 0.01).round(4)
        return [
            None if chance is None else max(chance, at_least)
            for chance, at_least in zip(self.relevance.of(hits), least.tolist(), strict=True)
        ]

    def likely(self, bar: float, *, of_best: float = 1.0) -> ItemKeys:
        """Return the items that may answer, best first: all where that is unknown, or where `bar` is 0.

        If none is likely to answer, those with this share of the best item's probability may, too.
        """
        is_likely = np.isin(self.order, self.relevance.at_least(min(bar, RELATED_RELEVANCE), self.order, of_best))
        return self.table.keys[self.order[is_likely | self._are_literal(self.order)]]

    def _subject(self, least_items: int = 0) -> dict[str, float]:
        """Return the idf of the query's words that name a subject, as a share of the idf of a word in no item.

        It is that of an archive of at least `least_items`.
        """
        count = self.table.item_count
        (in_none,) = inverse_document_frequency(np.zeros(1, np.int64), count).tolist()
        more = max(0.0, math.log((least_items + 1) / (count + 1)))  # by which further items raise each idf
        named = {word.written for word in self.query.words if not (word.is_stop_word or is_steering(word.written))}
        return {word: (self.word_weights.get(word, 0.0) + more) / (in_none + more) for word in named}

    def _mentions_subject(self) -> bool:
        """Return whether one of the best items contains words of the query's subject that are rare together.

        In an archive of a few turns no word is rare: it counts as one of `LEAST_ITEMS`.
        """
        subject, best = self._subject(LEAST_ITEMS), self.table.keys[self.order[:BEST]]
        of_items = self.matched.of_items(best)
        return any(sum(subject.get(word, 0.0) for word in words) >= SUBJECT_SHARE for words in of_items)

    def has_literal(self, items: Order) -> bool:
        """Return whether one of the items counts as an answer at any bar, because it has the query's words."""
        return bool(self._are_literal(items).any())

    def _are_literal(self, items: Order) -> NDArray[np.bool_]:
        """Return which items contain a quoted phrase, or all words of a query whose subject has a rare one."""
        if self.query.text.phrases:
            return np.ones(len(items), np.bool_)
        coverage = self.table.columns.get(Feature.COVERAGE)
        in_none, in_one = inverse_document_frequency(np.array([0, 1]), self.table.item_count).tolist()
        rarest = max(self._subject().values(), default=0.0)
        if coverage is None or rarest < min(RARE_SHARE, in_one / in_none):
            return np.zeros(len(items), np.bool_)
        return np.asarray(coverage[items] >= WHOLE)


class Retriever(Protocol):
    """Finds candidates for a query and describes them by features."""

    @property
    def features(self) -> Collection[str]:
        """Return the features that it makes."""

    @property
    def needs_vector(self) -> bool:
        """Return whether it needs the query's vector: it is left out of a search by words."""

    def add_candidates(self, state: SearchState, corpus: Corpus) -> None:
        """Add the items that it finds for the state's query, with their features."""
