"""The default model: 8-bit products of the included weights, the same vectors whatever they are computed with."""

import logging
import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from benchmarks.balancing import measure_largest_inputs
from convmemory.embeddings import onnx_graph
from convmemory.embeddings.default_model import default_folder
from convmemory.embeddings.local import LocalEmbedder, open_local
from convmemory.embeddings.model_folder import EXACT_MODEL, INT8_MODEL, ModelFiles
from convmemory.embeddings.options import EmbeddingOptions
from convmemory.embeddings.sentence_model import ModelOptions, SentenceModel
from convmemory.embeddings.sentence_recipe import read_recipe
from convmemory.embeddings.token_codes import encode_vectors
from convmemory.embeddings.token_model import background_texts
from tests.support.full_disk import files_end_at
from tests.support.tiny_bert import write_tiny_bert

TEXTS = [
    "The cat sat on the mat.",
    "How do I restart the worker without losing its queue?",
    "Paris, in spring.",
    *(f"{number} is short" for number in range(6)),
    "It goes on and on. " * 12,
]


def opened(model: str) -> LocalEmbedder:
    embedder = open_local(replace(EmbeddingOptions.from_settings(), model=model))
    assert isinstance(embedder, LocalEmbedder)
    return embedder


def codes(embedder: LocalEmbedder, texts: Sequence[str]) -> dict[str, tuple[bytes, bytes]]:
    embeddings = embedder.embed_passages_with_tokens(texts)
    return {
        text: (embedding.vector.tobytes(), encode_vectors(embedding.token_vectors))
        for text, embedding in zip(texts, embeddings, strict=True)
    }


def test_int8_model_has_vectors_near_exact_ones() -> None:
    int8, exact = opened(INT8_MODEL), opened(EXACT_MODEL)
    assert (int8.card.dimensions, int8.card.max_tokens) == (exact.card.dimensions, exact.card.max_tokens)
    cosines = (int8.embed_passages(TEXTS) * exact.embed_passages(TEXTS)).sum(axis=1)
    assert cosines.mean() > 0.997
    assert 0.994 < cosines.min() < 0.9999


def test_shipped_sizes_of_inputs_are_those_of_background() -> None:
    measured = measure_largest_inputs(default_folder(), background_texts()[::16])
    with np.load(onnx_graph.LARGEST_INPUTS) as shipped:
        for name, sizes in measured.items():
            assert shipped[name].shape == sizes.shape
            assert (sizes <= shipped[name] * 1.01).all(), name
            assert np.median(sizes / shipped[name]) > 0.5, name


@pytest.mark.parametrize("model", [INT8_MODEL, EXACT_MODEL])
def test_same_text_gives_same_codes_alone_among_others_and_in_any_order(model: str) -> None:
    embedder = opened(model)
    together = codes(embedder, TEXTS)
    shuffled = random.Random(3).sample(TEXTS, len(TEXTS))
    assert codes(embedder, shuffled) == together
    for text in TEXTS:
        assert codes(embedder, [text])[text] == together[text]


def test_no_sum_of_two_products_overflows_16_bits() -> None:
    """On plain AVX2 such a sum saturates, so that a processor without VNNI would give other vectors."""
    assert 2 * onnx_graph.LARGEST_INPUT * onnx_graph.LARGEST_WEIGHT < 2**15


@pytest.mark.parametrize("is_int8", [False, True])
def test_model_runs_from_memory_where_nothing_can_be_written(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, is_int8: bool
) -> None:
    files = ModelFiles.of_bert(write_tiny_bert(tmp_path / "tiny"))
    np.savez(tmp_path / "largest.npz", **measure_largest_inputs(files.folder, ["the cat sat"]))  # type: ignore[arg-type]
    monkeypatch.setattr(onnx_graph, "LARGEST_INPUTS", tmp_path / "largest.npz")
    recipe = read_recipe(files.folder)
    full, cache = tmp_path / "full", tmp_path / "cache"
    with files_end_at(0), caplog.at_level(logging.WARNING):
        unwritten = LocalEmbedder(SentenceModel(files, recipe, ModelOptions(full, is_int8=is_int8)), name="tiny")
        vectors = unwritten.embed_passages(["the cat sat", "mat"])
    assert "Each process builds it in its memory." in caplog.text
    assert not [path for path in full.rglob("*") if path.is_file() and path.stat().st_size]
    written = LocalEmbedder(SentenceModel(files, recipe, ModelOptions(cache, is_int8=is_int8)), name="tiny")
    np.testing.assert_array_equal(written.embed_passages(["the cat sat", "mat"]), vectors)
    assert [path.name for path in cache.rglob("*.onnx")] == ["int8-v2.onnx" if is_int8 else "model-v2.onnx"]


@pytest.mark.parametrize("model", [INT8_MODEL, EXACT_MODEL])
def test_included_token_model_takes_form_of_included_sentence_model(model: str) -> None:
    options = replace(EmbeddingOptions.from_settings(), model=model, token_model=INT8_MODEL)
    tokens = options.of_tokens()
    assert tokens == options.of_sentences()
    endpoint = replace(options, provider="openai", model="some", token_model=EXACT_MODEL).of_tokens()
    assert endpoint is not None
    assert endpoint.model == EXACT_MODEL
