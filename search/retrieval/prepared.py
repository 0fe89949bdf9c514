"""A query prepared once for all stages of a search: its owner, its words, its filters, its vectors.

Its words (`corpus.py`) and its filters (`filters.py`) are looked up while it is embedded (`dense.py`): reading
them waits for PostgreSQL.
"""

import logging
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from convmemory.conversations.filters import EVERYTHING, Filters
from convmemory.core.errors import EmbedderUnavailable
from convmemory.embeddings.embedder import TokenEmbedding, Vector
from convmemory.embeddings.models import EmbeddingSpace
from convmemory.embeddings.spaces import active_space, read_active_space
from search.query import DEFAULT_SCOPE, SearchQuery, kinds_in, shown_kinds_in
from search.query_text import QueryText
from search.ranking.time_names import note_on_time
from search.ranking.times.reading import TimeReading
from search.retrieval.corpus import PendingCorpus, PendingQueryWords, QueryWord
from search.retrieval.filters import Eligibility, PendingEligibility
from search.sources import registered
from search.vectors.codes import rotated
from search.vectors.passages import KINDS

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class PreparedQuery:
    """The input of all stages. `space` and `embedding` are None if no vectors are compared.

    `notes` name the parts of the request that could not be fulfilled. `time` is the time that the text names.
    """

    archive_id: int
    text: QueryText
    mode: str = "hybrid"
    by_distance: bool = False
    scope: frozenset[str] = DEFAULT_SCOPE
    compares_later: bool = True
    shows_calls: bool = True
    tells: bool = False
    filters: Filters = EVERYTHING
    space: EmbeddingSpace | None = None
    embedding: TokenEmbedding | None = None
    notes: tuple[str, ...] = ()
    time: TimeReading | None = None
    pending_words: PendingQueryWords | None = field(default=None, repr=False)
    pending_eligibility: PendingEligibility | None = field(default=None, repr=False)

    @classmethod
    def of(cls, archive_id: int, query: SearchQuery) -> "PreparedQuery":
        """Return a checked query of the owner's archive, whose text has been read: its operators and its time."""
        return cls(
            archive_id=archive_id,
            text=query.parsed,
            mode=query.mode,
            by_distance=query.by_distance,
            scope=query.scope,
            compares_later=query.compares_later and query.document_scope is None,
            shows_calls=query.shows_calls,
            tells=query.tells,
            filters=query.filters,
            time=query.time,
        )

    @property
    def words(self) -> tuple[QueryWord, ...]:
        """Return the words; waits for them the first time. Empty if they were not looked up."""
        return self.pending_words.words if self.pending_words else ()

    @property
    def languages(self) -> tuple[str, ...]:
        """Return the languages of the owner's texts other than English; known with the words."""
        return self.pending_words.languages if self.pending_words else ()

    @property
    def eligibility(self) -> Eligibility:
        """Return which items pass the filters of a query that was looked up; waits for it the first time."""
        assert self.pending_eligibility is not None
        return self.pending_eligibility.eligibility

    @cached_property
    def passage_kinds(self) -> list[int]:
        """Return the stored numbers of the passage kinds in scope, only those of the sources that are searched."""
        chosen = self.filters.kinds
        of_adapters = [adapter.passage_kinds for kind, adapter in registered().items() if not chosen or kind in chosen]
        return [KINDS[kind] for kind in kinds_in(self.scope) if any(kind in kinds for kinds in of_adapters)]

    @property
    def is_of_documents_alone(self) -> bool:
        """Return whether only documents are searched."""
        return self.passage_kinds == [KINDS["document"]]

    @property
    def shown_kinds(self) -> list[int]:
        """Return the stored numbers of the passage kinds that are shown and recalled."""
        return [KINDS[kind] for kind in shown_kinds_in(self.scope, shows_calls=self.shows_calls)]

    @property
    def said_kinds(self) -> list[int]:
        """Return these kinds without system prompts, which are shown only for a word that nothing said contains."""
        return [kind for kind in self.shown_kinds if kind != KINDS["system"]]

    @property
    def vector(self) -> Vector:
        """Return the query's vector, (dim,) float32, unit length."""
        assert self.embedding is not None
        return self.embedding.vector

    @cached_property
    def rotated_vector(self) -> Vector:
        """Return the query's vector as codes are compared with it."""
        return np.asarray(rotated(self.vector[None])[0], np.float32)

    def looked_up(self, corpus: PendingCorpus | None = None) -> "PreparedQuery":
        """Send the query for the items that pass the filters; return the query with these and its words.

        The query for the `corpus` and the words has been sent, unless that is left to this one.
        """
        corpus = corpus or PendingCorpus(self.archive_id, self.space, self.filters, text=self.text.text)
        eligibility = PendingEligibility(self.archive_id, self.filters, self.text, corpus)
        return replace(self, pending_words=corpus.words, pending_eligibility=eligibility)

    def with_embedding(self, embedding: TokenEmbedding) -> "PreparedQuery":
        """Return the query with its vectors, which belong to its space."""
        return replace(self, embedding=embedding)

    def by_words_only(self, error: EmbedderUnavailable) -> "PreparedQuery":
        """Return the query without a space, and with a note that gives the reason."""
        logger.warning("Searching by words only: %s", error)
        return replace(self, space=None, notes=(*self.notes, f"Searched by words only: {error}"))

    @property
    def active_space(self) -> EmbeddingSpace:
        """Return the space of a query that is compared by vectors."""
        assert self.space is not None
        return self.space


def prepare_query(query: PreparedQuery) -> PreparedQuery:
    """Return the query with the space in which it will be embedded, and with the note on its time.

    The first search ever creates that space. One query, unless the query has a space.
    """
    note = note_on_time(query.time) if query.time else ""
    query = replace(query, notes=(note,) if note else ())
    if query.mode == "full_text" or query.space:
        return query
    if space := read_active_space():
        return replace(query, space=space)
    try:
        return replace(query, space=active_space())
    except EmbedderUnavailable as error:
        return query.by_words_only(error)
