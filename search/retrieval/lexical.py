"""The lexical retriever finds the items that contain words of the query, weighted by the words' idf.

The items and word counts come from postings cached in this process (`search/postings`), however long the items are;
BM25 and its variants are computed in `word_scores.py`. Source: docs/adr/0005-bm25-in-arrays.md,
0044-cache-postings-in-memory.md.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np

from convmemory.core.sql import PendingQuery, load_sql
from search.models import PostingBlock
from search.postings.cached import NOTHING, Mask, Occurrences, Postings, current_postings, send_digest_query
from search.retrieval.candidates import ITEM_BITS, LEXICAL, Feature, ItemKeys, Scores, item_keys
from search.retrieval.corpus import Corpus, PendingCorpus, QueryWord, inverse_document_frequency, quoted_lexeme
from search.retrieval.filters import Eligibility
from search.retrieval.prepared import PreparedQuery
from search.retrieval.retriever import Candidates
from search.retrieval.word_scores import RANKS, Ints, MatchedTerms, WordCounts, joined_counts, word_features

# Of a very long query, only the first terms are looked up.
MAX_TERMS = 40
SCOPE_COLUMNS = {
    "user": ("spoken", "A"),
    "assistant": ("spoken", "B"),
    "thinking": ("unspoken", "C"),
    "tool": ("unspoken", "D"),
}
HOMES = {"spoken": PostingBlock.Home.SPOKEN, "unspoken": PostingBlock.Home.UNSPOKEN}
# The letter of system prompts in `spoken`: their words find an item but are not counted.
SYSTEM_LETTER = "C"

Forms = Mapping[str, frozenset[str]]
"""The lexemes under which a term is looked up, each with the languages of the sources in which it counts."""
EVERYWHERE: frozenset[str] = frozenset()
"""No language: a lexeme that counts in all sources."""


class LexicalRetriever:
    """Finds the items that contain any term of the query in scope."""

    features = LEXICAL
    needs_vector = False

    def applies(self, query: PreparedQuery) -> bool:
        return True  # a search by meaning alone needs the weights of the words too

    def send(self, query: PreparedQuery, corpus: PendingCorpus) -> "PendingPostings":
        columns = {home for name, (home, _) in SCOPE_COLUMNS.items() if name in query.scope}
        digests = {column: send_digest_query(query.owner_id, HOMES[column]) for column in sorted(columns)}
        return PendingPostings(digests)


@dataclass(frozen=True, slots=True)
class PendingPostings:
    """The queries for the digests of the owner's postings by column, which have been sent."""

    digests: Mapping[str, PendingQuery]

    def read(self, query: PreparedQuery, corpus: Corpus) -> Candidates:
        """Return the items found and their features; for a search by meaning, only the weights of the words."""
        terms = _terms(query.words)
        found, aside = self._counts(query, terms, corpus.spoken_in) if terms else (WordCounts.nothing(), None)
        weights = inverse_document_frequency(found.items_by_term, max(corpus.items, len(found.keys)))
        idf = dict(zip(terms, weights.tolist(), strict=True))
        word_weights = _word_weights(query.words, idf, corpus.items)
        if query.mode == "semantic" and query.space is not None:
            return Candidates(word_weights=word_weights)
        if not len(found.keys):
            nothing = np.empty(0, np.float32)
            return Candidates(features=dict.fromkeys(LEXICAL, nothing), unseen=0.0, word_weights=word_weights)
        wide_keys, features = word_features(found, weights, corpus)
        if aside is not None:
            features[Feature.ASIDE_COVERAGE] = aside.coverage(wide_keys, weights)
        held = MatchedTerms.of_terms(found, list(terms), query.words)
        return Candidates(found.keys, wide_keys, features, unseen=0.0, word_weights=word_weights, held=held)

    def _counts(
        self, query: PreparedQuery, terms: Mapping[str, Forms], spoken_in: Mapping[str, Sequence[int]]
    ) -> "tuple[WordCounts, Aside | None]":
        """Count the terms in each eligible item; sources that are not packed yet take another statement.

        Also returns the terms outside of turns, if there are any. `spoken_in` are the sources with texts in languages
        other than English.
        """
        answers = {column: pending.rows()[0] for column, pending in self.digests.items()}
        eligibility = query.eligibility
        found, aside = [], None
        for column, (count, digest, unpacked) in answers.items():
            letters = _letters(column, query.scope)
            postings = current_postings(query.owner_id, HOMES[column], (count, digest)) or NOTHING
            packed = eligibility.without(unpacked or [])
            counts, said_aside = _packed_counts(postings, list(terms.values()), spoken_in, letters, packed)
            found.append(counts)
            aside = said_aside or aside
            if unpacked:
                rows = PendingQuery(*unpacked_statement(column, list(terms), query, unpacked)).rows()
                found.append(_ranked_counts(rows, eligibility))
        return joined_counts(found, len(terms)), aside


def _letters(column: str, scope: frozenset[str]) -> str:
    """Return the letters of the weights in scope in a column."""
    return "".join(letter for name, (home, letter) in SCOPE_COLUMNS.items() if home == column and name in scope)


def _terms(words: Sequence[QueryWord]) -> dict[str, Forms]:
    """Return distinct lexemes of the words without stop words (with them if there are no others), and their forms.

    The German lexeme of "longest", "long", counts in German sources only: in an English source it is another word.
    """
    terms: dict[str, dict[str, frozenset[str]]] = {}
    for word in [word for word in words if not word.is_stop_word] or words:
        forms = terms.setdefault(word.lexeme, {word.lexeme: EVERYWHERE})
        for language, lexeme in word.also.items():
            if lexeme != word.lexeme:
                forms[lexeme] = forms.get(lexeme, EVERYWHERE) | {language}
    return dict(islice(terms.items(), MAX_TERMS))


def _word_weights(words: Sequence[QueryWord], idf: Mapping[str, float], items: int) -> dict[str, float]:
    """Return the idf of each word; a stop word counts as if nearly every item contained it."""
    common = float(inverse_document_frequency(np.array([int(items * 0.7)]), items)[0])
    return {word.written: idf.get(word.lexeme, common) for word in words}


# --- counts from postings --------------------------------------------------------------------------


def _packed_counts(
    postings: Postings,
    terms: Sequence[Forms],
    spoken_in: Mapping[str, Sequence[int]],
    letters: str,
    eligibility: Eligibility,
) -> "tuple[WordCounts, Aside | None]":
    """Return the terms' counts in eligible items from the postings, each the sum of its forms, and the terms aside."""
    if not postings.segments:
        return WordCounts.nothing(), None
    stands = postings.occurrences([lexeme for forms in terms for lexeme in forms])
    if spoken_in:
        languages = [of_lexeme for forms in terms for of_lexeme in forms.values()]
        stands = stands.of(_in_their_languages(stands, languages, postings.keys >> ITEM_BITS, spoken_in))
    term_of = np.repeat(np.arange(len(terms)), [len(forms) for forms in terms])
    cells = term_of[stands.words] * len(postings.keys) + stands.places  # indices into the flattened `counts`
    counts = np.zeros((len(terms), len(postings.keys)), np.float32)
    for letter in letters:
        own = stands.letters == ord(letter) - ord("A")
        np.add.at(counts.reshape(-1), cells[own], stands.counts[own].astype(np.float32))
    aside = None
    if letters == "AB":
        beside = cells[stands.letters == ord(SYSTEM_LETTER) - ord("A")]
        counts.reshape(-1)[beside] = np.maximum(counts.reshape(-1)[beside], 1)
        if len(beside):
            aside = Aside.of_cells(np.unique(beside), postings.keys)
    if not eligibility.admits_all:
        counts[:, ~eligibility.admitted(postings.keys)] = 0
    return WordCounts.of_matrix(postings.keys, postings.lengths, counts), aside


@dataclass(frozen=True, slots=True)
class Aside:
    """Terms of the query outside of turns, in text that has no vector: (a,) the item's key and the term's number."""

    keys: ItemKeys
    terms: Ints

    @classmethod
    def of_cells(cls, cells: Ints, keys: ItemKeys) -> "Aside":
        """Create the values from indices into a flattened matrix of terms and items."""
        return cls(keys[cells % len(keys)], cells // len(keys))

    def coverage(self, keys: ItemKeys, weights: Scores) -> Scores:
        """Return the share of the weights of all terms that each of the items (keys sorted) contains aside."""
        places = np.searchsorted(keys, self.keys).clip(max=len(keys) - 1)
        inside = keys[places] == self.keys
        sums = np.bincount(places[inside], weights[self.terms[inside]], len(keys)).astype(np.float32)
        return sums / max(float(weights.sum()), 1e-6)


def _in_their_languages(
    stands: Occurrences, languages: Sequence[frozenset[str]], sources: Ints, spoken_in: Mapping[str, Sequence[int]]
) -> Mask:
    """Return which of the occurrences are in a source in their lexeme's language; `sources` (n,) are the items'."""
    counted = np.ones(len(stands.words), np.bool_)
    for group in {group for group in languages if group}:
        numbers = [number for number, of_lexeme in enumerate(languages) if of_lexeme == group]
        own = np.flatnonzero(np.isin(stands.words, numbers))
        allowed = [source for language in group for source in spoken_in.get(language, ())]
        counted[own] = np.isin(sources[stands.places[own]], allowed)
    return counted


# --- counts of unpacked sources --------------------------------------------------------------


def unpacked_statement(
    column: str, terms: Sequence[str], query: PreparedQuery, sources: Sequence[int]
) -> tuple[str, dict[str, Any]]:
    """Return the SQL that finds the items of unpacked `sources` with the terms in one column."""
    letters = _letters(column, query.scope)
    mask = "" if len(letters) == 2 else f":{letters}"
    return load_sql("search.retrieval", "lexical_matches").replace("{column}", column), {
        "owner": query.owner_id,
        "sources": list(sources),
        "queries": [quoted_lexeme(term) + mask for term in terms],
        "weights": [float(letter in letters) for letter in "DCBA"],
    }


def _ranked_counts(rows: Sequence[tuple[Any, ...]], eligibility: Eligibility) -> WordCounts:
    """Return counts recovered from `ts_rank`: for a word that occurs n times it is the sum over 1/i**2, scaled."""
    if not rows:
        return WordCounts.nothing()
    keys: list[ItemKeys] = [item_keys(row[1], row[2]) for row in rows]
    ranks = np.concatenate([np.asarray(row[3], np.float64) for row in rows])
    found = WordCounts.of_occurrences(
        np.concatenate(keys),
        np.concatenate([np.asarray(row[4], np.float32) for row in rows]),
        np.repeat([row[0] - 1 for row in rows], [len(own) for own in keys]),
        (np.searchsorted(RANKS, ranks - 1e-6) + 1).astype(np.float32),
    )
    return found.of_items(eligibility.admitted(found.keys))
