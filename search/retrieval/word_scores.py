"""Scores items by the words they contain: BM25 of items, of items with their neighbours, of whole sources.

Counts come as one number for each term in an item, so that the work is proportional to the words found, not to all
items times all terms. Source: docs/adr/0005-bm25-in-arrays.md.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from search.retrieval.candidates import (
    ITEM_BITS,
    ITEM_MASK,
    NO_ITEMS,
    Feature,
    Ints,
    ItemKeys,
    Scores,
    best_of_source,
    distinct,
    source_starts,
)
from search.retrieval.corpus import Corpus, QueryWord, inverse_document_frequency

# BM25 with other k1 and b gave no gain (ADR 7).
K1, B = 1.5, 0.75


@dataclass(frozen=True, slots=True)
class WordCounts:
    """Items (n,), keys sorted, with their lengths; and (c,) the count of a term in an item."""

    keys: ItemKeys
    lengths: Scores
    terms: Ints
    places: Ints
    counts: Scores
    term_count: int = 0

    @property
    def items_by_term(self) -> Ints:
        """Return the number of items that contain each term as it was typed, of others in which form they have it."""
        typed = np.bincount(self.terms[self.counts >= 1], minlength=self.term_count)
        return np.where(typed > 0, typed, np.bincount(self.terms, minlength=self.term_count))

    @classmethod
    def nothing(cls) -> "WordCounts":
        no_number = np.empty(0, np.int64)
        return cls(NO_ITEMS, np.empty(0, np.float32), no_number, no_number, np.empty(0, np.float32))

    @classmethod
    def of_matrix(cls, keys: ItemKeys, lengths: Scores, counts: Scores) -> "WordCounts":
        """Create counts from `counts` (terms, n) over sorted keys; items without any term are left out."""
        filled = counts != 0
        cells = np.flatnonzero(filled)
        terms = np.repeat(np.arange(len(counts)), np.count_nonzero(filled, axis=1))
        places = cells - terms * len(keys)
        is_filled = filled.any(axis=0)
        if not is_filled.all():
            places = (np.cumsum(is_filled) - 1)[places]
            keys, lengths = keys[is_filled], lengths[is_filled]
        return cls(keys, lengths, terms, places, counts.reshape(-1)[cells])

    def of_items(self, chosen: NDArray[np.bool_]) -> "WordCounts":
        """Return the counts of these items alone."""
        kept = chosen[self.places]
        number = np.cumsum(chosen) - 1
        return WordCounts(
            self.keys[chosen], self.lengths[chosen], self.terms[kept], number[self.places[kept]], self.counts[kept]
        )


def joined_counts(parts: Sequence[WordCounts], term_count: int) -> WordCounts:
    """Sum the counts of several columns."""
    filled = [one for one in parts if len(one.keys)]
    if len(filled) == 1:
        one = filled[0]
        return WordCounts(one.keys, one.lengths, one.terms, one.places, one.counts, term_count)
    if not filled:
        empty = WordCounts.nothing()
        return WordCounts(empty.keys, empty.lengths, empty.terms, empty.places, empty.counts, term_count)
    keys = distinct(np.concatenate([one.keys for one in filled]))
    lengths = np.zeros(len(keys), np.float32)
    counts = np.zeros((term_count, len(keys)), np.float32)
    for one in filled:
        position = np.searchsorted(keys, one.keys)
        lengths[position] = one.lengths
        counts[one.terms, position[one.places]] += one.counts
    joined = WordCounts.of_matrix(keys, lengths, counts)
    return WordCounts(joined.keys, joined.lengths, joined.terms, joined.places, joined.counts, term_count)


def word_features(matched: WordCounts, weights: Scores, corpus: Corpus) -> tuple[ItemKeys, dict[str, Scores]]:
    """Return features of the items found and of their neighbours, and the keys of both; `weights` are the terms'."""
    keys, own_places = _with_neighbours(matched.keys, corpus)
    places, weight = own_places[matched.places], weights[matched.terms]
    norms = K1 * (1 - B + B * matched.lengths / max(corpus.mean_item_length, 1.0))
    bm25 = _summed(places, weight * _saturated(matched.counts, norms[matched.places]), len(keys))
    matched_terms = np.zeros((len(weights), len(keys)), np.bool_)
    matched_terms.reshape(-1)[matched.terms * len(keys) + places] = True
    is_adjacent = np.diff(keys) == 1
    # The terms that each item, or its neighbours, contain.
    terms_nearby = matched_terms.copy()
    terms_nearby[:, 1:] |= matched_terms[:, :-1] & is_adjacent
    terms_nearby[:, :-1] |= matched_terms[:, 1:] & is_adjacent
    total = max(float(weights.sum()), 1e-6)
    return keys, {
        Feature.BM25: bm25,
        Feature.SOURCE_BM25: _of_sources(keys, places, matched, corpus),
        Feature.SOURCE_BEST_BM25: best_of_source(keys, bm25),
        Feature.COVERAGE: _summed(places, weight, len(keys)) / total,
        Feature.NEIGHBOUR_COVERAGE: weights @ terms_nearby / total,
    }


def _saturated(counts: Scores, norms: Scores) -> Scores:
    """Return BM25's share of a word that occurs this often."""
    return counts * (K1 + 1) / (counts + norms)


def _summed(places: Ints, values: NDArray[np.floating[Any]], size: int) -> Scores:
    """Sum the values at each place."""
    return np.bincount(places, values, size).astype(np.float32)


def _with_neighbours(keys: ItemKeys, corpus: Corpus) -> tuple[ItemKeys, Ints]:
    """Return the keys with those of existing neighbours, and the places of the keys among all of them."""
    starts = source_starts(keys)
    counts = corpus.of_sources(keys[starts] >> ITEM_BITS, corpus.item_counts)
    counts = np.repeat(counts, np.diff(starts, append=len(keys)))
    numbers = keys & ITEM_MASK
    gaps = np.diff(keys)
    is_preceded, is_followed = (numbers > 0) & (numbers <= counts), numbers + 1 < counts
    is_preceded[1:] &= gaps > 2  # otherwise the item before is one of the keys, or follows one
    is_followed[:-1] &= gaps > 1
    added_before: Ints = np.cumsum(is_preceded) + np.cumsum(is_followed) - is_followed
    wide = np.concatenate([keys, keys[is_preceded] - 1, keys[is_followed] + 1])
    return np.sort(wide, kind="stable"), np.arange(len(keys)) + added_before


def _of_sources(keys: ItemKeys, places: Ints, matched: WordCounts, corpus: Corpus) -> Scores:
    """Return BM25 of each item's whole source."""
    starts = source_starts(keys)
    sizes = np.diff(starts, append=len(keys))
    source = np.repeat(np.arange(len(starts)), sizes)
    shape = matched.term_count, len(starts)
    sums = np.bincount(matched.terms * shape[1] + source[places], matched.counts, shape[0] * shape[1]).reshape(shape)
    lengths = corpus.of_sources(keys[starts] >> ITEM_BITS, corpus.lengths)
    mean_length = float(corpus.lengths.sum()) / max(len(corpus.sources), 1)
    norms = K1 * (1 - B + B * lengths / max(mean_length, 1.0))
    idf = inverse_document_frequency((sums > 0).sum(axis=1), max(len(corpus.sources), len(starts)))
    saturated = _saturated(sums.astype(np.float32), norms.astype(np.float32))
    of_items: Scores = np.repeat(idf @ saturated, sizes)
    return of_items


@dataclass(frozen=True, slots=True)
class MatchedTerms:
    """The counts of a query's terms, and for each term its words as written in the query."""

    counts: WordCounts = field(default_factory=WordCounts.nothing)
    words: Sequence[frozenset[str]] = ()

    @classmethod
    def of_terms(cls, counts: WordCounts, terms: Sequence[str], words: Sequence[QueryWord]) -> "MatchedTerms":
        """Create the values; `terms` are lexemes of the words."""
        written: dict[str, set[str]] = {term: set() for term in terms}
        for word in words:
            if word.lexeme in written:
                written[word.lexeme].add(word.written)
        return cls(counts, [frozenset(written[term]) for term in terms])

    @property
    def any_of_items(self) -> frozenset[str]:
        """Return the words that any item contains."""
        return frozenset().union(*(self.words[term] for term in np.unique(self.counts.terms)))

    def of_items(self, keys: ItemKeys) -> list[frozenset[str]]:
        """Return the words that each of a few items contains; none for an item found by its vector alone."""
        words: list[frozenset[str]] = [frozenset()] * len(keys)
        if not len(self.counts.keys):
            return words
        at = np.minimum(np.searchsorted(self.counts.keys, keys), len(self.counts.keys) - 1)
        present = np.flatnonzero(self.counts.keys[at] == keys)
        number = np.full(len(self.counts.keys), -1)
        number[at[present]] = present
        entries = np.flatnonzero(number[self.counts.places] >= 0)
        numbers = number[self.counts.places[entries]].tolist()
        for item, term in zip(numbers, self.counts.terms[entries].tolist(), strict=True):
            words[item] |= self.words[term]
        return words
