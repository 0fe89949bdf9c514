"""Lexical scores of items, compared with the same formulas over the whole table of terms and items."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from search.retrieval.candidates import LEXICAL, Feature, item_keys, source_starts
from search.retrieval.corpus import Corpus, inverse_document_frequency
from search.retrieval.word_scores import K1, B, WordCounts, joined_counts, word_features

TERMS, SOURCES, ITEMS = 3, 3, 4


def corpus_of(sources: int, items: int) -> Corpus:
    ids = np.arange(1, sources + 1)
    return Corpus(ids, np.full(sources, items), np.full(sources, 50))


def floats(*values: float) -> np.ndarray:
    return np.array(values, np.float32)


def keys_of(sources: int, items: int) -> np.ndarray:
    return item_keys(np.repeat(np.arange(1, sources + 1), items).tolist(), list(range(items)) * sources)


def counted(keys: np.ndarray, counts: np.ndarray) -> WordCounts:
    lengths = np.arange(1, len(keys) + 1, dtype=np.float32) * 10
    return joined_counts([WordCounts.of_matrix(keys, lengths, counts.astype(np.float32))], len(counts))


def dense_features(
    counts: np.ndarray, lengths: np.ndarray, weights: np.ndarray, corpus: Corpus
) -> dict[str, np.ndarray]:
    """Each feature by its formula, over all terms and all items of `corpus`."""
    keys = keys_of(len(corpus.sources), int(corpus.item_counts[0]))
    table = counts.reshape(len(counts), len(corpus.sources), -1)
    nearby = table.copy()
    nearby[..., 1:] += table[..., :-1]
    nearby[..., :-1] += table[..., 1:]
    norm = K1 * (1 - B + B * lengths / corpus.mean_item_length)
    bm25 = weights @ (counts * (K1 + 1) / (counts + norm))
    sums = table.sum(axis=2)
    idf = inverse_document_frequency((sums > 0).sum(axis=1), len(corpus.sources))
    saturated = sums * (K1 + 1) / (sums + K1)  # all sources are equally long
    return {
        Feature.BM25: bm25,
        Feature.SOURCE_BM25: np.repeat(idf @ saturated, table.shape[2]),
        Feature.SOURCE_BEST_BM25: np.repeat(np.maximum.reduceat(bm25, source_starts(keys)), table.shape[2]),
        Feature.COVERAGE: weights @ (counts > 0) / weights.sum(),
        Feature.NEIGHBOUR_COVERAGE: weights @ (nearby > 0).reshape(len(counts), -1) / weights.sum(),
    }


@given(st.lists(st.integers(0, 3), min_size=TERMS * SOURCES * ITEMS, max_size=TERMS * SOURCES * ITEMS))
def test_scores_are_those_of_whole_table_of_terms_and_items(numbers: list[int]) -> None:
    counts = np.array(numbers).reshape(TERMS, -1)
    keys, corpus = keys_of(SOURCES, ITEMS), corpus_of(SOURCES, ITEMS)
    found = counted(keys, counts)
    weights = np.array([3.0, 1.5, 0.5], np.float32)
    if not len(found.keys):
        return
    wide, features = word_features(found, weights, corpus)
    lengths = np.zeros(len(keys))
    lengths[np.searchsorted(keys, found.keys)] = found.lengths
    expected = dense_features(counts, lengths, weights, corpus)
    assert features.keys() == expected.keys() == LEXICAL
    for name, scores in features.items():
        assert_allclose(scores, expected[name][np.searchsorted(keys, wide)], atol=1e-4, err_msg=name)


def test_counts_of_two_columns_are_added_per_item() -> None:
    keys = keys_of(1, 3)
    first = WordCounts.of_matrix(keys[:2], floats(7, 8), np.stack([floats(1, 0), floats(0, 2)]))
    second = WordCounts.of_matrix(keys[1:], floats(8, 9), np.stack([floats(0, 0), floats(3, 4)]))
    both = joined_counts([first, second], 2)
    assert both.keys.tolist() == keys.tolist()
    assert both.lengths.tolist() == [7, 8, 9]
    assert sorted(zip(both.terms.tolist(), both.places.tolist(), both.counts.tolist(), strict=True)) == [
        (0, 0, 1), (1, 1, 5), (1, 2, 4),
    ]  # fmt: skip
    assert both.items_by_term.tolist() == [1, 2]


@pytest.mark.parametrize("terms", [0, 2])
def test_joined_counts_of_nothing_are_zero(terms: int) -> None:
    assert joined_counts([], terms).items_by_term.tolist() == [0] * terms


def test_rare_words_weigh_more_and_none_weighs_less_than_nothing() -> None:
    weights = inverse_document_frequency(np.array([1, 50, 100]), 100)
    assert weights[0] > weights[1] > weights[2] >= 0
