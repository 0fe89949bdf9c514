"""Defines a retriever, which finds candidates for a query and describes them by features.

A retriever's queries are sent before they are read: PostgreSQL works on one while this process computes another. To add
one, write a class with `features`, `needs_vector`, `applies` and `send`, and name it in `search/pipeline.py`.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from search.retrieval.candidates import NO_ITEMS, FeatureTable, ItemKeys, Scores
from search.retrieval.corpus import Corpus, PendingCorpus
from search.retrieval.prepared import PreparedQuery
from search.retrieval.word_scores import MatchedTerms
from search.vectors.blocks import Blocks
from search.vectors.small_owners import ComparedPassages


@dataclass(frozen=True, slots=True)
class Candidates:
    """The result of one retriever.

    `found` are the items that become candidates; `keys` (sorted) are the items of the arrays in `candidates`, which may
    be more. Other items get the value `unseen`. `word_weights` gives the idf of the query's words, and `held` which
    items contain them, if the retriever knows. `scanned` are the codes of the owner's passages, if it compared them;
    `compared` are all of a small owner's passages.
    """

    found: ItemKeys = field(default_factory=lambda: NO_ITEMS)
    keys: ItemKeys = field(default_factory=lambda: NO_ITEMS)
    features: Mapping[str, Scores] = field(default_factory=dict)
    unseen: float = float("nan")
    word_weights: Mapping[str, float] = field(default_factory=dict)
    held: MatchedTerms | None = None
    scanned: Blocks | None = None
    compared: ComparedPassages | None = None


ReadCandidates = Callable[[PreparedQuery, Corpus], Candidates]
"""Reads the rows of a retriever's queries, which have been sent; the query has been embedded by now, if possible."""


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


@dataclass(frozen=True, slots=True)
class Retrieved:
    """All candidates in one table, the query as searched, its words' idf and which items contain them.

    `moments` are the times of all of the owner's items, if they were read ahead (`search/ranking/in_time.py`);
    `scanned` are the codes of the owner's passages, if those were compared, `compared` all passages of a small owner;
    `behind` are the sources with items that may not be in the space yet; `is_incomplete` as in `Corpus`.
    """

    query: PreparedQuery
    table: FeatureTable
    word_weights: Mapping[str, float]
    held: MatchedTerms = field(default_factory=MatchedTerms)
    moments: tuple[Any, ...] | None = None
    scanned: Blocks | None = None
    compared: ComparedPassages | None = None
    behind: Sequence[int] = ()
    is_incomplete: bool = False
