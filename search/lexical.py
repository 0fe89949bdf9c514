"""The full text leg: which turns hold which words of the query, weighed by how rare the words are.

PostgreSQL finds the turns and how often each holds a word; BM25 over turns, over neighbours and over
whole conversations is computed from that here, in arrays. Three queries at most per search; what takes time
is only sent by `ask_words`, so that a query can be embedded meanwhile.
Source: docs/adr/0005-lexical-score.md.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from django.db import connection

from convmemory.conversations.reading import Filters
from convmemory.core.sql import Asked, load_sql
from convmemory.core.text import storable
from search.candidates import NO_TURNS, TURN_BITS, TurnKeys, best_of_conversation, conversation_starts, turn_keys
from search.corpus import Corpus
from search.filters import filter_sql
from search.query_text import QueryText
from search.ranking import Scores, inverse_document_frequency
from search.vectors.texts import searchable

K1, B = 1.5, 0.75
NEIGHBOUR_SHARE = 0.5
MAX_TERMS = 40  # of a very long query, the first
SCOPE_COLUMNS = {
    "user": ("spoken", "A"),
    "assistant": ("spoken", "B"),
    "thinking": ("unspoken", "C"),
    "tool": ("unspoken", "D"),
}
Word = tuple[str, str, bool]  # as it is written, its lexeme, whether it is a stop word
# ts_rank of a word that stands n times is this sum over 1/i**2, scaled; inverted it gives n back.
_RANKS = np.cumsum(1.0 / np.arange(1, 257) ** 2) / 1.64493406685


@dataclass(frozen=True, slots=True)
class LexicalMatches:
    """Lexical signals by turn: keys sorted, a score each by signal.

    `matched` are the turns that hold a term and pass the filters; `keys` has their neighbours, too.
    `word_weights` gives the idf of each word of the query, for late interaction.
    """

    matched: TurnKeys
    keys: TurnKeys
    signals: dict[str, Scores]
    word_weights: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class AskedWords:
    """What PostgreSQL is looking for: the query's words, their terms, and the statements that were sent."""

    words: Sequence[Word]
    terms: Sequence[str]
    statements: Sequence[Asked]

    def rows(self) -> list[tuple[Any, ...]]:
        """Waits until the turns are found."""
        return [row for statement in self.statements for row in statement.rows()]


def ask_words(*, owner_id: int, text: QueryText, scope: frozenset[str], filters: Filters) -> AskedWords:
    """Send what finds the turns that any term of the query touches."""
    words = _query_words(text.text)
    terms = _terms(words)
    columns = {home for name, (home, _) in SCOPE_COLUMNS.items() if name in scope} if terms else set()
    statements = [
        Asked(*lexical_statement(owner_id, column, terms, text, scope, filters)) for column in sorted(columns)
    ]
    return AskedWords(words, terms, statements)


def lexical_matches(asked: AskedWords, rows: Sequence[tuple[Any, ...]], corpus: Corpus) -> LexicalMatches:
    """The lexical signals of every turn that was found; `rows` are those of what was asked."""
    keys, counts, lengths = _count_matrix(rows, len(asked.terms))
    weights = inverse_document_frequency((counts > 0).sum(axis=1), max(corpus.turns, len(keys)))
    term_weights = dict(zip(asked.terms, weights.tolist(), strict=True))
    word_weights = _word_weights(asked.words, term_weights, corpus.turns)
    if not len(keys):
        return LexicalMatches(NO_TURNS, NO_TURNS, {}, word_weights)
    return LexicalMatches(keys, *_signals(keys, counts, lengths, weights, corpus), word_weights)


# --- what PostgreSQL is asked ---------------------------------------------------------------------


def _query_words(text: str) -> list[Word]:
    """In the order of the query."""
    with connection.cursor() as cursor:
        cursor.execute(load_sql("search", "query_words"), [searchable(storable(text))])
        return list(cursor.fetchall())


def _terms(words: Sequence[Word]) -> list[str]:
    """Distinct lexemes of the words that are no stop words; of all words where all are."""
    telling = [lexeme for _, lexeme, stop in words if not stop]
    return list(dict.fromkeys(telling or [lexeme for _, lexeme, _ in words]))[:MAX_TERMS]


def lexical_statement(
    owner_id: int, column: str, terms: Sequence[str], text: QueryText, scope: frozenset[str], filters: Filters
) -> tuple[str, dict[str, Any]]:
    """The SQL that finds the turns which hold the terms in one column, and its parameters."""
    letters = "".join(letter for name, (home, letter) in SCOPE_COLUMNS.items() if home == column and name in scope)
    mask = "" if len(letters) == 2 else f":{letters}"
    condition, parameters = filter_sql(filters, text, document="d")
    statement = load_sql("search", "lexical_matches").replace("{column}", column).replace("{filters}", condition)
    return statement, parameters | {
        "owner": owner_id,
        "owner_word": _quoted(f"owner {owner_id}"),
        "queries": [_quoted(term) + mask for term in terms],
        "weights": [float(letter in letters) for letter in "DCBA"],
    }


def _quoted(lexeme: str) -> str:
    """The lexeme as a literal in tsquery's own syntax."""
    escaped = lexeme.replace("\\", "\\\\").replace("'", "''")
    return f"'{escaped}'"


# --- what is computed from it ---------------------------------------------------------------------


def _count_matrix(rows: Sequence[tuple[Any, ...]], terms: int) -> tuple[TurnKeys, Scores, Scores]:
    """Keys of the matched turns, how often each holds each term (terms, turns), and their lengths."""
    found = [turn_keys(row[1], row[2]) for row in rows]
    keys = np.unique(np.concatenate(found)) if found else NO_TURNS
    counts = np.zeros((terms, len(keys)), np.float32)
    lengths = np.zeros(len(keys), np.float32)
    for row, row_keys in zip(rows, found, strict=True):
        places = np.searchsorted(keys, row_keys)
        ranks = np.asarray(row[3], np.float64)
        counts[row[0] - 1, places] += np.searchsorted(_RANKS, ranks - 1e-6) + 1
        lengths[places] = row[4]
    return keys, counts, lengths


def _signals(
    keys: TurnKeys, counts: Scores, lengths: Scores, weights: Scores, corpus: Corpus
) -> tuple[TurnKeys, dict[str, Scores]]:
    all_keys = _with_neighbours(keys, corpus)
    places = np.searchsorted(all_keys, keys)
    wide = np.zeros((len(weights), len(all_keys)), np.float32)
    wide[:, places] = counts
    wide_lengths = np.zeros(len(all_keys), np.float32)
    wide_lengths[places] = lengths
    saturated = np.where(wide > 0, _RANKS[np.minimum(wide.astype(int), 256) - 1], 0).astype(np.float32)
    before, after = _shifted(all_keys, saturated)
    held = (wide > 0) | (before > 0) | (after > 0)
    lexical = _bm25(wide, wide_lengths, weights, corpus.mean_turn_length)
    total = max(float(weights.sum()), 1e-6)
    return all_keys, {
        "lexical": lexical,
        "neighbours": weights @ (saturated + NEIGHBOUR_SHARE * (before + after)),
        **_conversation_scores(all_keys, wide, corpus),
        "conversation_best": best_of_conversation(all_keys, lexical),
        "coverage": weights @ (wide > 0) / total,
        "neighbour_coverage": weights @ held / total,
    }


def _with_neighbours(keys: TurnKeys, corpus: Corpus) -> TurnKeys:
    """The keys and those of the turns just before and after them."""
    everything = np.unique(np.concatenate([keys, keys - 1, keys + 1]))
    place = np.searchsorted(corpus.conversations, everything >> TURN_BITS).clip(max=len(corpus.conversations) - 1)
    exists = corpus.conversations[place] == everything >> TURN_BITS
    exists &= (everything & ((1 << TURN_BITS) - 1)) < corpus.turn_counts[place]
    kept: TurnKeys = everything[exists | np.isin(everything, keys)]
    return kept


def _shifted(keys: TurnKeys, values: Scores) -> tuple[Scores, Scores]:
    """The values of the turn before and of the turn after, zero where there is none."""
    before, after = np.zeros_like(values), np.zeros_like(values)
    adjacent = np.flatnonzero(np.diff(keys) == 1)
    before[:, adjacent + 1] = values[:, adjacent]
    after[:, adjacent] = values[:, adjacent + 1]
    return before, after


def _bm25(counts: Scores, lengths: Scores, weights: Scores, mean_length: float) -> Scores:
    norm = K1 * (1 - B + B * lengths / max(mean_length, 1.0))
    scores = weights @ (counts * (K1 + 1) / (counts + norm))
    return scores.astype(np.float32)


def _conversation_scores(keys: TurnKeys, counts: Scores, corpus: Corpus) -> dict[str, Scores]:
    """BM25 of each turn's whole conversation, and that with idf squared: a long one holds every common word."""
    starts = conversation_starts(keys)
    sums = np.add.reduceat(counts, starts, axis=1)
    place = np.searchsorted(corpus.conversations, keys[starts] >> TURN_BITS).clip(max=len(corpus.conversations) - 1)
    own_lengths = corpus.lengths[place].astype(np.float32)
    idf = inverse_document_frequency((sums > 0).sum(axis=1), len(corpus.conversations))
    mean_length, sizes = float(corpus.lengths.mean()), np.diff(starts, append=len(keys))
    return {
        "conversation": np.repeat(_bm25(sums, own_lengths, idf, mean_length), sizes),
        "conversation_rare": np.repeat(_bm25(sums, own_lengths, idf**2, mean_length), sizes),
    }


def _word_weights(words: Sequence[Word], idf: dict[str, float], turns: int) -> dict[str, float]:
    """The idf of each word; a stop word counts as one that stands in nearly every turn."""
    common = float(inverse_document_frequency(np.array([int(turns * 0.7)]), turns)[0])
    return {word: idf.get(lexeme, common) for word, lexeme, _ in words}
