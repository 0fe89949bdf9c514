"""The graph of fused operators against BERT's definition, and how built graphs are kept."""

import hashlib
import json
import os
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from django.conf import settings
from safetensors.numpy import load_file, save_file

from convmemory.core.errors import EmbedderUnavailable
from convmemory.embeddings import model_folder, onnx_graph
from convmemory.embeddings.default_model import default_folder
from convmemory.embeddings.local import LocalSentenceEmbedder, open_local
from convmemory.embeddings.model_folder import ModelFiles
from convmemory.embeddings.options import EmbeddingOptions
from tests.support.full_disk import files_end_at
from tests.support.tiny_bert import numpy_hidden_states, open_small_model, write_tiny_bert

SENTENCES = ["How do I restart the worker without losing its queue?", "Paris, in spring; it rained."]


def reference_vector(folder: Path, text: str, embedder: LocalSentenceEmbedder, *, pooling: str = "mean") -> np.ndarray:
    ids = embedder.model.reader.sequences([text], "")[0].ids
    states = numpy_hidden_states(folder, ids)
    vector = states.mean(axis=0) if pooling == "mean" else states[0]
    return np.asarray(vector / np.linalg.norm(vector))


def graph_of(folder: Path, cache: Path, *, expected_sha256: str | None = None) -> Path:
    return onnx_graph.cached_graph(ModelFiles.of_bert(folder), cache, expected_sha256=expected_sha256)


def digest_of(folder: Path, cache: Path) -> str:
    return model_folder.weights_digest(ModelFiles.of_bert(folder), cache)


@pytest.mark.parametrize(("pooling", "prefix"), [("mean", ""), ("cls", ""), ("mean", "bert.")])
def test_random_model_agrees_with_definition(tmp_path: Path, pooling: str, prefix: str) -> None:
    reference = write_tiny_bert(tmp_path / "reference", pooling=pooling)
    embedder = open_small_model(write_tiny_bert(tmp_path / "model", pooling=pooling, prefix=prefix), tmp_path / "cache")
    texts = ["the cat sat on the mat.", "mats", "", "a b c d e f g h i j k l m n o p q r s t u v w x y z"]
    for text, vector in zip(texts, embedder.embed_passages(texts), strict=True):
        assert vector @ reference_vector(reference, text, embedder, pooling=pooling) >= 0.99999


def test_token_vectors_agree_with_definition(tmp_path: Path) -> None:
    folder = write_tiny_bert(tmp_path / "model")
    embedder = open_small_model(folder, tmp_path / "cache")
    text = "the cats sat"
    states = numpy_hidden_states(folder, embedder.model.reader.sequences([text], "")[0].ids)[1:-1]
    states /= np.linalg.norm(states, axis=1, keepdims=True)
    [embedding, _] = embedder.embed_passages_with_tokens([text, "the cat sat on the mat, a, b, c"])
    assert (embedding.token_vectors * states).sum(axis=1).min() >= 0.99999


def test_included_model_agrees_with_definition() -> None:
    embedder = open_local(replace(EmbeddingOptions.from_settings(), model=model_folder.EXACT_MODEL))
    folder = default_folder()
    for text, vector in zip(SENTENCES, embedder.embed_passages(SENTENCES), strict=True):
        assert vector @ reference_vector(folder, text, embedder) >= 0.99999


def test_graph_is_built_once_for_same_weights(tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    graph = graph_of(write_tiny_bert(tmp_path / "one"), cache)
    built = graph.stat().st_mtime_ns
    assert graph_of(write_tiny_bert(tmp_path / "same"), cache) == graph
    assert graph.stat().st_mtime_ns == built
    assert graph_of(write_tiny_bert(tmp_path / "other", seed=8), cache) != graph
    assert not list(cache.glob("build-*"))


def test_concurrent_requests_for_graph_build_it_once(tmp_path: Path) -> None:
    folder = write_tiny_bert(tmp_path / "model")
    with ThreadPoolExecutor(6) as pool:
        graphs = set(pool.map(lambda _: graph_of(folder, tmp_path / "cache"), range(6)))
    assert len(graphs) == 1
    assert open_small_model(folder, tmp_path / "cache").embed_query("cat").any()


def test_weights_are_hashed_once_and_again_when_they_change(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = write_tiny_bert(tmp_path / "model")
    first = digest_of(folder, tmp_path / "cache")
    with monkeypatch.context() as patched:
        patched.setattr(hashlib, "file_digest", lambda *_: pytest.fail("hashed again"))
        assert digest_of(folder, tmp_path / "cache") == first
    weights = load_file(folder / "model.safetensors")
    save_file({**weights, "extra": np.zeros(3, np.float32)}, folder / "model.safetensors")
    assert digest_of(folder, tmp_path / "cache") != first


def test_damaged_digest_note_is_recomputed(tmp_path: Path) -> None:
    folder = write_tiny_bert(tmp_path / "model")
    digest = digest_of(folder, tmp_path / "cache")
    for damage in ("", "[]", "{}", "null"):
        for note in (tmp_path / "cache").glob("*.json"):
            note.write_text(damage)
        assert digest_of(folder, tmp_path / "cache") == digest


def test_other_weights_than_expected_are_refused(tmp_path: Path) -> None:
    folder = write_tiny_bert(tmp_path / "model")
    with pytest.raises(EmbedderUnavailable, match="make setup"):
        graph_of(folder, tmp_path / "cache", expected_sha256=model_folder.DEFAULT_SHA256)


def test_old_folders_of_killed_builds_are_removed(tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    old, young = cache / "build-old", cache / "build-young"
    old.mkdir(parents=True)
    young.mkdir()
    hours_ago = time.time() - 7200
    os.utime(old, (hours_ago, hours_ago))
    graph_of(write_tiny_bert(tmp_path / "model"), cache)
    assert not old.exists()
    assert young.exists()


@pytest.mark.parametrize("name", ["model-v2.onnx", "model-v2.weights"])
def test_truncated_graph_is_built_again(tmp_path: Path, name: str) -> None:
    folder = write_tiny_bert(tmp_path / "model")
    file = graph_of(folder, tmp_path / "cache").with_name(name)
    whole = file.read_bytes()
    os.truncate(file, len(whole) // 2)
    graph_of(folder, tmp_path / "cache")
    assert file.read_bytes() == whole


def test_full_disk_while_graph_is_built_leaves_nothing_that_is_used(tmp_path: Path) -> None:
    folder, cache = write_tiny_bert(tmp_path / "model"), tmp_path / "cache"
    digest_of(folder, cache)
    with files_end_at(2_000), pytest.raises(onnx_graph.GraphNotWritten, match="cannot be prepared"):
        graph_of(folder, cache)
    assert not list(cache.glob("build-*"))
    assert open_small_model(folder, cache).embed_query("cat").any()


def test_damaged_graph_says_which_folder_to_delete(tmp_path: Path) -> None:
    folder = write_tiny_bert(tmp_path / "model")
    graph = graph_of(folder, tmp_path / "cache")
    graph.write_bytes(bytes(graph.stat().st_size))
    with pytest.raises(EmbedderUnavailable, match=f"delete the folder {graph.parent}"):
        open_small_model(folder, tmp_path / "cache").embed_query("cat")


def test_weights_that_are_no_bert_are_named(tmp_path: Path) -> None:
    folder = write_tiny_bert(tmp_path / "model")
    save_file({"something.else": np.zeros(3, np.float32)}, folder / "model.safetensors")
    with pytest.raises(EmbedderUnavailable, match=r"no tensor 'embeddings\.word_embeddings\.weight'"):
        open_small_model(folder, tmp_path / "cache").embed_query("cat")
    (folder / "model.safetensors").write_bytes(b"cut off")
    with pytest.raises(EmbedderUnavailable, match="not a safetensors file"):
        open_small_model(folder, tmp_path / "cache").embed_query("cat")


@pytest.mark.parametrize("name", ["config.json", "tokenizer.json", "model.safetensors"])
def test_missing_file_says_what_to_do(tmp_path: Path, name: str) -> None:
    folder = write_tiny_bert(tmp_path / "model")
    (folder / name).unlink()
    with pytest.raises(EmbedderUnavailable, match=rf"{name} is missing: run `make setup`"):
        open_small_model(folder, tmp_path / "cache").embed_query("cat")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model_type": "roberta"}, "model_type is 'roberta'"),
        ({"hidden_act": "relu"}, "hidden_act is 'relu'"),
        ({"position_embedding_type": "relative_key"}, "position_embedding_type is 'relative_key'"),
        ({"num_attention_heads": None}, "lacks or garbles"),
    ],
)
def test_another_kind_of_model_is_refused(tmp_path: Path, changes: dict[str, object], message: str) -> None:
    folder = write_tiny_bert(tmp_path / "model")
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, **changes}))
    with pytest.raises(EmbedderUnavailable, match=message):
        open_small_model(folder, tmp_path / "cache")


def test_other_modules_and_poolings_are_refused(tmp_path: Path) -> None:
    folder = write_tiny_bert(tmp_path / "model", pooling="max")
    with pytest.raises(EmbedderUnavailable, match="pools by max_tokens: only the mean"):
        open_small_model(folder, tmp_path / "cache")
    (folder / "modules.json").write_text(json.dumps([{"type": "sentence_transformers.models.LSTM"}]))
    with pytest.raises(EmbedderUnavailable, match="module LSTM is not supported"):
        open_small_model(folder, tmp_path / "cache")


def test_cache_lies_under_var() -> None:
    assert EmbeddingOptions.from_settings().cache_folder == Path(settings.VAR_DIR) / "models"
