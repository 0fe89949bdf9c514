"""Scores of whole conversations from counts of words."""

import numpy as np

from search.retrieval.candidates import item_keys
from search.retrieval.corpus import Corpus
from search.retrieval.features import Feature
from search.retrieval.lexical import _source_features, inverse_document_frequency


def test_one_rare_word_outweighs_common_ones_where_its_idf_counts_twice() -> None:
    conversations = np.arange(1, 11)
    corpus = Corpus(conversations, np.ones(10, np.int64), np.full(10, 100), np.full(10, 5), conversations)
    keys = item_keys(conversations.tolist(), [0] * 10)
    common = np.array([0, 2, 2, 2, 2, 2, 2, 0, 0, 0], np.float32)  # each of three words in six conversations
    rare = np.zeros(10, np.float32)
    rare[0] = 1
    found = _source_features(keys, np.stack([rare, common, common, common]), corpus)
    assert found[Feature.SOURCE_BM25][0] < found[Feature.SOURCE_BM25][1]
    assert found[Feature.SOURCE_BM25_RARE][0] > found[Feature.SOURCE_BM25_RARE][1]
    assert found[Feature.SOURCE_BM25_RARE][9] == 0


def test_rare_words_weigh_more_and_none_weighs_less_than_nothing() -> None:
    weights = inverse_document_frequency(np.array([1, 50, 100]), 100)
    assert weights[0] > weights[1] > weights[2] >= 0
