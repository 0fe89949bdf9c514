"""Scores of whole conversations from counts of words."""

import numpy as np

from search.candidates import turn_keys
from search.corpus import Corpus
from search.lexical import _conversation_scores


def test_one_rare_word_outweighs_common_ones_where_its_idf_counts_twice() -> None:
    conversations = np.arange(1, 11)
    corpus = Corpus(conversations, np.ones(10, np.int64), np.full(10, 100), np.full(10, 5), conversations)
    keys = turn_keys(conversations.tolist(), [0] * 10)
    common = np.array([0, 2, 2, 2, 2, 2, 2, 0, 0, 0], np.float32)  # each of three words in six conversations
    rare = np.zeros(10, np.float32)
    rare[0] = 1
    found = _conversation_scores(keys, np.stack([rare, common, common, common]), corpus)
    assert found["conversation"][0] < found["conversation"][1]
    assert found["conversation_rare"][0] > found["conversation_rare"][1]
    assert found["conversation_rare"][9] == 0
