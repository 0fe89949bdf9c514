"""The words of a query with their lexemes, and the size of the owner's corpus, which their frequencies need.

It also has the times of all items, for a query that needs nearly all of them.
"""

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import starmap
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from convmemory.conversations.filters import EVERYTHING, Filters
from convmemory.core.sql import PendingQueries, PendingQuery, Query, load_sql
from convmemory.core.text import storable
from convmemory.embeddings.models import EmbeddingSpace
from search.block_cache import NO_BLOCKS, Digest
from search.retrieval.candidates import Scores, are_among
from search.retrieval.source_filters import source_conditions
from search.word_forms import MARK, queried_text


@dataclass(frozen=True, slots=True)
class Corpus:
    """The owner's sources: ids (sorted), numbers of items and of spoken words.

    `spoken_in` are the ids of sources with texts in a language other than English, by language; `behind` are those with
    items that may not be in the space yet.
    With `is_incomplete` a search may miss something of the owner's that waits for a worker. `postings` are the digests
    of the blocks of postings by column, `has_unpacked` says whether some items have none yet, and `codes` is the digest
    of the blocks of passages. `left_out` are the sources that the filters exclude.
    """

    sources: NDArray[np.int64]
    item_counts: NDArray[np.int64]
    lengths: NDArray[np.int64]
    spoken_in: Mapping[str, Sequence[int]] = field(default_factory=dict)
    behind: Sequence[int] = ()
    is_incomplete: bool = False
    postings: Mapping[int, Digest] = field(default_factory=dict)
    has_unpacked: bool = False
    codes: Digest = NO_BLOCKS
    left_out: Sequence[int] = ()

    @property
    def items(self) -> int:
        return int(self.item_counts.sum())

    def of_sources(self, sources: NDArray[np.int64], column: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the values of a column for these sources, 0 for a source that was stored after the corpus was read."""
        values = np.zeros(len(sources), np.int64)
        is_known = are_among(sources, self.sources)
        values[is_known] = column[np.searchsorted(self.sources, sources[is_known])]
        return values

    @property
    def mean_item_length(self) -> float:
        """Return the mean length of an item in words."""
        return float(self.lengths.sum()) / max(self.items, 1)


def inverse_document_frequency(found_in: NDArray[np.int64], documents: int) -> Scores:
    """Return BM25's idf, never negative: ln(1 + (N - df + .5) / (df + .5))."""
    return np.log1p((documents - found_in + 0.5) / (found_in + 0.5)).clip(min=0).astype(np.float32)


def send_moments_query(archive_id: int) -> PendingQuery:
    """Send the query for when all items were written, an index-only scan: several times as fast if many are needed."""
    return PendingQuery(load_sql("search.retrieval", "owner_moments"), {"owner": archive_id})


class PendingCorpus:
    """A query over the owner's sources, and for the words of a text, that has been sent; it is read once and kept.

    Vectors are those of `space`; without a space there are none. If the filters name kinds, only sources of these kinds
    count: other sources do not affect the results. If the items' times are needed (`with_moments`), their query
    follows.
    """

    def __init__(
        self,
        archive_id: int,
        space: EmbeddingSpace | None,
        filters: Filters = EVERYTHING,
        *,
        text: str = "",
        with_moments: bool = False,
    ) -> None:
        conditions, parameters = source_conditions(filters, "e")
        others = load_sql("search.retrieval", "other_sources").replace("{filters}", " AND ".join(conditions))
        statement = load_sql("search.retrieval", "corpus").replace("{left_out}", others if conditions else "NULL")
        parameters |= {
            "owner": archive_id,
            "space": space and space.pk,
            "kinds": sorted(filters.kinds),
        }
        of_words, forms = _words_query(archive_id, text, filters.kinds)
        self._pending = PendingQueries((statement, parameters), of_words)
        self.words = PendingQueryWords(lambda: self._pending.of_each[1], forms)
        self._pending_moments = send_moments_query(archive_id) if with_moments else None

    @cached_property
    def corpus(self) -> Corpus:
        """Return the corpus; waits for its row."""
        (row,) = self._pending.of_each[0]
        *numbers, foreign, languages, behind, is_incomplete, postings, has_unpacked, codes, left_out = row
        columns = [np.asarray(column or [], np.int64) for column in numbers]
        order = np.argsort(columns[0])
        sources, items, lengths = (column[order] for column in columns)
        spoken_in: dict[str, list[int]] = {}
        for source, of_source in zip(foreign or [], languages or [], strict=True):
            for language in of_source.split():
                spoken_in.setdefault(language, []).append(source)
        digests = {home: (blocks, digest) for home, blocks, digest in postings or ()}
        code_digest = (codes[0], codes[1]) if codes[0] else NO_BLOCKS
        return Corpus(
            sources, items, lengths, spoken_in, behind or (), is_incomplete, digests, has_unpacked, code_digest,
            left_out or (),
        )  # fmt: skip

    @cached_property
    def moments(self) -> tuple[Any, ...] | None:
        """Return the times of the items; waits for the row. None if they are not wanted."""
        return self._pending_moments.rows()[0] if self._pending_moments is not None else None


# A query with this many stop words of a language is in that language.
MIN_STOP_WORDS = 2


@dataclass(frozen=True, slots=True)
class QueryWord:
    """A word of the query as written, and its lexeme in the index; `also` are its lexemes in other languages.

    `folded` are the lexemes of other forms of the word, each with the languages in which it counts (none: in all), and
    `title_lexeme` is the one under which titles, which are folded, have it.
    """

    written: str
    lexeme: str
    is_stop_word: bool
    also: Mapping[str, str] = field(default_factory=dict)
    folded: Mapping[str, frozenset[str]] = field(default_factory=dict)
    title_lexeme: str = ""


class _WordRow(NamedTuple):
    """A row of the statement `query_words`; `marked` and `also_marked` are the lexemes of the word behind `MARK`."""

    word: str
    lexeme: str
    is_stop_word: bool
    also: Sequence[str]
    stop_word_in: Sequence[str]
    languages: Sequence[str]
    marked: str | None
    also_marked: Sequence[str]
    is_form: bool


class PendingQueryWords:
    """A query for the words of a text that has been sent; its rows are read once, when first needed, and kept."""

    def __init__(self, read: Callable[[], list[tuple[Any, ...]]], forms: Mapping[str, Sequence[str]]) -> None:
        self._read, self._forms = read, forms

    @classmethod
    def alone(cls, archive_id: int, text: str, kinds: Collection[str]) -> "PendingQueryWords":
        """Send the query without another one."""
        query, forms = _words_query(archive_id, text, kinds)
        return cls(PendingQuery(*query, keeps_plan=True).rows, forms)

    @cached_property
    def words(self) -> tuple[QueryWord, ...]:
        """Return the words in the order of the query."""
        rows = [row for row in self._rows if not row.is_form]
        # The language in which most of the words are stop words; "" for English or if a single word would decide.
        counts = Counter(language for row in rows for language in row.stop_word_in)
        (language, count), *_ = counts.most_common(1) or [("", 0)]
        if count < MIN_STOP_WORDS or count <= sum(row.is_stop_word for row in rows):
            language = ""
        forms = {row.word: row for row in self._rows if row.is_form}
        return tuple(
            QueryWord(
                row.word,
                row.lexeme,
                row.is_stop_word or language in row.stop_word_in,
                dict(zip(row.languages, row.also, strict=False)),  # `also` may be empty
                *_folded(row, self._forms.get(row.word, ()), forms),
            )
            for row in rows
        )

    @property
    def languages(self) -> tuple[str, ...]:
        """Return the languages, other than English, of the owner's sources of these kinds."""
        return tuple(self._rows[0].languages) if self._rows else ()

    @cached_property
    def _rows(self) -> list[_WordRow]:
        return list(starmap(_WordRow, self._read()))


def _words_query(archive_id: int, text: str, kinds: Collection[str]) -> tuple[Query, Mapping[str, Sequence[str]]]:
    """Return the query for the words of a text, with its parameters, and their other forms."""
    queried, forms = queried_text(storable(text))
    parameters = {
        "owner": archive_id, "kinds": sorted(kinds), "text": queried, "mark": MARK, "forms": asked_forms(forms)
    }  # fmt: skip
    return (load_sql("search.retrieval", "query_words"), parameters), forms


def asked_forms(forms: Mapping[str, Sequence[str]]) -> list[str]:
    """Return the forms of words that PostgreSQL is asked for in rows of their own: all but the words behind `MARK`."""
    return list(dict.fromkeys(form for word, of_word in forms.items() for form in of_word if form != f"{MARK}{word}"))


def _folded(row: _WordRow, forms: Sequence[str], rows: Mapping[str, _WordRow]) -> tuple[dict[str, frozenset[str]], str]:
    """Return the lexemes of the other forms of a word with their languages, and the word's lexeme in titles.

    A word without accents that is a stop word counts only where it is typed: German "sch\u00f6n" does not find "schon".
    """
    lexemes: dict[str, frozenset[str]] = {}
    title_lexeme = row.lexeme
    for form in forms:
        in_english, also = row.marked or form, row.also_marked
        if other := rows.get(form):
            in_english, also = other.lexeme, other.also
            if not form.startswith(MARK):
                title_lexeme = in_english
                if other.is_stop_word or other.stop_word_in:
                    continue
        lexemes[in_english] = frozenset()
        for language, foreign in zip(row.languages, also, strict=False):
            if foreign != in_english:
                lexemes[foreign] = lexemes.get(foreign, frozenset((language,))) | {language}
    return lexemes, title_lexeme
