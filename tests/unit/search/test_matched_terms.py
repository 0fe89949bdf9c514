"""The words of a query that items contain, by their postings."""

import numpy as np
import pytest

from search.retrieval.candidates import item_keys
from search.retrieval.corpus import QueryWord
from search.retrieval.word_scores import MatchedTerms, WordCounts

WORDS = (QueryWord("bakes", "bake", False), QueryWord("the", "the", True), QueryWord("baking", "bake", False),
         QueryWord("rye", "rye", False))  # fmt: skip
KEYS = item_keys([1, 1, 2], [0, 4, 7])


def held() -> MatchedTerms:
    """The first item contains both terms, the second "bake", the third "rye"."""
    matrix = np.array([[2, 1, 0], [1, 0, 3]], np.float32)
    return MatchedTerms.of_terms(WordCounts.of_matrix(KEYS, np.ones(3, np.float32), matrix), ["bake", "rye"], WORDS)


def test_words_are_those_written_in_query() -> None:
    assert held().of_items(KEYS) == [{"bakes", "baking", "rye"}, {"bakes", "baking"}, {"rye"}]


@pytest.mark.parametrize("wanted", [[2, 0], [1], []])
def test_order_is_that_of_items_asked_for(wanted: list[int]) -> None:
    everything = held().of_items(KEYS)
    assert held().of_items(KEYS[wanted]) == [everything[place] for place in wanted]


def test_item_without_query_words_contains_none() -> None:
    everything = {"bakes", "baking", "rye"}
    assert held().of_items(item_keys([0, 1, 1, 9], [5, 0, 1, 9])) == [set(), everything, set(), set()]
    assert held().of_items(item_keys([2, 1, 1, 0], [7, 2, 0, 5])) == [{"rye"}, set(), everything, set()]
    assert held().of_items(item_keys([1, 1], [4, 1])) == [{"bakes", "baking"}, set()]


def test_empty_held_words_give_no_words_per_item() -> None:
    assert MatchedTerms().of_items(KEYS) == [set(), set(), set()]
