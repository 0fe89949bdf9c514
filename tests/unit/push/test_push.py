"""The client sends each file once, whatever interrupts it, and needs nothing but Python."""

import io
import os
import subprocess
import sys
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from convmemory.push import __main__
from convmemory.push.pushing import ERROR_EXIT, OFFLINE_EXIT
from tests.support.agent_databases import make
from tests.support.import_server import ImportServer, import_server
from tests.unit.importers.helpers import user_line, write_lines


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[ImportServer]:
    monkeypatch.setenv("CONVMEMORY_KEY", "cm_key")
    monkeypatch.setattr(time, "sleep", lambda _: None)
    for name in ("CLAUDE_CONFIG_DIR", "XDG_DATA_HOME", "XDG_CONFIG_HOME", "CONVMEMORY_KEY_FILE"):
        monkeypatch.delenv(name, raising=False)
    with import_server() as running:
        yield running


def transcripts(home: Path, count: int) -> None:
    for number in range(count):
        path = home / ".claude" / "projects" / f"-p{number % 7}" / f"{number:08}-0000-4000-8000-000000000000.jsonl"
        write_lines(path, [user_line(f"u{number}", f"question {number}")])


def push(home: Path, server: ImportServer, *options: str) -> int:
    return __main__.main([*options, "--yes", "--server", server.address, "--home", str(home)])


BOATS = {"id": 7, "name": "Boat house", "role": "contributor", "writes": True}


def names(server: ImportServer) -> list[str]:
    return [name for upload in server.uploads for name in zipfile.ZipFile(io.BytesIO(upload)).namelist()]


@pytest.mark.slow
def test_thousand_files_and_server_that_dies_in_middle(tmp_path: Path, server: ImportServer) -> None:
    transcripts(tmp_path, 1_000)
    server.answer = lambda number, _: 202 if number < 9 else 0
    assert push(tmp_path, server) == OFFLINE_EXIT
    before = len(names(server))
    assert before == 450
    server.answer = lambda number, _: 202
    assert push(tmp_path, server) == 0
    assert len(names(server)) == len(set(names(server))) == 1_000
    requests = server.requests
    assert push(tmp_path, server) == 0
    assert server.requests == requests
    assert set(server.keys) == {"Bearer cm_key"}


@pytest.mark.slow
def test_files_taken_before_client_was_killed_are_not_sent_again(tmp_path: Path, server: ImportServer) -> None:
    transcripts(tmp_path, 120)
    server.answer = lambda number, _: 202 if number < 2 else 0
    push(tmp_path, server)
    (ledger,) = tmp_path.rglob("ledger.db")
    ledger.unlink()  # as if it had been killed before it noted what it had sent
    server.answer = lambda number, _: 202
    assert push(tmp_path, server) == 0
    assert len(names(server)) == len(set(names(server))) == 120
    assert server.requests == 4


def test_changed_file_is_sent_again(tmp_path: Path, server: ImportServer) -> None:
    transcripts(tmp_path, 3)
    push(tmp_path, server)
    path = next(tmp_path.glob(".claude/projects/-p1/*.jsonl"))
    path.write_text(path.read_text() + "{}\n")
    push(tmp_path, server)
    assert len(names(server)) == 4
    assert names(server)[-1] == f"claude-code/projects/-p1/{path.name}"


def test_push_to_unreachable_server_is_made_up_later(tmp_path: Path, server: ImportServer) -> None:
    transcripts(tmp_path, 2)
    away = ImportServer(address="http://127.0.0.1:9")
    assert push(tmp_path, away) == OFFLINE_EXIT
    assert push(tmp_path, server) == 0
    assert len(names(server)) == 2


def test_busy_server_is_waited_for(tmp_path: Path, server: ImportServer) -> None:
    transcripts(tmp_path, 1)
    server.answer = lambda number, _: (429, 503, 202)[number]
    assert push(tmp_path, server) == 0
    assert server.requests == 3


def test_refused_file_does_not_stop_others(tmp_path: Path, server: ImportServer) -> None:
    transcripts(tmp_path, 8)

    def answer(number: int, archive: bytes) -> int:
        return 422 if b"00000005-" in archive else 202

    server.answer = answer
    assert push(tmp_path, server) == 0
    assert len(names(server)) == 7
    requests = server.requests
    push(tmp_path, server)
    assert server.requests == requests


def test_refused_key_ends_push(tmp_path: Path, server: ImportServer, capsys: pytest.CaptureFixture[str]) -> None:
    transcripts(tmp_path, 1)
    server.answer = lambda *_: 401
    assert push(tmp_path, server) == ERROR_EXIT
    assert "refuses the key: said the server" in capsys.readouterr().err


def test_database_in_use_is_sent_whole(tmp_path: Path, server: ImportServer) -> None:
    path = tmp_path / ".local/share/opencode/opencode.db"
    path.parent.mkdir(parents=True)
    connection = make(path)
    assert push(tmp_path, server) == 0
    connection.close()
    [upload] = server.uploads
    copy = zipfile.ZipFile(io.BytesIO(upload)).read("opencode/opencode/opencode.db")
    assert b"Asked in ses_two" in copy


def test_push_runs_with_standard_library_alone(tmp_path: Path) -> None:
    (tmp_path / "convmemory_push").symlink_to(Path(__main__.__file__).parent)
    transcripts(tmp_path / "home", 2)
    command = [sys.executable, "-S", "-m", "convmemory_push", "--list", "--server", "http://localhost", "--home"]
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(tmp_path)}
    done = subprocess.run([*command, str(tmp_path / "home")], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("2 files to send")


def test_only_regular_files_inside_place_are_sent(
    tmp_path: Path, server: ImportServer, capsys: pytest.CaptureFixture[str]
) -> None:
    transcripts(tmp_path, 1)
    outside = tmp_path / "outside"
    write_lines(outside / "secret.jsonl", [user_line("u", "not yours")])
    (outside / "metadata.json").write_text('{"password": "not yours"}')
    projects = tmp_path / ".claude" / "projects"
    os.mkfifo(projects / "-p0" / "00000001-0000-4000-8000-000000000000.jsonl")
    (projects / "-p0" / "00000002-0000-4000-8000-000000000000.jsonl").symlink_to(outside / "secret.jsonl")
    (projects / "-p1").symlink_to(outside)
    (tmp_path / ".claude" / "history.jsonl").symlink_to(outside / "secret.jsonl")
    session = tmp_path / ".amplifier" / "projects" / "p" / "sessions" / "s"
    write_lines(session / "transcript.jsonl", [user_line("u", "hello")])
    (session / "metadata.json").symlink_to(outside / "metadata.json")
    os.mkfifo(session / "events.jsonl")
    assert push(tmp_path, server) == 0
    assert sorted(names(server)) == [
        "amplifier/projects/p/sessions/s/transcript.jsonl",
        "claude-code/projects/-p0/00000000-0000-4000-8000-000000000000.jsonl",
    ]
    assert "2 files sent" in capsys.readouterr().out


def test_place_that_is_itself_link_is_read(tmp_path: Path, server: ImportServer) -> None:
    transcripts(tmp_path / "kept elsewhere", 1)
    (tmp_path / ".claude").mkdir()
    (tmp_path / ".claude" / "projects").symlink_to(tmp_path / "kept elsewhere" / ".claude" / "projects")
    assert push(tmp_path, server) == 0
    assert len(names(server)) == 1


def test_space_gets_files_that_own_archive_has_and_each_once(tmp_path: Path, server: ImportServer) -> None:
    transcripts(tmp_path, 2)
    server.spaces = [BOATS, {"id": 8, "name": "Ski club", "role": "manager", "writes": True}]
    assert push(tmp_path, server) == 0
    for space in (" boat  HOUSE ", "7", "Boat house", "8"):
        assert push(tmp_path, server, "--space", space) == 0
    assert [query.partition("&")[2] for query in server.queries] == ["", "space=7", "space=8"]
    assert len(names(server)) == 6


@pytest.mark.parametrize(
    ("spaces", "reason"),
    [
        ([], "The key reads no space Boat house. Of the spaces of its owner it reads: none."),
        ([{**BOATS, "name": "Ski club"}], "it reads: Ski club (7)."),
        ([BOATS, {**BOATS, "id": 8, "name": "BOAT HOUSE"}], "name one by its number, 7, 8."),
        ([{**BOATS, "role": "reader", "writes": False}], "ask one of its managers to make you a contributor"),
        ([{**BOATS, "writes": False}], "create one that also writes to spaces"),
    ],
)
def test_space_that_key_does_not_write_to_gets_nothing(
    tmp_path: Path,
    server: ImportServer,
    capsys: pytest.CaptureFixture[str],
    spaces: list[dict[str, object]],
    reason: str,
) -> None:
    transcripts(tmp_path, 1)
    server.spaces = spaces
    assert push(tmp_path, server, "--space", "Boat house") == ERROR_EXIT
    assert reason in capsys.readouterr().err
    assert server.requests == 0


def test_membership_that_ends_during_push_leaves_files_for_later(
    tmp_path: Path, server: ImportServer, capsys: pytest.CaptureFixture[str]
) -> None:
    transcripts(tmp_path, 1)
    server.spaces, server.answer = [BOATS], lambda *_: 404
    assert push(tmp_path, server, "--space", "7") == ERROR_EXIT
    assert "cannot be written to any more: said the server" in capsys.readouterr().err
    server.answer = lambda *_: 202
    assert push(tmp_path, server, "--space", "7") == 0
    assert len(names(server)) == 1


def test_folder_limits_push_to_transcripts_in_it(
    tmp_path: Path, server: ImportServer, capsys: pytest.CaptureFixture[str]
) -> None:
    transcripts(tmp_path, 14)
    assert push(tmp_path, server, str(tmp_path / ".claude/projects/-p3")) == 0
    assert {name.rpartition("/")[0] for name in names(server)} == {"claude-code/projects/-p3"}
    assert len(names(server)) == 2
    copied = tmp_path / "copied" / "from elsewhere"
    write_lines(copied / "a.jsonl", [user_line("u", "hello")])
    (copied / "notes.txt").write_text("no transcript")
    assert push(tmp_path, server, str(copied.parent)) == 0
    assert names(server)[2:] == ["folder/copied/from elsewhere/a.jsonl"]
    assert push(tmp_path, server, str(tmp_path / "nowhere")) == ERROR_EXIT
    assert "There is no folder" in capsys.readouterr().err
    assert push(tmp_path, server, str(tmp_path)) == 0
    assert len(names(server)) == 15
