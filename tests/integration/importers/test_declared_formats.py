"""Declared formats, stored: twice, in two halves, and with other answers, nothing is doubled, lost or mixed."""

import json
import zipfile
from pathlib import Path

import pytest

from convmemory.conversations.importing.runner import ImportReport, import_paths
from convmemory.conversations.models import Conversation, Message
from tests.factories import caller_for, make_user
from tests.unit.importers.helpers import FIXTURES

pytestmark = pytest.mark.django_db


def imported(*paths: Path) -> ImportReport:
    owner = make_user("mira") if not Conversation.objects.exists() else Conversation.objects.all()[0].archive
    return import_paths(caller=caller_for(owner), paths=paths)


def rows() -> list[tuple[str, str, str, int | None, bool]]:
    listed = Message.objects.order_by("conversation__source_id", "source_key")
    names = ("conversation__source_id", "source_key", "role", "turn_number", "superseded")
    return list(listed.values_list(*names))


def test_halves_of_export_with_branches_store_same_rows_as_whole(tmp_path: Path) -> None:
    whole = FIXTURES / "deepseek/conversations.json"
    first, second = json.loads(whole.read_text())
    for name, value in (("first.json", first), ("second.json", second)):
        (tmp_path / name).write_text(json.dumps([value]))
    imported(tmp_path / "first.json")
    imported(tmp_path / "second.json")
    stored = rows()
    again = imported(whole)
    assert (again.total("added"), again.total("updated")) == (0, 0)
    assert rows() == stored
    assert any(superseded for *_, superseded in stored)


def test_files_of_one_name_with_other_answers_are_two_conversations(tmp_path: Path) -> None:
    original = FIXTURES / "langchain/history.json"
    for folder, text in (("a", "Twelve hours"), ("b", "Ten hours")):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "history.json").write_text(original.read_text().replace("Twelve hours", text))
    # The first answer is a call, so that the result is what differs.
    (tmp_path / "b/history.json").write_text((tmp_path / "b/history.json").read_text().replace("cookbook", "web"))
    report = imported(tmp_path)
    assert (report.total("conversations"), report.total("updated")) == (2, 0)
    assert Conversation.objects.count() == 2


@pytest.mark.parametrize("name", ["anythingllm", "microsoft-copilot"])
def test_conversations_of_one_title_in_two_files_stay_apart(name: str, tmp_path: Path) -> None:
    [original] = [path for path in (FIXTURES / name).iterdir() if path.is_file()]
    other = tmp_path / original.name
    other.write_text(original.read_text().replace("Twelve hours", "Ten hours"))
    report = imported(original, other)
    assert (report.total("conversations"), report.total("updated")) == (2, 0)
    assert Conversation.objects.values("title").distinct().count() == 1
    assert Conversation.objects.count() == 2


def test_two_exports_of_one_account_in_one_folder_are_both_read(tmp_path: Path) -> None:
    whole = json.loads((FIXTURES / "deepseek/conversations.json").read_text())
    for year, conversations in ((2025, whole[:1]), (2026, whole)):
        with zipfile.ZipFile(tmp_path / f"{year}.zip", "w") as archive:
            archive.writestr("conversations.json", json.dumps(conversations))
    report = imported(tmp_path)
    assert [Path(file.path).parent.name for file in report.files] == ["2025.zip", "2026.zip"]
    assert (report.total("conversations"), report.total("updated")) == (3, 0)
    assert Conversation.objects.count() == 2
