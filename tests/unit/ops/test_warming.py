"""A new process loads the local model before a task or a search waits for it."""

import logging
import subprocess
import sys
from dataclasses import dataclass, field
from types import SimpleNamespace

import pytest
from django_q.signals import post_spawn

from convmemory.core.errors import EmbedderUnavailable
from convmemory.ops.runtime import warming


@dataclass
class Model:
    provider: str
    texts: list[str] = field(default_factory=list)

    @property
    def card(self) -> SimpleNamespace:
        return SimpleNamespace(provider=self.provider)

    def embed_passages(self, texts: list[str]) -> None:
        self.texts += texts


@pytest.fixture(autouse=True)
def _space(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(warming, "active_space", lambda: None)


@pytest.mark.parametrize(("provider", "count"), [("local", 1), ("openai", 0)])
def test_only_local_model_is_loaded(monkeypatch: pytest.MonkeyPatch, provider: str, count: int) -> None:
    model = Model(provider)
    monkeypatch.setattr(warming, "embedder_for", lambda space: model)
    post_spawn.send("django_q", proc_name="a worker")
    assert len(model.texts) == count


def test_worker_begins_without_model(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    def none(space: object) -> Model:
        raise EmbedderUnavailable("The model is gone.")

    monkeypatch.setattr(warming, "embedder_for", none)
    with caplog.at_level(logging.WARNING):
        post_spawn.send("django_q", proc_name="a worker")
    assert "The model is gone." in caplog.text


def test_process_warmed_for_searches_imports_nothing_for_numpy_unique() -> None:
    code = (
        "import sys, django, numpy; django.setup()\n"
        "from convmemory.ops.runtime import warming\n"
        "warming.active_space = lambda: None\n"
        "warming.load_models(for_searches=True)\n"
        "loaded = set(sys.modules)\n"
        "numpy.unique(numpy.array([2, 1]))\n"
        "print(sorted(set(sys.modules) - loaded))"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"
