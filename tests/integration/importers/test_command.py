"""The command `import_conversations`: its report, its JSON, its errors."""

import io
import json
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command

from convmemory.conversations.models import Conversation
from tests.factories import make_user
from tests.unit.importers.helpers import FIXTURES

pytestmark = pytest.mark.django_db

DAMAGED = FIXTURES / "claude-code" / "damaged.jsonl"


def run(*arguments: str | Path) -> str:
    out = io.StringIO()
    call_command("import_conversations", *map(str, arguments), stdout=out, stderr=io.StringIO())
    return out.getvalue()


def test_report_names_counts_and_places() -> None:
    make_user("mira")
    folders = [FIXTURES / name for name in ("amplifier", "claude-code", "plain")]
    report = run(*folders, "--user", "mira")
    assert Conversation.objects.count() == 15
    lines = [line.split() for line in report.splitlines()]
    assert [str(DAMAGED), "claude-code", "1", "4", "4", "0", "0", "2", "6"] in [
        [str(FIXTURES) + line[0].split(FIXTURES.name)[-1], *line[1:]] for line in lines if len(line) == 9
    ]
    assert ":4: a list where an object belongs" in report
    assert "repaired" in report
    assert "note: a session without any message" in report
    assert "unknown types passed over: moon-phase (1)" in report
    assert "WARNING: 1 entry is of a type that this importer, last checked against Claude Code" in report
    assert "11 of 12 files imported, 1 without a conversation: 15 conversations, 83 messages new" in report
    assert "NOT ALL WAS READ: 8 entries in 3 files" in report
    again = run(*folders, "--user", "mira")
    assert "0 messages new, 0 updated, 83 unchanged" in again


def test_json_is_one_document() -> None:
    make_user("mira")
    report = json.loads(run(DAMAGED, "--user", "mira", "--json"))
    (file,) = report["files"]
    assert (file["path"], file["format"], file["skipped"], file["repaired"]) == (str(DAMAGED), "claude-code", 6, 1)
    assert file["issues"][0] == {
        "place": f"{DAMAGED}:2",
        "reason": "a string where an object belongs",
        "kept": False,
    }
    assert report["total"]["turns"] == 2


def test_unknown_json_is_previewed_and_imported_by_its_mapping(tmp_path: Path) -> None:
    make_user("mira")
    path, kept = tmp_path / "unknown.json", tmp_path / "map.json"
    turns = [{"author": "me", "body": "Is rye sour?"}, {"author": "helper", "body": "Only with a levain."}]
    path.write_text(json.dumps({"rooms": [{"id": "room-00001", "turns": turns}, {"id": "room-00002", "turns": turns}]}))
    shown = run(path, "--user", "mira", "--preview")
    assert "2 conversations, 4 messages; first question: “Is rye sour?”" in shown
    assert not Conversation.objects.exists()
    kept.write_text(shown[shown.index("{") : shown.rindex("}") + 1])
    run(path, "--user", "mira", "--map", kept)
    assert {one.source_id for one in Conversation.objects.all()} == {"room-00001", "room-00002"}
    kept.write_text('{"texts": "a"}')
    with pytest.raises(CommandError, match="`texts`"):
        run(path, "--user", "mira", "--map", kept)


def test_unknown_user_is_error_with_remedy() -> None:
    with pytest.raises(CommandError, match=r"There is no active user 'nobody'.*create_api_key nobody --create"):
        run(DAMAGED, "--user", "nobody")


def test_nothing_to_import_is_error(tmp_path: Path) -> None:
    make_user("mira")
    (tmp_path / "notes.txt").write_text("x")
    for path in (tmp_path, tmp_path / "notes.txt", tmp_path / "gone"):
        with pytest.raises(CommandError, match="Nothing was imported") as caught:
            run(path, "--user", "mira")
        assert caught.value.returncode == 1


def test_refused_file_is_error_though_others_were_imported(tmp_path: Path) -> None:
    make_user("mira")
    (tmp_path / "odd.json").write_text('{"a": 1}')
    (tmp_path / "broken.jsonl").write_text('{"role": "user", "content": \n{"role": \n')
    good = FIXTURES / "plain" / "anthropic.jsonl"
    out = io.StringIO()
    with pytest.raises(CommandError, match="2 of 3 files were refused") as caught:
        call_command("import_conversations", str(good), str(tmp_path), "--user", "mira", "--json", stdout=out)
    assert caught.value.returncode == 1
    report = json.loads(out.getvalue())
    assert (report["recognised_files"], report["refused_files"]) == (1, 2)
    assert [file["refused"] for file in report["files"]] == [False, True, True]
    assert Conversation.objects.count() == 1


def test_missing_folder_is_called_missing(tmp_path: Path) -> None:
    make_user("mira")
    out = io.StringIO()
    with pytest.raises(CommandError, match="1 of 2 files were refused"):
        call_command("import_conversations", str(DAMAGED), str(tmp_path / "gone"), "--user", "mira", stdout=out)
    assert "error: is missing: there is no such file or folder" in out.getvalue()


def test_empty_session_is_no_error() -> None:
    make_user("mira")
    assert "a session without any message" in run(FIXTURES / "claude-code" / "snapshots-only.jsonl", "--user", "mira")


def test_format_option_is_used_and_validated() -> None:
    make_user("mira")
    run(FIXTURES / "plain" / "anthropic.jsonl", "--user", "mira", "--format", "plain")
    with pytest.raises(CommandError, match="invalid choice: 'morse'"):
        run(DAMAGED, "--user", "mira", "--format", "morse")


def test_file_name_that_is_no_utf8(tmp_path: Path) -> None:
    make_user("mira")
    path = Path(str(tmp_path) + "/caf\udce9.jsonl")
    path.write_bytes((FIXTURES / "plain" / "anthropic.jsonl").read_bytes())
    report = run(tmp_path, "--user", "mira")
    assert "caf\ufffd.jsonl" in report
    report.encode()
    assert Conversation.objects.count() == 1
