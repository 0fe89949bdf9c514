"""The words of a query with their lexemes, which PostgreSQL looks up while the query is embedded."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from convmemory.core.sql import PendingQuery, load_sql
from convmemory.core.text import storable
from search.vectors.texts import searchable

# A query with this many stop words of a language is in that language.
MIN_STOP_WORDS = 2


@dataclass(frozen=True, slots=True)
class QueryWord:
    """A word of the query as written, and its lexeme in the index; `also` are its lexemes in other languages."""

    written: str
    lexeme: str
    is_stop_word: bool
    also: Mapping[str, str] = field(default_factory=dict)


class PendingQueryWords:
    """A query for the words of a text that has been sent; its rows are read once, when first needed, and kept."""

    def __init__(self, owner_id: int, text: str, kinds: Collection[str]) -> None:
        parameters: dict[str, Any] = {"owner": owner_id, "kinds": sorted(kinds), "text": searchable(storable(text))}
        self._pending = PendingQuery(load_sql("search.retrieval", "query_words"), parameters, keeps_plan=True)

    @cached_property
    def words(self) -> tuple[QueryWord, ...]:
        """Return the words in the order of the query."""
        language = _language_of_query([row[4] for row in self._rows], in_english=sum(row[2] for row in self._rows))
        return tuple(
            QueryWord(written, lexeme, in_english or language in stop_word_in, dict(zip(spoken, also, strict=False)))
            for written, lexeme, in_english, also, stop_word_in, spoken in self._rows  # `also` may be empty
        )

    @property
    def languages(self) -> tuple[str, ...]:
        """Return the languages, other than English, of the owner's sources of these kinds."""
        return tuple(self._rows[0][5]) if self._rows else ()

    @cached_property
    def _rows(self) -> list[tuple[Any, ...]]:
        return self._pending.rows()


def _language_of_query(stop_word_in: Sequence[Sequence[str]], *, in_english: int) -> str:
    """Return the language in which most of the words are stop words; "" for English or if a single word would
    decide.
    """
    counts = Counter(language for languages in stop_word_in for language in languages)
    (language, count), *_ = counts.most_common(1) or [("", 0)]
    return language if count >= MIN_STOP_WORDS and count > in_english else ""
