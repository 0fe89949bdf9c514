"""MaxSim and the weights of a question's tokens."""

import numpy as np
from numpy.testing import assert_allclose

from convmemory.embeddings.token_codes import encode_vectors
from search.ranking.late_interaction import PassageMatches, max_sim_features, token_weights
from search.retrieval.candidates import Feature


def test_pieces_of_word_share_its_weight_and_punctuation_weighs_nothing() -> None:
    text = "the PostgreSQL deadlock?"
    spans = [(0, 3), (4, 8), (8, 14), (15, 23), (23, 24)]
    weights = token_weights(text, spans, {"the": 0.2, "postgresql": 3.0, "deadlock": 5.0})
    assert_allclose(weights, [0.2, 3.0, 3.0, 5.0, 0.0])


def test_question_of_punctuation_still_has_weights() -> None:
    assert_allclose(token_weights("??", [(0, 1), (1, 2)], {}), [1.0, 1.0])


def test_scores_take_best_token_of_turn_of_its_neighbours_and_of_one_passage() -> None:
    axis = np.eye(16, dtype=np.float32) * 2 - 1  # row i is positive in dimension i only
    question = np.eye(16, dtype=np.float32)[:2]
    weights = np.array([0.75, 0.25], np.float32)
    keys = np.array([10, 11, 30], dtype=np.int64)
    coded = [encode_vectors(axis[:1]), encode_vectors(axis[1:2]), encode_vectors(axis[5:6]), b""]
    matches = PassageMatches.of_tokens(
        b"".join(coded),
        [len(data) for data in coded],
        question,
        weights,
        items=[0, 0, 1, 2],
        elements=[1, 1, 2, 3],
        asks=[False] * 4,
    )
    assert matches.elements.tolist() == [1, 1, 2]
    late = max_sim_features(keys, matches, matches.items)
    full, none = 1 / 4, -1 / 4  # one of sixteen bits, over the square root of 16
    assert_allclose(late[Feature.MAX_SIM], [full, 0.0, 0.0])
    assert_allclose(late[Feature.NEIGHBOUR_MAX_SIM][:2], [full, full])
    assert_allclose(late[Feature.PASSAGE_MAX_SIM][0], 0.75 * full + 0.25 * none, rtol=1e-6)  # single precision


def test_tokens_of_neighbours_add_to_those_of_turn() -> None:
    matches = PassageMatches(
        best=np.array([[0.8, 0.1, 0.9, 0.3], [0.1, 0.6, 0.0, 0.0]], np.float32),
        weights=np.array([0.5, 0.5], np.float32),
        items=np.arange(4),
        elements=np.arange(4),
        asks=np.zeros(4, np.bool_),
    )
    keys = np.array([10, 11, 12, 30], dtype=np.int64)
    neighbours = max_sim_features(keys, matches, matches.items)[Feature.NEIGHBOUR_MAX_SIM]
    assert_allclose(neighbours, [0.7, 0.75, 0.75, 0.15], rtol=1e-6)
