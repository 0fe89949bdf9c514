"""`manage.py models`: what there is, what fits, what a switch would cost."""

import json
from collections.abc import Iterator
from io import StringIO
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command
from pytest_django import Settings

from convmemory.embeddings import spaces
from convmemory.embeddings.models import EmbeddingSpace
from search.adapters.conversations import index_conversation
from tests.factories import exchange, make_conversation, make_user
from tests.support.model_hub import FakeHub, running_hub
from tests.support.onnx_models import SHAPES, write_model
from tests.support.tiny_bert import write_tiny_bert

pytestmark = [pytest.mark.slow, pytest.mark.django_db(transaction=True)]


@pytest.fixture(autouse=True)
def shelf(tmp_path: Path, settings: Settings) -> Iterator[Path]:
    """A model in use, and a folder of others: one with prompts, one that is no sentence model, one file."""
    settings.EMBEDDING_MODEL_PATH = str(write_tiny_bert(tmp_path / "used"))
    settings.VAR_DIR = tmp_path / "var"
    folder = tmp_path / "shelf"
    write_model(folder / "prompted", SHAPES["prompts, Dense"])
    (folder / "broken").mkdir()
    (folder / "broken" / "model.onnx").write_bytes(b"no graph")
    (folder / "notes.txt").write_text("not a model")
    yield folder
    spaces._opened.reset()


def listed(*arguments: str) -> str:
    out = StringIO()
    call_command("models", *arguments, stdout=out)
    return out.getvalue()


def test_models_are_listed_with_what_switch_costs(shelf: Path) -> None:
    owner = make_user()
    index_conversation(conversation_id=make_conversation(owner, exchange(("the cat?", "on the mat."))).pk)
    found = {choice["place"]: choice for choice in json.loads(listed(str(shelf), "--json"))}
    assert len(found) == 4
    used = found[str(shelf.parent / "used")]
    assert used["is_active"]
    assert used["cost"] is None
    prompted = found[str(shelf / "prompted")]
    assert (prompted["query_prompt"], prompted["passage_prompt"]) == ("the cat: ", "a mat: ")
    assert prompted["card"]["dimensions"] == 40
    assert prompted["cost"]["texts"] == 2
    assert prompted["cost"]["database_bytes"] > 3 * 2 * 40  # of two passages and a turn
    assert prompted["tokens_per_second"] > 0
    assert "tokenizer.json is missing" in found[str(shelf / "broken")]["problem"]
    assert EmbeddingSpace.objects.count() == 1  # looking makes no space


def get(hub: FakeHub, into: Path, *arguments: str, told: StringIO | None = None) -> str:
    out, named = StringIO(), ("--get", hub.name, "--into", str(into), "--hub-url", hub.url)
    call_command("models", *named, *arguments, stdout=out, stderr=told or StringIO())
    return out.getvalue()


def test_model_is_downloaded_after_its_licence_is_accepted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.DOWNLOAD_CHUNK_SIZE", 1_024)  # what is kept of a lost connection
    into = tmp_path / "models"
    with running_hub(write_tiny_bert(tmp_path / "origin")) as hub:
        told = StringIO()
        with pytest.raises(CommandError, match=r"Nothing was downloaded\..*--yes"):
            get(hub, into, told=told)
        assert not into.exists()
        assert "Licence: mit" in told.getvalue()
        hub.lost_connections = 1
        listing = get(hub, into, "--yes")
    assert "tiny@" in listing
    assert f"manage.py reembed --model {into / 'tiny'}" in listing
    assert any(requested.startswith("bytes=") for requested in hub.ranges)  # it went on where it was cut off
    origin = (tmp_path / "origin" / "model.safetensors").read_bytes()
    assert (into / "tiny" / "model.safetensors").read_bytes() == origin
    assert not (into / "tiny" / "README.md").exists()


def test_download_with_another_digest_is_deleted(tmp_path: Path) -> None:
    with running_hub(write_tiny_bert(tmp_path / "origin")) as hub:
        hub.digest = "0" * 64
        with pytest.raises(CommandError, match="does not have the SHA-256 that the hub names"):
            get(hub, tmp_path / "models", "--yes")
        assert not (tmp_path / "models" / "tiny" / "model.safetensors").exists()
        hub.name = "acme/unknown"
        with pytest.raises(CommandError, match="has no model acme/unknown: check the name"):
            get(hub, tmp_path / "models")


def test_models_command_prints_next_step(shelf: Path) -> None:
    text = listed(str(shelf / "prompted"))
    assert "(in use)" in text
    assert "prompts: 'the cat: ' before questions" in text
    assert f"manage.py reembed --model {shelf / 'prompted'}" in text
    assert "cannot be used" in listed(str(shelf / "broken"))
