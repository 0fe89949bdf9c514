"""The lexical retriever finds the items that contain words of the query, weighted by the words' idf.

The items and word counts come from postings cached in this process (`search/postings`), however long the items are;
BM25 and its variants are computed in `word_scores.py`. Source: docs/adr/0005-bm25-in-arrays.md,
0044-cache-postings-in-memory.md.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import islice

import numpy as np

from search.block_cache import NO_BLOCKS
from search.models import PostingBlock
from search.postings.cached import Occurrences, find_words
from search.retrieval.candidates import ITEM_BITS, LEXICAL, NO_ITEMS, Feature, Ints, ItemKeys, Scores
from search.retrieval.corpus import Corpus, QueryWord, inverse_document_frequency
from search.retrieval.prepared import PreparedQuery
from search.retrieval.retriever import SearchState
from search.retrieval.word_scores import MatchedTerms, WordCounts, joined_counts, word_features

# Of a very long query, only the first terms are looked up.
MAX_TERMS = 40
# A word that an item has only in another form counts as this many, however often it occurs: BM25 then gives it .63 of a
# word that occurs once, so that an item with the form that was typed comes first (ADR 122).
FOLDED_COUNT = 0.5
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
Aside = tuple[ItemKeys, Ints]
"""Terms of the query outside of turns, in text that has no vector: (a,) the items' keys and the terms' numbers."""


class LexicalRetriever:
    """Finds the items that contain any term of the query in scope."""

    features = LEXICAL
    needs_vector = False

    def add_candidates(self, state: SearchState, corpus: Corpus) -> None:
        """Add the items found and their features; for a search by meaning, only which item has which word."""
        query = state.query
        terms = _terms(query.words)
        counts, aside = _counts(query, terms, corpus) if terms else (WordCounts.nothing(), None)
        weights = inverse_document_frequency(counts.items_by_term, max(corpus.items, len(counts.keys)))
        idf = dict(zip(terms, weights.tolist(), strict=True))
        # A stop word counts as if nearly every item contained it.
        common = float(inverse_document_frequency(np.array([int(corpus.items * 0.7)]), corpus.items)[0])
        state.word_weights = {word.written: idf.get(word.lexeme, common) for word in query.words}
        state.matched = MatchedTerms.of_terms(counts, list(terms), query.words)
        if query.mode == "semantic" and query.space is not None:
            return
        if not len(counts.keys):
            nothing = np.empty(0, np.float32)
            state.add(NO_ITEMS, dict.fromkeys(LEXICAL, nothing), unseen=0.0)
            return
        wide_keys, features = word_features(counts, weights, corpus)
        if aside is not None:
            # The share of the weights of all terms that each of the items contains aside.
            items, numbers = aside
            places = np.searchsorted(wide_keys, items).clip(max=len(wide_keys) - 1)
            inside = wide_keys[places] == items
            sums = np.bincount(places[inside], weights[numbers[inside]], len(wide_keys)).astype(np.float32)
            features[Feature.ASIDE_COVERAGE] = sums / max(float(weights.sum()), 1e-6)
        state.add(counts.keys, features, keys=wide_keys, unseen=0.0)


def columns_of(scope: Collection[str]) -> list[str]:
    """Return the columns of the words in scope."""
    return sorted({column for name, (column, _) in SCOPE_COLUMNS.items() if name in scope})


def _counts(query: PreparedQuery, terms: Mapping[str, Forms], corpus: Corpus) -> tuple[WordCounts, Aside | None]:
    """Count the terms in each eligible item; return the terms outside of turns, too, if there are any."""
    # The typed forms of all terms, then the folded ones.
    every_form = [*terms.values(), *_folded_forms(query.words, terms)]
    lexemes = [lexeme for forms in every_form for lexeme in forms]
    counted, aside = [], []
    for column in columns_of(query.scope):
        home = HOMES[column]
        digest = corpus.postings.get(home, NO_BLOCKS)
        # The letters of the weights in scope.
        letters = "".join(
            letter for name, (of, letter) in SCOPE_COLUMNS.items() if of == column and name in query.scope
        )
        occurring = find_words(query.archive_id, home, digest, lexemes, has_unpacked=corpus.has_unpacked)
        for keys, lengths, occurrences in occurring:
            stands = _in_their_languages(occurrences, every_form, keys, corpus.spoken_in)
            counts, said_aside = _counted(stands, every_form, len(terms), keys, letters)
            if not query.eligibility.admits_all:
                counts[:, ~query.eligibility.admitted(keys)] = 0
            counted.append(WordCounts.of_matrix(keys, lengths, counts))
            aside += said_aside
    if not aside:
        return joined_counts(counted, len(terms)), None
    items, numbers = zip(*aside, strict=True)
    return joined_counts(counted, len(terms)), (np.concatenate(items), np.concatenate(numbers))


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


def _folded_forms(words: Sequence[QueryWord], terms: Mapping[str, Forms]) -> list[Forms]:
    """Return the folded forms of each term."""
    forms: dict[str, dict[str, frozenset[str]]] = {lexeme: {} for lexeme in terms}
    for word in words:
        if word.lexeme in forms:
            forms[word.lexeme] |= {lexeme: of for lexeme, of in word.folded.items() if lexeme not in terms[word.lexeme]}
    return list(forms.values())


def _counted(
    stands: Occurrences, forms: Sequence[Forms], term_count: int, keys: ItemKeys, letters: str
) -> tuple[Scores, list[Aside]]:
    """Return the terms' counts (terms, n) in the items, each the sum of its forms, and the terms aside.

    `forms` are the typed forms of the terms, then the folded ones, which count where no typed form does.
    """
    form_of = np.repeat(np.arange(len(forms)), [len(of_term) for of_term in forms])[stands.words]
    cells = form_of % term_count * len(keys) + stands.places  # indices into the flattened `counts`
    is_typed = form_of < term_count
    counts = np.zeros((term_count, len(keys)), np.float32)
    flat, is_counted = counts.reshape(-1), np.zeros(len(cells), np.bool_)
    for letter in letters:
        is_own = stands.letters == ord(letter) - ord("A")
        is_counted |= is_own
        np.add.at(flat, cells[is_own & is_typed], stands.counts[is_own & is_typed].astype(np.float32))
    aside: list[Aside] = []
    if letters == "AB":
        is_beside = stands.letters == ord(SYSTEM_LETTER) - ord("A")
        is_counted |= is_beside
        beside = np.unique(cells[is_beside])
        typed_beside = cells[is_beside & is_typed]
        flat[typed_beside] = np.maximum(flat[typed_beside], 1)
        aside = [(keys[beside % len(keys)], beside // len(keys))] if len(beside) else []
    folded = cells[is_counted & ~is_typed]
    flat[folded[flat[folded] == 0]] = FOLDED_COUNT
    return counts, aside


def _in_their_languages(
    stands: Occurrences, terms: Iterable[Forms], keys: ItemKeys, spoken_in: Mapping[str, Sequence[int]]
) -> Occurrences:
    """Return the occurrences that are in a source in their lexeme's language."""
    if not spoken_in:
        return stands
    languages = [of_lexeme for forms in terms for of_lexeme in forms.values()]
    counted = np.ones(len(stands.words), np.bool_)
    for group in {group for group in languages if group}:
        numbers = [number for number, of_lexeme in enumerate(languages) if of_lexeme == group]
        in_language = np.flatnonzero(np.isin(stands.words, numbers))
        allowed = [source for language in group for source in spoken_in.get(language, ())]
        counted[in_language] = np.isin(keys[stands.places[in_language]] >> ITEM_BITS, allowed)
    return stands.of(counted)
