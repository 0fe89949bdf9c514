"""Rules that hold for every embedder, whatever its model."""

import re
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import compress

import numpy as np
import pytest

from convmemory.embeddings.embedder import Embedder, TokenEmbedder, embed_each
from convmemory.embeddings.local import open_local
from convmemory.embeddings.openai_compatible import OpenAIEmbedder
from convmemory.embeddings.options import EmbeddingOptions
from convmemory.embeddings.token_model import PairedEmbedder, background_mean
from tests.support.onnx_models import SHAPES, write_model
from tests.support.openai_server import running_endpoint
from tests.support.tiny_bert import open_small_model, write_tiny_bert

TEXTS = ["The cat sat on the mat.", "mats", "Why?", "the cat, the mat, the cat: a, b and c", "Ünïcödé 你好 😀", "cat"]


@pytest.fixture(
    params=["default model", "tiny model", *SHAPES, "openai endpoint", "endpoint with tokens of a folder"],
    scope="module",
)
def embedder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Embedder]:
    tmp_path = tmp_path_factory.mktemp("models")
    if request.param == "default model":
        yield open_local(EmbeddingOptions.from_settings())
    elif request.param == "tiny model":
        folder = write_tiny_bert(tmp_path / "tiny")
        yield open_small_model(folder, tmp_path / "cache")
    elif request.param in SHAPES:
        folder = write_model(tmp_path / "model", SHAPES[request.param])
        yield open_small_model(folder, tmp_path / "cache")
    else:
        with running_endpoint() as endpoint:
            options = replace(
                EmbeddingOptions.from_settings(),
                provider="openai",
                model="some-model",
                base_url=endpoint.url,
                api_key=endpoint.key,
                dimensions=endpoint.native_dimensions,
            )
            client = OpenAIEmbedder(options, max_retries=0)
            tokens = open_small_model(write_tiny_bert(tmp_path / "tiny"), tmp_path / "cache")
            paired = PairedEmbedder(client, tokens.centred(background_mean(tokens)))
            yield client if request.param == "openai endpoint" else paired
            client.close()


def test_vectors_are_float32_of_unit_length_in_order_of_texts(embedder: Embedder) -> None:
    vectors = embedder.embed_passages(TEXTS)
    assert vectors.shape == (len(TEXTS), embedder.card.dimensions)
    assert vectors.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)
    for text, vector in zip(TEXTS, vectors, strict=True):
        np.testing.assert_allclose(embedder.embed_passages([text])[0], vector, atol=1e-5)


def test_different_texts_have_different_vectors(embedder: Embedder) -> None:
    cosines = np.triu(np.dot(vectors := embedder.embed_passages(TEXTS), vectors.T), k=1)
    assert cosines.max() < 0.9999


def test_query_has_shape_of_one_passage(embedder: Embedder) -> None:
    vector = embedder.embed_query(TEXTS[0])
    assert vector.shape == (embedder.card.dimensions,)
    assert vector.dtype == np.float32
    assert np.linalg.norm(vector) == pytest.approx(1, abs=1e-5)


def test_embedding_no_texts_returns_no_vectors(embedder: Embedder) -> None:
    assert embedder.embed_passages([]).shape == (0, embedder.card.dimensions)
    assert embedder.count_tokens([]) == []
    assert embed_each(embedder, []) == []


def test_text_that_is_too_long_is_cut_and_not_refused(embedder: Embedder) -> None:
    text = "cat " * (embedder.card.max_tokens * 2)
    assert embedder.count_tokens([text])[0] >= embedder.card.max_tokens * 2
    np.testing.assert_allclose(
        embedder.embed_passages([text])[0], embedder.embed_passages([text + " mat" * 10])[0], atol=1e-5
    )


def test_token_spans_stand_in_order_and_reach_over_text(embedder: Embedder) -> None:
    for text in TEXTS:
        spans = embedder.token_spans(text)
        assert len(spans) == embedder.count_tokens([text])[0]
        assert all(0 <= start <= end <= len(text) for start, end in spans)
        assert [start for start, _ in spans] == sorted(start for start, _ in spans)
        assert spans[0][0] == 0
        assert spans[-1][1] == len(text)


def test_strange_characters_are_no_error(embedder: Embedder) -> None:
    texts = ["nul \x00 inside", "a lone \ud83d surrogate", "[CLS] [SEP] <|endoftext|>", "word\u200b\u202etxt", "\n.\n"]
    assert embedder.embed_passages(texts).shape == (5, embedder.card.dimensions)
    assert len(embedder.token_spans(texts[1])) == embedder.count_tokens(texts)[1]


def test_embedder_can_be_shared_by_threads(embedder: Embedder) -> None:
    alone = embedder.embed_passages(TEXTS)
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(embedder.embed_passages, [TEXTS] * 8))
    for vectors in together:
        np.testing.assert_allclose(vectors, alone, atol=1e-5)


def test_card_says_whether_there_are_token_vectors(embedder: Embedder) -> None:
    assert isinstance(embedder, TokenEmbedder) is embedder.card.has_token_vectors


def test_token_vectors_come_with_vector_of_passage(embedder: Embedder) -> None:
    if not isinstance(embedder, TokenEmbedder):
        pytest.skip("this model has no token vectors")
    texts = [*TEXTS, "", "cat " * (embedder.card.max_tokens + 5)]
    embeddings = list(embedder.embed_passages_with_tokens(texts))
    np.testing.assert_allclose([found.vector for found in embeddings], embedder.embed_passages(texts), atol=1e-6)
    reading = embedder.tokens if isinstance(embedder, PairedEmbedder) else embedder
    for text, found in zip(texts, embeddings, strict=True):
        tokens = embedder.tokenize(text)
        assert len(found.token_ids) >= min(len(tokens.ids), reading.card.max_tokens)
        np.testing.assert_array_equal(found.token_ids, tokens.ids[: len(found.token_ids)])
        assert found.token_vectors.shape == (len(found.token_ids), embedder.card.token_dimensions)
        np.testing.assert_allclose(np.linalg.norm(found.token_vectors, axis=1), 1, atol=1e-5)
        assert tokens.spans == reading.token_spans(text)
        assert _letters(text, tokens.spans) == _letters(text, compress(tokens.spans, embedder.are_words(tokens.ids)))


def _letters(text: str, spans: Iterable[tuple[int, int]]) -> set[int]:
    """The places of the letters, digits and underscores that the spans cover."""
    return {place for span in spans for place in range(*span) if re.match(r"\w", text[place])}


def test_token_vectors_come_with_vector_of_question(embedder: Embedder) -> None:
    if not isinstance(embedder, TokenEmbedder):
        pytest.skip("this model has no token vectors")
    for text in TEXTS:
        question = embedder.embed_query_tokens(text)
        np.testing.assert_allclose(question.vector, embedder.embed_query(text), atol=1e-6)
        np.testing.assert_array_equal(question.token_ids, embedder.tokenize_query(text).ids[: len(question.token_ids)])
        assert len(question.token_vectors) == len(question.token_ids)
