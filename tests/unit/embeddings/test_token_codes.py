"""Token vectors of one bit a dimension keep the order of similarities."""

import numpy as np
import pytest

from convmemory.embeddings import token_codes
from convmemory.embeddings.embedder import unit_rows
from convmemory.embeddings.token_codes import decode_bits, encode_vectors, similarities


def vectors(count: int, seed: int) -> np.ndarray:
    return unit_rows(np.random.default_rng(seed).standard_normal((count, 384)).astype(np.float32))


def test_a_token_takes_48_bytes() -> None:
    assert len(encode_vectors(vectors(7, 1))) == 7 * 48


def test_signs_come_back() -> None:
    given = vectors(5, 2)
    assert np.array_equal(decode_bits(np.frombuffer(encode_vectors(given), np.uint8).reshape(-1, 48)), given > 0)


def test_similarities_follow_the_cosines() -> None:
    tokens, question = vectors(300, 3), vectors(4, 4)
    question[0] = unit_rows((tokens[17:18] + 0.3 * vectors(1, 5)).astype(np.float32))[0]
    coded = similarities(question, encode_vectors(tokens))
    assert coded.shape == (4, 300)
    assert int(coded[0].argmax()) == 17
    assert np.corrcoef(coded.ravel(), (question @ tokens.T).ravel())[0, 1] > 0.75


def test_tokens_are_compared_in_portions(monkeypatch: pytest.MonkeyPatch) -> None:
    question, data = vectors(4, 6), encode_vectors(vectors(50, 7))
    whole = similarities(question, data)
    monkeypatch.setattr(token_codes, "AT_ONCE", 16)
    assert np.allclose(similarities(question, data), whole, atol=1e-6)
