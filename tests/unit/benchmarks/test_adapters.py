"""Test what all adapters share: the pipe that carries requests, and the product's embedding model."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from benchmarks.peers.minilm import MiniLM
from benchmarks.systems import OURS, SYSTEMS, AdapterFailed, AdapterProcess
from convmemory.embeddings.default_model import default_folder
from convmemory.embeddings.local import open_local
from convmemory.embeddings.model_folder import EXACT_MODEL, ModelFiles
from convmemory.embeddings.onnx_graph import cached_graph
from convmemory.embeddings.options import EmbeddingOptions

TALKATIVE = """
import sys
from benchmarks.peers.adapter import Adapter, serve

class Toy(Adapter):
    def start(self):
        print("libraries print what they like")
    def index(self, archive, turns):
        self.archives[archive] = turns
    def search(self, archive, question, limit):
        return [turn for turn, text in self.archives[archive] if question in text][:limit]
    def bytes_on_disk(self):
        return 7
    def servers(self):
        return [1]

sys.argv = ["toy", "--folder=.", "--graph=.", "--tokenizer=.", "--dataset=toy", "--data=."]
serve(Toy)
"""


def test_adapter_answers_over_pipe_whatever_libraries_print(tmp_path: Path) -> None:
    with AdapterProcess([sys.executable, "-c", TALKATIVE], log=tmp_path / "log") as adapter:
        assert adapter.ask("start")["servers"] == [1]
        adapter.ask("index", archive="one", turns=[["t1", "a cat"], ["t2", "a dog"], ["t3", "cats"]])
        assert adapter.ask("finish")["bytes"] == 7
        answer = adapter.ask("search", archive="one", question="cat", limit=5)
        assert answer["found"] == ["t1", "t3"]
        assert answer["milliseconds"] >= 0
    assert "libraries print" in (tmp_path / "log").read_text()


def test_exception_in_adapter_is_raised_with_its_type(tmp_path: Path) -> None:
    with (
        AdapterProcess([sys.executable, "-c", TALKATIVE], log=tmp_path / "log") as adapter,
        pytest.raises(AdapterFailed, match="KeyError"),
    ):
        adapter.ask("search", archive="missing", question="cat", limit=5)


def test_adapter_that_exits_is_reported_with_its_last_output(tmp_path: Path) -> None:
    with (
        AdapterProcess([sys.executable, "-c", "raise SystemExit('no such library')"], log=tmp_path / "log") as adapter,
        pytest.raises(AdapterFailed, match="no such library"),
    ):
        adapter.ask("start")


def test_own_adapter_is_imported_before_django_is_set_up() -> None:
    command = [sys.executable, "-m", f"benchmarks.peers.{SYSTEMS[0].adapter}", "--help"]
    assert "--folder" in subprocess.run(command, capture_output=True, text=True, check=True).stdout


@pytest.mark.slow
def test_adapters_embed_as_product_does(tmp_path: Path) -> None:
    options = EmbeddingOptions.from_settings()
    folder = default_folder()
    graph = cached_graph(ModelFiles.of_bert(folder), options.cache_folder)
    model = MiniLM(graph, folder / "tokenizer.json")
    texts = ["Where is the key?", "Ann: " + "It is long. " * 200, "ok", *(f"Text {n}" for n in range(40))]
    expected = open_local(replace(options, model=EXACT_MODEL)).embed_passages(texts)
    np.testing.assert_allclose(model.encode(texts), expected, atol=1e-5)


def test_every_system_has_adapter_and_pinned_requirements() -> None:
    peers = SYSTEMS[0].requirements_file.parents[1]
    for system in SYSTEMS:
        assert (peers / f"{system.adapter}.py").exists()
        if system.name == OURS:
            continue
        lines = system.requirements_file.read_text().split()
        assert lines
        assert all("==" in line for line in lines)
