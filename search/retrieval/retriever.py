"""Defines the state of a search, which its stages fill, and a retriever, which finds candidates and describes them.

A retriever's queries are sent before they are read: PostgreSQL works on one while this process computes another. To add
one, write a class with `features`, `needs_vector`, `applies` and `send`, and name it in `search/pipeline.py`.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np

from convmemory.embeddings.models import EmbeddingSpace
from search.ranking.rankers import Order
from search.ranking.relevance import RELATED_RELEVANCE, Relevance
from search.retrieval.candidates import (
    ITEM_BITS,
    NO_ITEMS,
    FeatureTable,
    ItemKeys,
    Scores,
    are_among,
    distinct,
    spread_all,
)
from search.retrieval.corpus import Corpus, PendingCorpus
from search.retrieval.prepared import PreparedQuery
from search.retrieval.typing_errors import Correction
from search.retrieval.word_scores import MatchedTerms
from search.vectors.blocks import Blocks
from search.vectors.small_owners import ComparedPassages

Found = tuple[ItemKeys, ItemKeys, Mapping[str, Scores], float]
"""What one retriever added: the items that become candidates, the items of the arrays, these, and the unseen value."""


@dataclass(slots=True)
class SearchState:
    """A query on its way through the stages of a search, and what they have found out about its candidates.

    Retrievers `add` items, of which `merge` makes the `table`; ranking fills in `scores`, `order` (indices into the
    table's keys, best first) and `relevance`. `word_weights` gives the idf of the query's words, and `matched` which
    items contain them. `scanned` are the codes of the owner's passages, if they were compared; `compared` are all of a
    small owner's passages. `moments` are the times of all of the owner's items, if they were read ahead
    (`search/ranking/in_time.py`); `behind` are the sources with items that may not be in the space yet;
    `is_incomplete` as in `Corpus`. `space` is the one that was searched, None if no vectors were compared. With a
    `correction`, words of the query were searched for as they were probably meant.
    """

    query: PreparedQuery
    table: FeatureTable = field(default_factory=FeatureTable)
    scores: Scores = field(default_factory=lambda: np.empty(0, np.float32))
    order: Order = field(default_factory=lambda: np.empty(0, np.int64))
    relevance: Relevance = field(default_factory=Relevance)
    word_weights: Mapping[str, float] = field(default_factory=dict)
    matched: MatchedTerms = field(default_factory=MatchedTerms)
    scanned: Blocks | None = None
    compared: ComparedPassages | None = None
    moments: tuple[Any, ...] | None = None
    behind: Sequence[int] = ()
    space: EmbeddingSpace | None = None
    is_incomplete: bool = False
    is_listing: bool = False
    correction: Correction | None = None
    found: list[Found] = field(default_factory=list)

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
        self.found.append((items, items if keys is None else keys, features, unseen))

    def merge(self, corpus: Corpus, features: Collection[str]) -> None:
        """Make one table of all items found; those of the `features` that no retriever made are unavailable."""
        keys = distinct(np.concatenate([items for items, _, _, _ in self.found])) if self.found else NO_ITEMS
        keys = keys[are_among(keys >> ITEM_BITS, corpus.sources)]  # no filter has seen a source that was stored since
        columns: dict[str, Scores] = {}
        for _, of_keys, of_features, unseen in self.found:
            columns |= spread_all(keys, of_keys, of_features, unseen=unseen)
        table = FeatureTable(keys, mean_item_length=corpus.mean_item_length, item_count=corpus.items)
        self.table = table.with_columns(columns, of=features)
        self.space = self.query.space
        self.behind = corpus.behind if self.space is not None else ()
        self.is_incomplete = corpus.is_incomplete

    def note(self, *notes: str) -> None:
        """Add notes for the caller to those of the query."""
        self.query = replace(self.query, notes=(*self.query.notes, *notes))

    def is_answered(self, bar: float) -> bool | None:
        """Return whether any result answers with at least the probability `bar`; None if that is unknown.

        An item that contains a quoted phrase, or all words of the query, counts as an answer, as do those of a listing.
        """
        if not len(self.order):
            return False
        if self.is_listing:
            return True
        if self.relevance.answerable is None:
            return None
        if self.query.text.phrases or (self.relevance.evidence and self.relevance.evidence.has_every_word):
            return True
        return self.relevance.answerable >= bar

    def likely(self, bar: float) -> ItemKeys:
        """Return the items that may answer, best first: all where that is unknown, or where `bar` is 0."""
        return self.table.keys[self.relevance.at_least(min(bar, RELATED_RELEVANCE), self.order)]


ReadCandidates = Callable[[SearchState, Corpus], None]
"""Reads the rows of a retriever's queries, which have been sent, and adds what they found to the state.

The query has been embedded by now, if possible.
"""


class Retriever(Protocol):
    """Finds candidates for a query and describes them by features."""

    @property
    def features(self) -> Collection[str]:
        """Return the features that it makes."""

    @property
    def needs_vector(self) -> bool:
        """Return whether it needs the query's vector: then it is sent after embedding, and not at all without a
        vector.
        """

    def applies(self, query: PreparedQuery) -> bool:
        """Return whether it can find items in the query's scope and mode."""

    def send(self, query: PreparedQuery, corpus: PendingCorpus) -> ReadCandidates:
        """Send its queries; return the function that reads them.

        Only a retriever that needs the vector may read `corpus` or the query's words here: others would delay the
        model.
        """
