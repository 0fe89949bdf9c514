"""Finds which of a query's words the items contain, from their postings, without reading their texts."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from search.retrieval.candidates import ItemKeys
from search.retrieval.query_words import QueryWord
from search.retrieval.word_scores import WordCounts


@dataclass(frozen=True, slots=True)
class HeldWords:
    """The counts of a query's terms, and for each term its words as written in the query."""

    counts: WordCounts = field(default_factory=WordCounts.nothing)
    words: Sequence[frozenset[str]] = ()

    @classmethod
    def of_terms(cls, counts: WordCounts, terms: Sequence[str], words: Sequence[QueryWord]) -> "HeldWords":
        """Create the values; `terms` are lexemes of the words."""
        written: dict[str, set[str]] = {term: set() for term in terms}
        for word in words:
            if word.lexeme in written:
                written[word.lexeme].add(word.written)
        return cls(counts, [frozenset(written[term]) for term in terms])

    def of_items(self, keys: ItemKeys) -> list[frozenset[str]]:
        """Return the words that each of a few items contains; none for an item found by its vector alone."""
        found: list[frozenset[str]] = [frozenset()] * len(keys)
        if not len(self.counts.keys):
            return found
        at = np.minimum(np.searchsorted(self.counts.keys, keys), len(self.counts.keys) - 1)
        known = np.flatnonzero(self.counts.keys[at] == keys)
        number = np.full(len(self.counts.keys), -1)
        number[at[known]] = known
        entries = np.flatnonzero(number[self.counts.places] >= 0)
        numbers = number[self.counts.places[entries]].tolist()
        for item, term in zip(numbers, self.counts.terms[entries].tolist(), strict=True):
            found[item] |= self.words[term]
        return found
