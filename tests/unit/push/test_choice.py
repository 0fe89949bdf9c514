"""Nothing is sent unasked: a hook sends its session alone, the rest goes after a yes, and rules keep sessions here."""

import io
import json
import os
import subprocess
import sys
import time
import zipfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from convmemory.push import __main__
from convmemory.push.account import Account
from convmemory.push.pushing import ERROR_EXIT
from tests.support.agent_databases import make
from tests.support.import_server import ImportServer, import_server
from tests.support.patience import ANSWER_S
from tests.unit.importers.helpers import write_lines

IDS = [f"{number:08}-0000-4000-8000-000000000000" for number in range(4)]
CLAUDE, CODEX = IDS[:2], IDS[2:]


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[ImportServer]:
    for name in ("CLAUDE_CONFIG_DIR", "CODEX_HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME", "CONVMEMORY_KEY_FILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.delenv("CONVMEMORY", raising=False)
    monkeypatch.setenv("CONVMEMORY_KEY", "cm_key")
    with import_server() as running:
        yield running


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home folder with two sessions of Claude Code in one project, and two of Codex in another."""
    for id in CLAUDE:
        line = {"type": "user", "sessionId": id, "cwd": str(tmp_path / "work" / "open"), "message": {"content": id}}
        write_lines(tmp_path / f".claude/projects/-p/{id}.jsonl", [{"type": "summary", "summary": "s"}, line])
    write_lines(tmp_path / f".claude/projects/-p/{CLAUDE[0]}/subagents/agent-1.jsonl", [line])
    for id in CODEX:
        meta = {"type": "session_meta", "payload": {"id": id, "cwd": str(tmp_path / "work" / "secret")}}
        write_lines(tmp_path / f".codex/sessions/2026/11/01/rollout-2026-11-01T00-00-00-{id}.jsonl", [meta])
    typed = [
        {"display": "x", "project": str(tmp_path / "work" / name), "sessionId": name} for name in ("open", "secret")
    ]
    write_lines(tmp_path / ".claude/history.jsonl", typed)
    (tmp_path / "work" / "secret").mkdir(parents=True)
    return tmp_path


def run(home: Path, server: ImportServer, *options: str) -> int:
    return __main__.main([*options, "--server", server.address, "--home", str(home)])


def hook(
    home: Path, server: ImportServer, event: str, given: dict[str, Any], agent: str = "claude-code", **more: str
) -> None:
    command = [sys.executable, str(Path(__main__.__file__).parent), "hook", event, agent, "--home", str(home)]
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(home),
        "CONVMEMORY_KEY": "k",
        "CONVMEMORY_SERVER": server.address,
    }
    subprocess.run(command, input=json.dumps(given), text=True, env=environment | more, check=True)


def sent(server: ImportServer) -> dict[str, bytes]:
    archives = [zipfile.ZipFile(io.BytesIO(upload)) for upload in server.uploads]
    return {name.rpartition("/")[2]: archive.read(name) for archive in archives for name in archive.namelist()}


def names(server: ImportServer) -> list[str]:
    return sorted(sent(server))


def answer(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    terminal = io.StringIO(text)
    terminal.isatty = lambda: True  # type: ignore[method-assign]
    monkeypatch.setattr("sys.stdin", terminal)


def ended(home: Path, id: str, cwd: str) -> list[dict[str, Any]]:
    """Return what Claude Code and Codex say at the end of a session."""
    return [
        {"session_id": id, "cwd": cwd, "transcript_path": str(home / f".claude/projects/-p/{id}.jsonl")},
        {"session_id": id, "cwd": cwd},
        {"sessionId": id, "cwd": cwd},
    ]


@pytest.mark.parametrize("number", range(3))
def test_end_of_session_sends_it_with_its_subagents_and_no_other(home: Path, server: ImportServer, number: int) -> None:
    hook(home, server, "end", ended(home, CLAUDE[0], "/p")[number])
    deadline = time.monotonic() + ANSWER_S
    while not server.uploads:
        assert time.monotonic() < deadline
    assert names(server) == [f"{CLAUDE[0]}.jsonl", "agent-1.jsonl"]


def test_end_of_session_that_is_named_by_its_file_alone_sends_it(home: Path, server: ImportServer) -> None:
    """Gemini CLI names its files by a part of the id, and homes can be behind links."""
    path = home / ".gemini/tmp/p/chats/session-2026-11-01T00-00-0a1b2c3d.jsonl"
    write_lines(path, [{"sessionId": "0a1b2c3d-0000-4000-8000-000000000000"}])
    (home / "link").symlink_to(home)
    transcript = home / "link" / path.relative_to(home)
    assert run(home, server, "push", f"--session={IDS[3]}x", f"--transcript={transcript}") == 0
    assert names(server) == [path.name]


@pytest.mark.parametrize("session", ["", "jsonl", "p", "0000", "rollout", "../..", "*"])
def test_end_of_session_without_its_id_sends_nothing(home: Path, server: ImportServer, session: str) -> None:
    (home / "elsewhere.jsonl").write_text("{}\n")
    assert run(home, server, "push", f"--session={session}", f"--transcript={home}/elsewhere.jsonl") == 0
    assert server.uploads == []


def test_rest_is_sent_after_it_was_listed_and_agreed_to_once(
    home: Path, server: ImportServer, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    answer(monkeypatch, "\n")
    assert run(home, server, "push") == ERROR_EXIT
    assert f"claude-code          3 files  {home}/work/open" in capsys.readouterr().out
    assert server.uploads == []
    answer(monkeypatch, "y\n")
    assert run(home, server, "push") == 0
    assert len(names(server)) == 6
    write_lines(home / f".claude/projects/-p/{IDS[3]}.jsonl", [{"cwd": "/p"}])
    monkeypatch.setattr("sys.stdin", io.StringIO())
    assert run(home, server, "push") == 0
    assert len(names(server)) == 7


def test_nothing_is_sent_without_terminal_or_consent(
    home: Path, server: ImportServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("y\n"))
    assert run(home, server, "push") == ERROR_EXIT
    assert run(home, server, "push", "--every", "1") == ERROR_EXIT
    assert server.uploads == []
    assert run(home, server, "push", "--yes") == 0
    assert len(names(server)) == 6


def test_agent_that_comes_later_is_asked_about(
    home: Path, server: ImportServer, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run(home, server, "push", "--yes")
    write_lines(home / ".qwen/projects/p/chats/a.jsonl", [{"cwd": "/p"}])
    write_lines(home / f".claude/projects/-p/{IDS[3]}.jsonl", [{"cwd": "/p"}])
    monkeypatch.setattr("sys.stdin", io.StringIO())
    assert run(home, server, "push") == 0
    assert f"{IDS[3]}.jsonl" in names(server)
    assert "a.jsonl" not in names(server)
    assert "Of agents that were not agreed to, nothing is sent" in capsys.readouterr().err


def test_connect_lists_and_asks_and_folder_that_is_named_is_sent(
    home: Path, server: ImportServer, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO())
    assert run(home, server, "connect", "claude-code") == 0
    printed = capsys.readouterr().out
    assert f"codex                2 files  {home}/work/secret" in printed
    assert "Nothing was sent." in printed
    assert server.uploads == []
    assert run(home, server, "push", str(home / ".codex/sessions")) == 0
    assert len(names(server)) == 2
    answer(monkeypatch, "yes\n")
    assert run(home, server, "connect", "claude-code") == 0
    assert len(names(server)) == 6
    assert run(home, server, "connect", "claude-code") == 0
    assert "On this machine" not in capsys.readouterr().out.partition("6 files")[2]


def test_ignored_folder_is_sent_by_no_way(home: Path, server: ImportServer, capsys: pytest.CaptureFixture[str]) -> None:
    (home / "work" / ".convmemory-ignore").write_text("secret/\n")
    hook(home, server, "end", {"session_id": CODEX[0], "cwd": str(home / "work/secret")}, "codex")
    for options in (
        ["push", f"--session={CODEX[0]}"],
        ["push", str(home / ".codex/sessions")],
        ["connect", "codex", "--yes"],
        ["push", "--yes"],
    ):
        assert run(home, server, *options) == 0
    files = sent(server)
    assert sorted(files) == [f"{CLAUDE[0]}.jsonl", f"{CLAUDE[1]}.jsonl", "agent-1.jsonl", "history.jsonl"]
    assert b"secret" not in b"".join(files.values())
    assert f"2 files left out: {home}/work/.convmemory-ignore" in capsys.readouterr().out
    # What was left out is sent once the rule has gone, and what was divided again.
    (home / "work" / ".convmemory-ignore").unlink()
    run(home, server, "push", "--yes")
    assert len(names(server)) == 6
    assert b"secret" in sent(server)["history.jsonl"]


def test_copied_transcript_of_ignored_folder_is_not_sent(home: Path, server: ImportServer) -> None:
    (home / "work" / ".convmemory-ignore").write_text("")
    copied = home / "copied"
    for path in [*home.glob(".claude/projects/-p/*.jsonl"), *home.rglob("rollout-*.jsonl")]:
        write_lines(copied / path.name, path.read_text().splitlines())
    (copied / "broken.json").write_text("{")
    assert run(home, server, "push", str(copied)) == 0
    assert names(server) == ["broken.json"]
    (copied / ".convmemory-ignore").touch()
    (copied / "broken.json").write_text("{{")
    assert run(home, server, "push", str(copied)) == 0
    assert names(server) == ["broken.json"]


def test_database_is_sent_without_sessions_of_ignored_folder(home: Path, server: ImportServer) -> None:
    path = home / ".local/share/opencode/opencode.db"
    path.parent.mkdir(parents=True)
    with closing(make(path)) as connection:
        connection.execute("UPDATE session SET directory = ? WHERE id = 'ses_two'", [str(home / "work/secret")])
        (home / "work/secret/.convmemory-ignore").touch()
        assert run(home, server, "push", "--yes") == 0
        assert run(home, server, "push") == 0
    assert len(server.uploads) == 1
    database = sent(server)["opencode.db"]
    assert b"Asked in ses_one" in database
    assert b"ses_two" not in database


def test_database_that_cannot_be_divided_stays(
    home: Path, server: ImportServer, capsys: pytest.CaptureFixture[str]
) -> None:
    path = home / ".config/Cursor/User/globalStorage/state.vscdb"
    path.parent.mkdir(parents=True)
    with closing(make(path)) as connection:
        workspace = {"uri": {"fsPath": str(home / "work/secret/app")}}
        value = json.dumps({"composerId": "c9", "workspaceIdentifier": workspace}).encode()
        connection.execute("INSERT INTO cursorDiskKV VALUES ('composerData:c9', ?)", [value])
        (home / "work/secret/.convmemory-ignore").touch()
        assert run(home, server, "push", "--yes") == 0
    assert "state.vscdb" not in names(server)
    assert "cannot be divided" in capsys.readouterr().out


def test_list_of_projects_is_all_that_is_sent(home: Path, server: ImportServer) -> None:
    account = Account(home)
    account.projects_file.parent.mkdir(parents=True)
    account.projects_file.write_text("~/work/secret\n")
    write_lines(home / ".lmstudio/conversations/a.conversation.json", [{}])  # names no folder
    hook(home, server, "end", {"session_id": CLAUDE[0], "cwd": str(home / "work/open")})
    assert run(home, server, "push", "--yes") == 0
    assert names(server) == sorted(["history.jsonl", *(f"rollout-2026-11-01T00-00-00-{id}.jsonl" for id in CODEX)])
    assert b"work/open" not in sent(server)["history.jsonl"]


@pytest.mark.parametrize("switch", ["pause", "off"])
def test_nothing_is_sent_or_asked_while_paused_or_off(
    home: Path, server: ImportServer, switch: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    if switch == "pause":
        assert run(home, server, "pause") == 0
    else:
        monkeypatch.setenv("CONVMEMORY", "off")
    environment = {"CONVMEMORY": os.environ.get("CONVMEMORY", "")}
    for event in ("start", "prompt", "end"):
        prompt = {
            "session_id": CLAUDE[0],
            "cwd": str(home / "work/open"),
            "prompt": "why does the pump stop every night",
        }
        hook(home, server, event, prompt, **environment)
    assert "left-out" in (home / ".local/state/convmemory/hook.log").read_text().split()
    assert run(home, server, "push", "--yes") == 0
    assert run(home, server, "push", str(home / ".codex")) == 0
    assert run(home, server, "connect", "--yes", "claude-code") == 0
    assert (server.uploads, server.requests, server.asked) == ([], 0, [])
    run(home, server, "connect", "--check")
    assert "Nothing is sent or recalled: " in capsys.readouterr().out
    monkeypatch.delenv("CONVMEMORY", raising=False)
    if switch == "pause":
        assert run(home, server, "resume") == 0
    assert run(home, server, "push", "--yes") == 0
    # A session that ran switched off is not sent later either; one that ran during a pause is.
    assert (f"{CLAUDE[0]}.jsonl" in names(server)) == (switch == "pause")
    assert f"{CLAUDE[1]}.jsonl" in names(server)


def test_check_counts_what_stays_here_by_rule(
    home: Path, server: ImportServer, capsys: pytest.CaptureFixture[str]
) -> None:
    run(home, server, "connect", "claude-code")
    (home / "work" / "secret" / ".convmemory-ignore").touch()
    Account(home).projects_file.write_text(f"{home}/work\n")
    write_lines(home / ".codex/sessions/2026/rollout-1.jsonl", [{"payload": {"cwd": "/elsewhere"}}])
    run(home, server, "connect", "--check")
    printed = capsys.readouterr().out
    assert f"Only these projects ({home}/.config/convmemory/projects): {home}/work" in printed
    assert f"Left out: 2 files: {home}/work/secret/.convmemory-ignore" in printed
    assert "Left out: 1 file: not in the list of projects" in printed
