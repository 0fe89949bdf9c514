"""`manage.py evaluate own`: models compared on a person's own turns only; nothing is stored."""

import json
from collections.abc import Iterator
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.apps import apps
from django.core.management import CommandError, call_command
from pytest_django import Settings

from benchmarks.management.commands import evaluate
from convmemory.accounts.models import AuditEntry
from convmemory.embeddings import spaces
from convmemory.embeddings.token_reader import TokenReader
from tests.factories import exchange, make_conversation, make_user
from tests.support.onnx_models import SHAPES, write_model
from tests.support.tiny_bert import write_tiny_bert

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def model(tmp_path: Path, settings: Settings) -> Iterator[Path]:
    settings.EMBEDDING_MODEL_PATH = str(write_tiny_bert(tmp_path / "used"))
    settings.VAR_DIR = tmp_path / "var"
    yield write_model(tmp_path / "other", SHAPES["XLM-R"])
    spaces._opened.reset()


def compared(*arguments: str) -> str:
    out = StringIO()
    call_command("evaluate", "own", *arguments, stdout=out, stderr=StringIO())
    return out.getvalue()


def rows() -> dict[str, int]:
    return {each._meta.db_table: each._default_manager.count() for each in apps.get_models() if each is not AuditEntry}


@pytest.mark.slow
def test_models_are_compared_on_owners_turns_alone(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ada, bob = make_user("ada"), make_user("bob")
    for letter in "abcdefghijkl":
        pairs = (
            (f"where is the {letter} of mine?", f"on the mat {letter}."),
            (f"and the cat {letter} again?", "a mat."),
        )
        make_conversation(ada, exchange(*pairs), title=f"the {letter} and the mat")
        make_conversation(bob, exchange(("the secret of bob is what?", "a secret.")))
    spaces.active_space()
    seen: list[str] = []
    read = TokenReader.sequences

    def recorded(reader: TokenReader, texts: Any, prompt: str) -> Any:
        seen.extend(texts)
        return read(reader, texts, prompt)

    monkeypatch.setattr(TokenReader, "sequences", recorded)
    before = rows()
    report = json.loads(compared("--user", "ada", "--against", str(model), "--json"))
    assert rows() == before
    assert AuditEntry.objects.get(action="read").about_id == ada.pk
    assert seen
    assert not any("secret" in text for text in seen)
    assert (report["turns"], report["conversations"]) == (24, 12)
    assert report["questions"] == {"question": 24, "title": 12, "mention": 12}
    used, other = report["models"]
    assert used["model"].startswith("used@")
    assert other["model"].startswith("other@")
    assert 0 < used["fused"]["all"]["mrr"] <= 1
    [difference] = report["differences"]
    decided = difference["fused"]["mrr"]
    assert decided["low"] <= decided["mean"] <= decided["high"]
    assert difference["verdict"] == decided["verdict"]
    assert decided["clusters"] == 12
    text = compared("--user", "ada", "--against", str(model), "--turns", "10", "--questions", "3")
    assert "10 turns of 5 conversations; questions: 3 by question" in text
    assert "too few conversations to tell" in text


def test_evaluate_command_names_missing_arguments() -> None:
    make_user("eve")
    with pytest.raises(CommandError, match="Add --user"):
        compared()
    with pytest.raises(CommandError, match="0 conversations with turns"):
        compared("--user", "eve")
    with pytest.raises(CommandError, match="by themselves"):
        call_command(evaluate.Command(), "own", "locomo", "--data", "a", "b", stdout=StringIO())
    with pytest.raises(CommandError, match="one --data path"):
        call_command(evaluate.Command(), "locomo", "--data", "a", "b", stdout=StringIO())
