import json
import os
import shutil
import zipfile
from pathlib import Path

import pytest

from convmemory.conversations.importers.base import Source
from convmemory.conversations.importers.detect import DetectedSource, Walk
from convmemory.core.errors import InvalidInput
from tests.unit.importers.helpers import FIXTURES, user_line, write_lines

DIALOGUE = [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}]


def sources(*paths: Path, root: Path | None = None, format: str = "auto") -> list[tuple[str, str]]:
    """(label, importer or reason) of each source."""
    return [(item.source.label, _what(item)) for item in Walk(format=format).over(paths, root=root)]


def _what(item: DetectedSource) -> str:
    return item.importer.name if item.importer else item.reason


def test_fixtures_in_fixed_order_parents_first() -> None:
    session, child = (
        "4c2f9b1e-6a70-4d59-8f31-90ab12cd34ef",
        "4c2f9b1e-6a70-4d59-8f31-90ab12cd34ef-1a2b3c4d5e6f7081_soil-expert",
    )
    claude = "7d1f0a52-3c1b-4f6e-9a57-2f6b1c9d0e11"
    folders = [FIXTURES / name for name in ("amplifier", "claude-code", "plain")]
    assert sources(*folders, root=FIXTURES.parent) == [
        (f"transcripts/amplifier/sessions/{session}", "amplifier"),
        (f"transcripts/amplifier/sessions/{child}", "amplifier"),
        ("transcripts/claude-code/0c5e2b7a-9f64-4d0d-b6a3-1d2e3f4a5b6c.jsonl", "claude-code"),
        (f"transcripts/claude-code/{claude}.jsonl", "claude-code"),
        ("transcripts/claude-code/b2a9c7e0-51d4-4c0e-8f0a-64d2a1f3c988.jsonl", "claude-code"),
        ("transcripts/claude-code/damaged.jsonl", "claude-code"),
        ("transcripts/claude-code/sidechain.jsonl", "claude-code"),
        ("transcripts/claude-code/snapshots-only.jsonl", "claude-code"),
        (f"transcripts/claude-code/{claude}/subagents/agent-b1c2d3.jsonl", "claude-code"),
        ("transcripts/plain/anthropic.jsonl", "plain"),
        ("transcripts/plain/finetune.jsonl", "plain"),
        ("transcripts/plain/openai.json", "plain"),
    ]


def test_older_subagent_files_come_after_their_sessions(tmp_path: Path) -> None:
    for name in ("agent-1.jsonl", "zzz.jsonl"):
        write_lines(tmp_path / name, [user_line("u", "x")])
    assert [label for label, _ in sources(tmp_path, root=tmp_path)] == ["zzz.jsonl", "agent-1.jsonl"]


def test_hidden_backup_and_meta_files_are_passed_over_and_others_counted(tmp_path: Path) -> None:
    for name in (".hidden.jsonl", "a.jsonl.backup", "a.jsonl.bak", "a.meta.json", "a.jsonl~", ".git/a.jsonl"):
        write_lines(tmp_path / name, DIALOGUE)
    for name in ("README.md", "image.png"):
        (tmp_path / name).write_text("x")
    walk = Walk()
    assert list(walk.over([tmp_path])) == []
    assert walk.ignored == {".md": 1, ".png": 1}


def test_unclaimed_files_are_reported_with_reason(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('{"a": 1}')
    (tmp_path / "b.json").write_text("")
    (tmp_path / "c.pb").write_bytes(b"\x8f\x02\xff")
    unknown, empty, windsurf, gone = sources(tmp_path, tmp_path / "gone", root=tmp_path)
    assert unknown[1].startswith("it looks like none of the formats that can be read. Use another export")
    assert empty == ("b.json", "the file is empty: export it again")
    assert "keeps them encrypted" in windsurf[1]
    assert gone == ("gone", "is missing: there is no such file or folder")


def test_archive_in_folder_is_to_be_unpacked(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr("chat.jsonl", "{}")
    (item,) = Walk().over([tmp_path])
    assert item.is_archive


def test_file_named_itself_needs_no_suffix(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "chat.log", DIALOGUE)
    assert sources(path, root=tmp_path) == [("chat.log", "plain")]
    assert sources(tmp_path, root=tmp_path) == []


@pytest.mark.parametrize("name", ["chat.txt", "chat", "CHAT.JSONL", "chat (2).json"])
def test_other_names_of_transcripts_in_folder(tmp_path: Path, name: str) -> None:
    write_lines(tmp_path / name, DIALOGUE)
    (tmp_path / "notes.txt").write_text("[a note]")
    (tmp_path / "LICENSE").write_text("Free for all.")
    assert sources(tmp_path, root=tmp_path) == [(name, "plain")]


@pytest.mark.parametrize(
    "name", ["user.json", "User (1).json", "chat.html", "shared_conversations.json", "thread.json"]
)
def test_companions_of_conversations_are_passed_over_in_folder(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text('[{"id": "u", "conversation_id": "c", "title": "t"}]')
    write_lines(tmp_path / "chat.jsonl", DIALOGUE)
    walk = Walk()
    assert [item.source.path.name for item in walk.over([tmp_path])] == ["chat.jsonl"]
    assert walk.ignored.total() == 1
    (tmp_path / name).write_text(json.dumps(DIALOGUE))
    assert len(list(Walk().over([tmp_path]))) == 2  # a file of that name with messages in it
    assert list(Walk().over([tmp_path / name]))  # named itself, it is read or refused


def test_sqlite_and_text_in_utf_16_are_not_taken_for_json(tmp_path: Path) -> None:
    (tmp_path / "wide.json").write_bytes(json.dumps(DIALOGUE).encode("utf-16"))
    (tmp_path / "wide.db").write_bytes(b"SQLite format 3\0" + bytes(100))
    (item,) = Walk().over([tmp_path / "wide.json"])
    assert item.is_archive
    assert not next(Walk().over([tmp_path / "wide.db"])).is_archive


def test_links_in_circles_and_files_met_twice(tmp_path: Path) -> None:
    write_lines(tmp_path / "a" / "chat.jsonl", DIALOGUE)
    (tmp_path / "a" / "loop").symlink_to(tmp_path)
    (tmp_path / "a" / "dangling.jsonl").symlink_to(tmp_path / "nowhere")
    (tmp_path / "a" / "self").symlink_to(tmp_path / "a" / "self")
    labels = sources(tmp_path, tmp_path / "a", root=tmp_path)
    assert [label for label, what in labels if what == "plain"] == ["a/chat.jsonl"]
    assert ("a/dangling.jsonl", "cannot be read: No such file or directory") in labels


def test_pipe_is_not_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.jsonl")
    assert sources(tmp_path, root=tmp_path) == []
    assert sources(tmp_path / "pipe.jsonl", root=tmp_path) == [("pipe.jsonl", "neither a file nor a folder")]


def test_unreadable_folder_or_file_does_not_stop_walk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("locked/a.jsonl", "open/b.jsonl", "open/secret.jsonl"):
        write_lines(tmp_path / name, DIALOGUE)
    scandir, path_open = os.scandir, Path.open

    def guarded_scandir(path: Path) -> object:
        if Path(path).name == "locked":
            raise PermissionError(13, "Permission denied")
        return scandir(path)

    def guarded_open(path: Path, mode: str = "r") -> object:
        if path.name == "secret.jsonl":
            raise PermissionError(13, "Permission denied")
        return path_open(path, mode)

    monkeypatch.setattr(os, "scandir", guarded_scandir)
    monkeypatch.setattr(Path, "open", guarded_open)
    assert sources(tmp_path, root=tmp_path) == [
        ("locked", "cannot be read: Permission denied"),
        ("open/b.jsonl", "plain"),
        ("open/secret.jsonl", "secret.jsonl cannot be read: Permission denied."),
    ]


def test_sessions_file_stands_for_its_folder(tmp_path: Path) -> None:
    shutil.copytree(FIXTURES / "amplifier" / "sessions", tmp_path / "s")
    for name in ("transcript.jsonl", "metadata.json", "events.jsonl"):
        path = next((tmp_path / "s").glob(f"*/{name}"))
        (item,) = Walk().over([path])
        assert item.source.path == path.parent
        assert item.importer is not None
        assert item.importer.name == "amplifier"


def test_other_transcripts_in_sessions_folder_are_found_too(tmp_path: Path) -> None:
    for name in ("transcript.jsonl", "other.jsonl", "deeper/more.jsonl"):
        write_lines(tmp_path / name, DIALOGUE)
    assert sources(tmp_path, root=tmp_path) == [
        (".", "amplifier"),
        ("other.jsonl", "plain"),
        ("deeper/more.jsonl", "plain"),
    ]


def test_given_format_is_only_one_tried(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "transcript.jsonl", DIALOGUE)
    assert sources(path, root=tmp_path, format="plain") == [("transcript.jsonl", "plain")]
    assert sources(tmp_path, root=tmp_path, format="plain") == [("transcript.jsonl", "plain")]
    ((_, reason),) = sources(tmp_path, root=tmp_path, format="claude-code")
    assert reason.startswith("it looks like no file of the format claude-code. ")
    with pytest.raises(InvalidInput, match="give one of auto, amplifier"):
        Walk(format="morse")


def test_labels_begin_with_path_as_given(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "a" / "b.jsonl", DIALOGUE)
    assert sources(tmp_path) == [(f"{tmp_path}/a/b.jsonl", "plain")]
    assert Source(path).label == ""


def test_conversations_in_hidden_folders_of_a_home_are_met_and_nothing_else_of_them(tmp_path: Path) -> None:
    for name in (
        *(".claude/projects/-home-ada/a.jsonl", ".claude-work/projects/-home-ada/b.jsonl", ".codex/sessions/c.jsonl"),
        *(".claude/plugins/d.jsonl", ".config/Code/User/chat.jsonl", ".config/other/e.jsonl", ".secret/f.jsonl"),
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        write_lines(tmp_path / name, DIALOGUE)
    for name in ("settings.json", "projects/-home-ada/sessions-index.json", "projects/-home-ada/memory.json"):
        (tmp_path / ".claude" / name).write_text('{"theme": "dark"}')
    walk = Walk()
    labels = {item.source.label for item in walk.over([tmp_path], root=tmp_path)}
    assert {label.rpartition("/")[2] for label in labels} == {"a.jsonl", "b.jsonl", "c.jsonl", "chat.jsonl"}
    assert walk.ignored == {".json": 2}
    assert sources(tmp_path / ".claude" / "settings.json")  # a file that is named itself is refused


def test_other_files_of_a_session_are_counted_and_not_refused(tmp_path: Path) -> None:
    write_lines(tmp_path / "s1.jsonl", [user_line("u", "x")])
    for name in ("s1/workflows/wf.json", "s1/tool-results/t.json", "s1/subagents/workflows/wf/journal.jsonl"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text('{"type": "agent_completed", "result": "done"}\n')
    (tmp_path / "other.json").write_text('{"a": 1}')
    walk = Walk()
    assert [item.source.path.name for item in walk.over([tmp_path])] == ["other.json", "s1.jsonl"]
    assert walk.ignored == {".json": 2, ".jsonl": 1}
