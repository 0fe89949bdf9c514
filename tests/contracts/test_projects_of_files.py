"""The client reads the same project folder from a file as the importer of its agent does, and divides shared files."""

import json
import shutil
import sqlite3
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
import zstandard

from convmemory.conversations.importers.base import FileReport
from convmemory.conversations.importers.detect import Walk
from convmemory.push.databases import Session
from convmemory.push.projects import Unreadable, can_reduce, is_shared, reduce, sessions_in
from convmemory.push.stores import SessionStore, is_of_chats
from tests.support import agent_databases
from tests.unit.importers.helpers import FIXTURES, write_lines

AGENTS = (
    "amp", "amplifier", "claude-code", "cline", "codex", "continue", "copilot-cli", "droid", "gemini-cli", "grok-build",
    "kimi-code", "mistral-vibe", "pi", "qwen-code", "vscode-copilot",
)  # fmt: skip
DATABASES = {"opencode.db": "opencode", "sessions.db": "goose", "threads.db": "zed", "state.vscdb": "cursor"}
FOLDER = "/home/ada/secret"


def imported(path: Path) -> Iterator[tuple[str, str, str]]:
    """Yield the id, the project and the text of each conversation that the first importer of a file reads."""
    for source in Walk().over([path]):
        if source.importers:
            for draft in source.importers[0].parse(source.source, FileReport(path="")):
                yield draft.source_id, draft.project, str([message.parts for message in draft.messages])


@pytest.mark.parametrize("agent", AGENTS)
def test_client_reads_project_that_importer_reads(agent: str) -> None:
    store = SessionStore(agent, FIXTURES / agent, (".jsonl", ".json"))
    compared = 0
    for path in filter(lambda path: is_of_chats(store, path), store.files()):
        (session,) = sessions_in(store, path)
        for _, project, _ in imported(path):
            # The client's may be the folder in a repository in which the session ran.
            assert session.project == project or Path(session.project).is_relative_to(project or "/")
            compared += bool(project)
    assert compared


@pytest.mark.parametrize("name", DATABASES)
def test_client_reads_projects_of_database_in_use(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    with closing(agent_databases.make(path)):
        store = SessionStore(DATABASES[name], tmp_path, (path.suffix,))
        assert {session.project for session in sessions_in(store, path)} == {each[1] for each in imported(path)}
        assert is_shared(store, path)


@pytest.mark.parametrize("agent", ["kiro-cli", "hermes-database", "zed"])
def test_client_reads_projects_of_database_of_fixture(agent: str, tmp_path: Path) -> None:
    (path,) = (path for path in (FIXTURES / agent).iterdir() if path.suffix in (".db", ".sqlite3"))
    path = Path(shutil.copy(path, tmp_path))
    sessions = sessions_in(SessionStore(agent, tmp_path, (path.suffix,)), path)
    assert [(each.id, each.project) for each in sessions] == [each[:2] for each in imported(path)]


@pytest.mark.parametrize(
    ("name", "table", "project"),
    [
        ("opencode.db", "session", "directory"),
        ("sessions.db", "sessions", "working_dir"),
        ("threads.db", "threads", "folder_paths"),
    ],
)
def test_reduced_database_has_kept_sessions_whole_and_no_other_word(
    name: str, table: str, project: str, tmp_path: Path
) -> None:
    path, part = tmp_path / name, tmp_path / "part.db"
    store = SessionStore(DATABASES[name], tmp_path, (".db",))
    with closing(agent_databases.make(path)) as connection:
        before = {id: text for id, _, text in imported(path)}
        columns = [row[1] for row in connection.execute(f"PRAGMA table_info({table})")]
        copied = ", ".join(
            "'private'" if column in ("id", "title", "name", "summary") else column for column in columns
        )
        copied = copied.replace(project, f"'{FOLDER}'")
        connection.execute(f"INSERT INTO {table} SELECT {copied} FROM {table} LIMIT 1")
        connection.execute("CREATE TABLE search_index AS SELECT 'private words' AS text")
        assert FOLDER in {session.project for session in sessions_in(store, path)}
        with closing(sqlite3.connect(tmp_path / "copy.db")) as copy:
            connection.backup(copy)
        reduce(store, tmp_path / "copy.db", part, lambda session: session.project != FOLDER)
    assert {id: text for id, _, text in imported(part)} == before
    assert b"private" not in part.read_bytes()


def test_history_of_prompts_is_divided_by_line(tmp_path: Path) -> None:
    lines = [
        {"display": f"typed in {name}", "timestamp": 1, "project": name, "sessionId": name} for name in ("/a", "/b")
    ]
    path = write_lines(tmp_path / "history.jsonl", lines)
    store = SessionStore("claude-code", path, (".jsonl",))
    assert sessions_in(store, path) == [Session("/a", "/a"), Session("/b", "/b")]
    reduce(store, path, tmp_path / "part", lambda session: session.project == "/b")
    assert (tmp_path / "part").read_bytes() == path.read_bytes().splitlines(keepends=True)[1]


def codex(tmp_path: Path) -> Path:
    id = "019f0000-0000-7000-8000-00000000000a"
    folder = tmp_path / "sessions" / "2026"
    record = {"timestamp": "2026-11-01T00:00:00Z", "type": "session_meta", "payload": {"id": id, "cwd": FOLDER}}
    return write_lines(folder / f"rollout-2026-11-01T00-00-00-{id}.jsonl", [record])


def test_prompts_of_codex_belong_to_folder_of_their_session(tmp_path: Path) -> None:
    id = codex(tmp_path).stem[-36:]
    path = write_lines(
        tmp_path / "history.jsonl", [{"session_id": name, "ts": 1, "text": "x"} for name in (id, "gone")]
    )
    sessions = sessions_in(SessionStore("codex-history", path, (".jsonl",)), path)
    assert sessions == [Session(id, FOLDER), Session("gone", "")]


def test_compressed_rollout_has_folder_that_codex_lists_or_is_unreadable(tmp_path: Path) -> None:
    plain = codex(tmp_path)
    path = plain.with_name(f"{plain.name}.zst")
    path.write_bytes(zstandard.compress(plain.read_bytes()))
    plain.unlink()
    store = SessionStore("codex", tmp_path / "sessions", (".jsonl", ".jsonl.zst"))
    if sys.version_info < (3, 14):
        with pytest.raises(Unreadable, match="compressed"):
            sessions_in(store, path)
    with closing(sqlite3.connect(tmp_path / "state_5.sqlite", isolation_level=None)) as connection:
        connection.execute("CREATE TABLE threads (id TEXT, cwd TEXT)")
        connection.execute("INSERT INTO threads VALUES (?, ?)", (plain.stem[-36:], FOLDER))
    assert [session.project for session in sessions_in(store, path)] == [FOLDER]


def test_transcript_of_cursor_has_every_folder_that_its_name_can_mean(tmp_path: Path) -> None:
    for name in ("my/app", "my-app", "my app", "your/app"):
        (tmp_path / name).mkdir(parents=True)
    slug = "-".join("".join(c if c.isalnum() else "-" for c in part) for part in tmp_path.parts[1:])
    while "--" in slug:
        slug = slug.replace("--", "-")
    path = tmp_path / "projects" / f"{slug}-my-app" / "agent-transcripts" / "a.jsonl"
    write_lines(path, [{}])
    projects = {
        session.project for session in sessions_in(SessionStore("cursor", tmp_path / "projects", (".jsonl",)), path)
    }
    assert projects == {str(tmp_path / name) for name in ("my/app", "my-app", "my app")}


def test_task_of_cline_has_folder_of_list_of_all_tasks(tmp_path: Path) -> None:
    path = tmp_path / "tasks" / "1767261600000" / "api_conversation_history.json"
    shutil.copytree(FIXTURES / "cline/tasks/1767261600000", path.parent)
    (tmp_path / "state").mkdir()
    tasks = [{"id": "1", "cwdOnTaskInitialization": "/b"}, {"id": path.parent.name, "cwdOnTaskInitialization": FOLDER}]
    (tmp_path / "state" / "taskHistory.json").write_text(json.dumps(tasks))
    ((_, project, _),) = imported(path)
    (session,) = sessions_in(SessionStore("cline", tmp_path / "tasks", (".json",)), path)
    assert session.project == project == FOLDER


def test_database_of_editor_cannot_be_divided(tmp_path: Path) -> None:
    assert not can_reduce(SessionStore("cursor", tmp_path, (".vscdb",)), tmp_path / "state.vscdb")
