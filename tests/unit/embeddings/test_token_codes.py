"""Token vectors of one bit a dimension keep the order of similarities."""

import numpy as np
import pytest

from convmemory.embeddings import token_codes
from convmemory.embeddings.embedder import unit_rows
from convmemory.embeddings.token_codes import best_similarities, decode_bits, encode_vectors


def vectors(count: int, seed: int) -> np.ndarray:
    return unit_rows(np.random.default_rng(seed).standard_normal((count, 384)).astype(np.float32))


def test_token_takes_48_bytes() -> None:
    assert len(encode_vectors(vectors(7, 1))) == 7 * 48


def test_encoded_vectors_decode_to_their_signs() -> None:
    originals = vectors(5, 2)
    assert np.array_equal(
        decode_bits(np.frombuffer(encode_vectors(originals), np.uint8).reshape(-1, 48), 384), originals > 0
    )


def each(question: np.ndarray, data: bytes) -> np.ndarray:
    """The similarity of every token, each a text of its own."""
    return best_similarities(question, data, np.arange(len(data) * 8 // question.shape[1]))


def in_floating_point(question: np.ndarray, tokens: np.ndarray) -> np.ndarray:
    signs = np.where(tokens > 0, 1.0, -1.0) / np.sqrt(question.shape[1])
    return np.asarray(question @ signs.T)


def test_similarities_follow_cosines() -> None:
    tokens, question = vectors(300, 3), vectors(4, 4)
    question[0] = unit_rows((tokens[17:18] + 0.3 * vectors(1, 5)).astype(np.float32))[0]
    coded = each(question, encode_vectors(tokens))
    assert coded.shape == (4, 300)
    assert int(coded[0].argmax()) == 17
    assert np.corrcoef(coded.ravel(), (question @ tokens.T).ravel())[0, 1] > 0.75


@pytest.mark.parametrize("dimensions", [8, 64, 384, 1_024])
def test_integer_similarities_match_floating_point(dimensions: int) -> None:
    random = np.random.default_rng(8)
    question = random.standard_normal((32, dimensions)).astype(np.float32)
    question[3], question[4], question[5, 2] = 0, question[4] * 1e-6, 40
    tokens = random.standard_normal((200, dimensions)).astype(np.float32)
    question = unit_rows(question)
    similarities = each(question, encode_vectors(tokens))
    assert similarities.dtype == np.float32
    assert np.allclose(similarities, in_floating_point(question, tokens), atol=2e-4)
    assert np.abs(similarities - in_floating_point(question, tokens)).mean() < 2e-5


def test_best_token_of_each_text_counts() -> None:
    question, tokens = vectors(5, 9), vectors(12, 10)
    similarities = best_similarities(question, encode_vectors(tokens), np.array([0, 1, 7]))
    every = in_floating_point(question, tokens)
    expected = np.stack([every[:, :1].max(axis=1), every[:, 1:7].max(axis=1), every[:, 7:].max(axis=1)], axis=1)
    assert np.allclose(similarities, expected, atol=1e-4)


def test_best_similarities_of_no_texts_are_empty() -> None:
    assert best_similarities(vectors(3, 1), b"", np.empty(0, np.int64)).shape == (3, 0)


def test_tokens_are_compared_in_portions(monkeypatch: pytest.MonkeyPatch) -> None:
    question, data = vectors(4, 6), encode_vectors(vectors(50, 7))
    whole = each(question, data)
    monkeypatch.setattr(token_codes, "VECTORS_AT_ONCE", 16)
    assert np.array_equal(each(question, data), whole)
