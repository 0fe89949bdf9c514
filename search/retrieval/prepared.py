"""A query prepared once for every stage of a search: its owner, its words, its filters, its vectors.

The vectors are added after the query for its words has been sent (`dense.py`): PostgreSQL works on that while the query
is embedded.
"""

import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from convmemory.conversations.reading import EVERYTHING, Filters
from convmemory.core.errors import EmbedderUnavailable
from convmemory.core.sql import PendingQuery, load_sql, pipelined
from convmemory.core.text import storable
from convmemory.embeddings.embedder import TokenEmbedding, Vector
from convmemory.embeddings.models import EmbeddingSpace
from convmemory.embeddings.spaces import active_space, read_space, send_active_space_query
from search.query import DEFAULT_SCOPE, SearchQuery, kinds_in, shown_kinds_in
from search.query_text import QueryText
from search.ranking.times.reading import TimeReading
from search.retrieval.candidates import ItemKeys, split_keys
from search.sources import registered
from search.vectors.passages import KINDS, vector_text
from search.vectors.texts import searchable

MIN_STOP_WORDS = 2  # of a language, that show that a query is in it

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class QueryWord:
    """A word of the query as written, and its lexeme in the index; `also` gives it by language for other texts."""

    written: str
    lexeme: str
    is_stop_word: bool
    also: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PreparedQuery:
    """The input of every stage. `space` is None if no vectors are compared, and then so is `embedding`.

    `notes` tell the caller what could not be done as requested. `time` is what the text says about when.
    """

    owner_id: int
    text: QueryText
    mode: str = "hybrid"
    by_distance: bool = False
    scope: frozenset[str] = DEFAULT_SCOPE
    filters: Filters = EVERYTHING
    words: tuple[QueryWord, ...] = ()
    languages: tuple[str, ...] = ()  # of the owner's texts, beside English
    space: EmbeddingSpace | None = None
    embedding: TokenEmbedding | None = None
    vector_text: str = field(default="", repr=False)
    notes: tuple[str, ...] = ()
    time: TimeReading | None = None

    @property
    def passage_kinds(self) -> list[int]:
        """The kinds of passages in scope, as stored; only those of the sources that are searched."""
        wanted = self.filters.kinds
        held = [adapter.passage_kinds for kind, adapter in registered().items() if not wanted or kind in wanted]
        return [KINDS[kind] for kind in kinds_in(self.scope) if any(kind in kinds for kinds in held)]

    @property
    def is_of_documents_alone(self) -> bool:
        """Whether only documents are searched."""
        return self.passage_kinds == [KINDS["document"]]

    def nearest_passages_of(self, keys: ItemKeys) -> dict[str, Any]:
        """Parameters of a statement that finds the passages of some items nearest to the query."""
        sources, items = split_keys(keys)
        return {
            "owner": self.owner_id,
            "space": self.active_space.pk,
            "vector": self.vector_text,
            "kinds": self.passage_kinds,
            "sources": sources,
            "items": items,
        }

    @property
    def shown_kinds(self) -> list[int]:
        """The kinds of passages that are shown and recalled, as stored."""
        return [KINDS[kind] for kind in shown_kinds_in(self.scope)]

    @property
    def vector(self) -> Vector:
        """(dim,) float32, unit length."""
        assert self.embedding is not None
        return self.embedding.vector

    def with_embedding(self, embedding: TokenEmbedding) -> "PreparedQuery":
        """The query with its vectors, which belong to its space."""
        return replace(self, embedding=embedding, vector_text=vector_text(embedding.vector))

    def by_words_only(self, error: EmbedderUnavailable) -> "PreparedQuery":
        """The query without a space, and with a note that says why."""
        logger.warning("Searching by words only: %s", error)
        return replace(self, space=None, notes=(*self.notes, f"Searched by words only: {error}"))

    @property
    def active_space(self) -> EmbeddingSpace:
        """The space of a query that is compared by vectors."""
        assert self.space is not None
        return self.space


def prepare_query(*, owner_id: int, query: SearchQuery) -> PreparedQuery:
    """The query with its words, and the space that it will be embedded in. One round trip to the database for both."""
    by_vectors = query.mode != "full_text"
    with pipelined():
        pending_words = _send_words_query(owner_id, query)
        pending_space = send_active_space_query() if by_vectors else None
        words, languages = _read_words(pending_words)
        space = read_space(pending_space) if pending_space else None
    prepared = PreparedQuery(
        owner_id=owner_id,
        text=query.parsed,
        mode=query.mode,
        by_distance=query.by_distance,
        scope=query.scope,
        filters=query.filters,
        words=words,
        languages=languages,
        space=space,
        time=query.time,
        notes=(query.time.note,) if query.time and query.time.note else (),
    )
    if space or not by_vectors:
        return prepared
    try:
        return replace(prepared, space=active_space())
    except EmbedderUnavailable as error:
        return prepared.by_words_only(error)


def _send_words_query(owner_id: int, query: SearchQuery) -> PendingQuery:
    parameters: dict[str, Any] = {
        "owner": owner_id,
        "kinds": sorted(query.filters.kinds),
        "text": searchable(storable(query.parsed.text)),
    }
    return PendingQuery(load_sql("search", "query_words"), parameters, keeps_plan=True)


def _read_words(pending: PendingQuery) -> tuple[tuple[QueryWord, ...], tuple[str, ...]]:
    """The words in the order of the query, and the languages besides English of the owner's sources of these kinds."""
    rows = pending.rows()
    language = _language_of_query([row[4] for row in rows], in_english=sum(row[2] for row in rows))
    words = (
        QueryWord(written, lexeme, in_english or language in stop_word_in, dict(zip(spoken, also, strict=False)))
        for written, lexeme, in_english, also, stop_word_in, spoken in rows  # `also` is empty of what is no word
    )
    return tuple(words), tuple(rows[0][5]) if rows else ()


def _language_of_query(stop_word_in: Sequence[Sequence[str]], *, in_english: int) -> str:
    """The language in which most of the words are stop words; "" if that is English or a single word would decide."""
    counts = Counter(language for languages in stop_word_in for language in languages)
    (language, count), *_ = counts.most_common(1) or [("", 0)]
    return language if count >= MIN_STOP_WORDS and count > in_english else ""
