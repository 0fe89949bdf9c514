"""The int8 variant of the default model: a folder that runs as every other, near the vectors of the original."""

from dataclasses import replace
from pathlib import Path

import pytest

from convmemory.core.errors import InvalidInput
from convmemory.embeddings.default_model import default_folder
from convmemory.embeddings.local import LocalEmbedder, open_local
from convmemory.embeddings.model_folder import ModelFiles
from convmemory.embeddings.onnx_graph import write_int8
from convmemory.embeddings.options import EmbeddingOptions

TEXTS = ["The cat sat on the mat.", "How do I restart the worker without losing its queue?", "Paris, in spring."]


@pytest.mark.slow
def test_int8_variant_runs_near_original_and_is_another_model(tmp_path: Path) -> None:
    options = EmbeddingOptions.from_settings()
    exact = open_local(options)
    write_int8(exact.model.files, tmp_path / "int8", cache_folder=options.cache_folder)
    int8 = open_local(replace(options, model_path=tmp_path / "int8", cache_folder=tmp_path / "cache"))
    assert isinstance(int8, LocalEmbedder)
    assert (int8.card.dimensions, int8.card.max_tokens) == (exact.card.dimensions, exact.card.max_tokens)
    assert int8.card.model.startswith("int8@")
    cosines = (int8.embed_passages(TEXTS) * exact.embed_passages(TEXTS)).sum(axis=1)
    assert cosines.min() > 0.96
    assert int8.model.files.weights.stat().st_size < exact.model.files.weights.stat().st_size / 3


def test_quantizing_refuses_existing_folder_or_graph(tmp_path: Path) -> None:
    files = ModelFiles.of_bert(default_folder())
    with pytest.raises(InvalidInput, match="exists already"):
        write_int8(files, tmp_path, cache_folder=tmp_path / "cache")
    with pytest.raises(InvalidInput, match="is a graph"):
        write_int8(ModelFiles(tmp_path, tmp_path / "model.onnx"), tmp_path / "new", cache_folder=tmp_path / "cache")
