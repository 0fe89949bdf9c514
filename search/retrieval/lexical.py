"""The lexical retriever: which items hold which words of the query, weighed by how rare the words are.

PostgreSQL finds the items and how often each holds a word; BM25 over items, over neighbours and over
whole sources is computed from that here, in arrays. Source: docs/adr/0005-lexical-score.md.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from convmemory.core.sql import PendingQuery, load_sql
from search.retrieval.candidates import (
    ITEM_BITS,
    NO_ITEMS,
    ItemKeys,
    Scores,
    best_of_source,
    item_keys,
    source_starts,
)
from search.retrieval.corpus import Corpus, PendingCorpus
from search.retrieval.features import LEXICAL, Feature
from search.retrieval.filters import filter_sql
from search.retrieval.prepared import PreparedQuery, QueryWord
from search.retrieval.retriever import Candidates

K1, B = 1.5, 0.75
NEIGHBOUR_SHARE = 0.5
MAX_TERMS = 40  # of a very long query, the first
SCOPE_COLUMNS = {
    "user": ("spoken", "A"),
    "assistant": ("spoken", "B"),
    "thinking": ("unspoken", "C"),
    "tool": ("unspoken", "D"),
}
# ts_rank of a word that stands n times is this sum over 1/i**2, scaled; inverted it gives n back.
_RANKS = np.cumsum(1.0 / np.arange(1, 257) ** 2) / 1.64493406685


class LexicalRetriever:
    """Finds the items that hold any term of the query in scope."""

    features = LEXICAL
    needs_vector = False

    def applies(self, query: PreparedQuery) -> bool:
        return True  # a search by meaning alone needs the weights of the words, too

    def send(self, query: PreparedQuery, corpus: PendingCorpus) -> "PendingWords":
        terms = _terms(query.words)
        columns = {home for name, (home, _) in SCOPE_COLUMNS.items() if name in query.scope} if terms else set()
        return PendingWords(
            terms, [PendingQuery(*lexical_statement(column, terms, query)) for column in sorted(columns)]
        )


@dataclass(frozen=True, slots=True)
class PendingWords:
    """The statements that look for the terms."""

    terms: Sequence[str]
    statements: Sequence[PendingQuery]

    def read(self, query: PreparedQuery, corpus: Corpus) -> Candidates:
        """Of a search by meaning the weights of the words alone."""
        rows = [row for statement in self.statements for row in statement.rows()]
        keys, counts, lengths = _count_matrix(rows, len(self.terms))
        weights = inverse_document_frequency((counts > 0).sum(axis=1), max(corpus.items, len(keys)))
        idf = dict(zip(self.terms, weights.tolist(), strict=True))
        word_weights = _word_weights(query.words, idf, corpus.items)
        if query.mode == "semantic" and query.space is not None:
            return Candidates(word_weights=word_weights)
        if not len(keys):
            nothing = np.empty(0, np.float32)
            return Candidates(features=dict.fromkeys(LEXICAL, nothing), unseen=0.0, word_weights=word_weights)
        wide_keys, features = _features(keys, counts, lengths, weights, corpus)
        return Candidates(keys, wide_keys, features, unseen=0.0, word_weights=word_weights)


def inverse_document_frequency(found_in: NDArray[np.int64], documents: int) -> Scores:
    """BM25's idf, never negative: ln(1 + (N - df + .5) / (df + .5))."""
    return np.log1p((documents - found_in + 0.5) / (found_in + 0.5)).clip(min=0).astype(np.float32)


# --- the statements ---------------------------------------------------------------------------------


def _terms(words: Sequence[QueryWord]) -> list[str]:
    """Distinct lexemes of the words that are no stop words; of all words where all are."""
    content = [word.lexeme for word in words if not word.is_stop_word]
    return list(dict.fromkeys(content or [word.lexeme for word in words]))[:MAX_TERMS]


def lexical_statement(column: str, terms: Sequence[str], query: PreparedQuery) -> tuple[str, dict[str, Any]]:
    """The SQL that finds the items which hold the terms in one column, and its parameters."""
    letters = "".join(
        letter for name, (home, letter) in SCOPE_COLUMNS.items() if home == column and name in query.scope
    )
    mask = "" if len(letters) == 2 else f":{letters}"
    condition, parameters = filter_sql(query.filters, query.text, document="d")
    statement = load_sql("search", "lexical_matches").replace("{column}", column).replace("{filters}", condition)
    return statement, parameters | {
        "owner": query.owner_id,
        "owner_word": _quoted(f"owner {query.owner_id}"),
        "queries": [_quoted(term) + mask for term in terms],
        "weights": [float(letter in letters) for letter in "DCBA"],
    }


def _quoted(lexeme: str) -> str:
    """The lexeme as a literal in tsquery's own syntax."""
    escaped = lexeme.replace("\\", "\\\\").replace("'", "''")
    return f"'{escaped}'"


# --- what is computed from it ---------------------------------------------------------------------


def _count_matrix(rows: Sequence[tuple[Any, ...]], terms: int) -> tuple[ItemKeys, Scores, Scores]:
    """Keys of the items found, how often each holds each term (terms, items), and their lengths."""
    found = [item_keys(row[1], row[2]) for row in rows]
    keys = np.unique(np.concatenate(found)) if found else NO_ITEMS
    counts = np.zeros((terms, len(keys)), np.float32)
    lengths = np.zeros(len(keys), np.float32)
    for row, row_keys in zip(rows, found, strict=True):
        places = np.searchsorted(keys, row_keys)
        ranks = np.asarray(row[3], np.float64)
        counts[row[0] - 1, places] += np.searchsorted(_RANKS, ranks - 1e-6) + 1
        lengths[places] = row[4]
    return keys, counts, lengths


def _features(
    keys: ItemKeys, counts: Scores, lengths: Scores, weights: Scores, corpus: Corpus
) -> tuple[ItemKeys, dict[str, Scores]]:
    """Features of the items found and of those beside them; the keys of all these."""
    all_keys = _with_neighbours(keys, corpus)
    places = np.searchsorted(all_keys, keys)
    wide = np.zeros((len(weights), len(all_keys)), np.float32)
    wide[:, places] = counts
    wide_lengths = np.zeros(len(all_keys), np.float32)
    wide_lengths[places] = lengths
    saturated = np.where(wide > 0, _RANKS[np.minimum(wide.astype(int), 256) - 1], 0).astype(np.float32)
    before, after = _shifted(all_keys, saturated)
    held = (wide > 0) | (before > 0) | (after > 0)
    bm25 = _bm25(wide, wide_lengths, weights, corpus.mean_item_length)
    total = max(float(weights.sum()), 1e-6)
    return all_keys, {
        Feature.BM25: bm25,
        Feature.NEIGHBOUR_BM25: weights @ (saturated + NEIGHBOUR_SHARE * (before + after)),
        **_source_features(all_keys, wide, corpus),
        Feature.SOURCE_BEST_BM25: best_of_source(all_keys, bm25),
        Feature.COVERAGE: weights @ (wide > 0) / total,
        Feature.NEIGHBOUR_COVERAGE: weights @ held / total,
    }


def _with_neighbours(keys: ItemKeys, corpus: Corpus) -> ItemKeys:
    """The keys and those of the items just before and after them."""
    everything = np.unique(np.concatenate([keys, keys - 1, keys + 1]))
    place = np.searchsorted(corpus.sources, everything >> ITEM_BITS).clip(max=len(corpus.sources) - 1)
    exists = corpus.sources[place] == everything >> ITEM_BITS
    exists &= (everything & ((1 << ITEM_BITS) - 1)) < corpus.item_counts[place]
    kept: ItemKeys = everything[exists | np.isin(everything, keys)]
    return kept


def _shifted(keys: ItemKeys, values: Scores) -> tuple[Scores, Scores]:
    """The values of the item before and of the item after, zero where there is none."""
    before, after = np.zeros_like(values), np.zeros_like(values)
    adjacent = np.flatnonzero(np.diff(keys) == 1)
    before[:, adjacent + 1] = values[:, adjacent]
    after[:, adjacent] = values[:, adjacent + 1]
    return before, after


def _bm25(counts: Scores, lengths: Scores, weights: Scores, mean_length: float) -> Scores:
    norm = K1 * (1 - B + B * lengths / max(mean_length, 1.0))
    scores = weights @ (counts * (K1 + 1) / (counts + norm))
    return scores.astype(np.float32)


def _source_features(keys: ItemKeys, counts: Scores, corpus: Corpus) -> dict[str, Scores]:
    """BM25 of each item's whole source, and that with idf squared: a long source holds every common word."""
    starts = source_starts(keys)
    sums = np.add.reduceat(counts, starts, axis=1)
    place = np.searchsorted(corpus.sources, keys[starts] >> ITEM_BITS).clip(max=len(corpus.sources) - 1)
    own_lengths = corpus.lengths[place].astype(np.float32)
    idf = inverse_document_frequency((sums > 0).sum(axis=1), len(corpus.sources))
    mean_length, sizes = float(corpus.lengths.mean()), np.diff(starts, append=len(keys))
    return {
        Feature.SOURCE_BM25: np.repeat(_bm25(sums, own_lengths, idf, mean_length), sizes),
        Feature.SOURCE_BM25_RARE: np.repeat(_bm25(sums, own_lengths, idf**2, mean_length), sizes),
    }


def _word_weights(words: Sequence[QueryWord], idf: Mapping[str, float], items: int) -> dict[str, float]:
    """The idf of each word; a stop word counts as one that stands in nearly every item."""
    common = float(inverse_document_frequency(np.array([int(items * 0.7)]), items)[0])
    return {word.written: idf.get(word.lexeme, common) for word in words}
