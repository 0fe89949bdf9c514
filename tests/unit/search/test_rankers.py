"""Linear rankers, their checked weights, and the blend by the length of items."""

import json
from importlib import resources

import numpy as np
import pytest
from numpy.testing import assert_allclose

from convmemory.conversations.filters import Filters
from search.pipeline import Rankers, second_ranker
from search.query_text import QueryText
from search.ranking.rankers import (
    BlendedRanker,
    LinearRanker,
    MissingFeature,
    long_share,
    weights_of,
)
from search.retrieval.candidates import (
    DENSE,
    LATE_INTERACTION,
    Feature,
    FeatureTable,
    MessageFeature,
    item_keys,
)
from search.retrieval.prepared import PreparedQuery

KEYS = item_keys([1, 1, 2], [0, 1, 0])


def array(*values: float) -> np.ndarray:
    return np.array(values, dtype=np.float32)


WORDS = {Feature.BM25, Feature.SOURCE_BM25, Feature.NEIGHBOUR_COVERAGE, Feature.DATE}
TABLES = {
    "first_stage": DENSE | WORDS,
    "hybrid": {
        *LATE_INTERACTION, *DENSE, *WORDS, Feature.ANSWERS_QUESTION, Feature.SETTLED, Feature.SOURCE_BEST_BM25,
    },
    "hybrid_long_items": {
        Feature.MAX_SIM, Feature.MAX_SIM_BEFORE, Feature.PASSAGE_MAX_SIM, Feature.BM25, Feature.SOURCE_BM25,
        Feature.DATE,
    },
    "hybrid_people": {
        Feature.MAX_SIM, Feature.MAX_SIM_BEFORE, Feature.ANSWERS, Feature.NAMED_SPEAKER, Feature.ITEM_COSINE,
        Feature.SOURCE_BM25, Feature.DATE,
    },
    "full_text": WORDS,
    "semantic": {
        Feature.MAX_SIM, Feature.MAX_SIM_BEFORE, Feature.ANSWERS, Feature.NAMED_SPEAKER, Feature.ITEM_COSINE,
        Feature.SOURCE_PASSAGE_COSINE, Feature.DATE,
    },
    "messages": frozenset(MessageFeature),
    "messages_full_text": {
        MessageFeature.WORD_COVERAGE, MessageFeature.BM25, MessageFeature.SPEAKER, MessageFeature.ITEM_SCORE,
        MessageFeature.NEIGHBOUR_ITEM_SCORE,
    },
    "sections": {
        Feature.MAX_SIM, Feature.PASSAGE_MAX_SIM, Feature.BM25, Feature.NEIGHBOUR_COVERAGE, Feature.DATE,
    },
}  # fmt: skip


def test_every_table_weighs_exactly_its_features_from_zero_on() -> None:
    text = resources.files("search.ranking").joinpath("weights.json").read_text(encoding="utf-8")
    assert json.loads(text)["tables"].keys() == TABLES.keys()
    for name, features in TABLES.items():
        weights = weights_of(name)
        assert weights.keys() == features
        assert all(type(weight) in (int, float) and 0 <= weight < float("inf") for weight in weights.values())


def test_ranker_refuses_table_without_feature_that_it_weighs() -> None:
    ranker = LinearRanker({Feature.BM25: 1.0, Feature.DATE: 6.0})
    table = FeatureTable(KEYS).with_columns({Feature.BM25: array(0, 4, 1)}, of={Feature.BM25})
    with pytest.raises(MissingFeature, match="date"):
        ranker.score(table)


def test_feature_missing_from_query_counts_zero() -> None:
    ranker = LinearRanker({Feature.BM25: 2.0, Feature.DATE: 6.0})
    table = FeatureTable(KEYS).with_columns({Feature.BM25: array(0, 4, 1)}, of={Feature.BM25, Feature.DATE})
    assert_allclose(ranker.score(table), [0, 2, 0.5])


def test_long_items_are_weighed_by_another_table_without_step() -> None:
    shares = [long_share(length) for length in (0, 60, 140, 350, 760, 10_000)]
    assert shares == sorted(shares)
    assert (shares[0], shares[3]) == (0.0, 0.5)
    assert shares[2] < 0.03
    assert shares[-1] > 0.99
    short, long = weights_of("hybrid"), weights_of("hybrid_long_items")
    ranker = BlendedRanker(short, long, weights_of("hybrid_people"))
    blended = ranker.blended(1e9, 0.0)
    assert_allclose([blended[name] for name in long], list(long.values()), atol=1e-6)
    assert_allclose(ranker.blended(350, 0.0)["bm25"], (short["bm25"] + long["bm25"]) / 2)


@pytest.mark.parametrize(
    ("kinds", "mode", "table"),
    [
        ({"document"}, "hybrid", "sections"),
        ({"document"}, "semantic", "semantic"),
        ({"document", "conversation"}, "hybrid", "hybrid"),
        ({"conversation"}, "hybrid", "hybrid"),
        (set(), "hybrid", "hybrid"),
    ],
)
def test_documents_alone_have_table_of_their_own(kinds: set[str], mode: str, table: str) -> None:
    rankers = Rankers.fitted()
    query = PreparedQuery(1, QueryText("why?"), mode=mode, filters=Filters(kinds=frozenset(kinds)))
    assert second_ranker(query, rankers) is getattr(rankers, table)


def test_archive_without_names_uses_plain_weights() -> None:
    short, people = weights_of("hybrid"), weights_of("hybrid_people")
    ranker = BlendedRanker(short, weights_of("hybrid_long_items"), people)
    unnamed = ranker.blended(0, 0.0)
    expected = {name: weight for name, weight in short.items() if weight}
    assert {name: weight for name, weight in unnamed.items() if weight} == expected
    assert {name: weight for name, weight in ranker.blended(0, 1.0).items() if weight} == {
        name: weight for name, weight in people.items() if weight
    }
