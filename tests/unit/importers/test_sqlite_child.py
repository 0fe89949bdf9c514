"""A database cannot keep its reader busy: computed columns are refused, and the process that reads it can be ended."""

import os
import signal
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from convmemory.conversations.importers.base import FileReport, Source
from convmemory.conversations.importers.detect import IMPORTERS, Walk
from convmemory.conversations.importers.sqlite import Database, open_database
from convmemory.core.errors import InvalidInput
from tests.support.agent_databases import make
from tests.unit.importers.helpers import read

# One call of a function of SQLite's own that compares for hours.
ENDLESS = "instr(hex(zeroblob(20000000)), hex(zeroblob(10000000)) || '1')"
GOOSE = """
CREATE TABLE sessions (id TEXT, working_dir TEXT, created_at TEXT);
CREATE TABLE messages (id INTEGER PRIMARY KEY, session_id TEXT, content_json TEXT, created_timestamp INTEGER);
INSERT INTO sessions VALUES ('s', '/', '');
INSERT INTO messages (session_id, content_json, created_timestamp) VALUES ('s', '[]', 1);
ALTER TABLE messages ADD COLUMN role TEXT {role};
"""
SESSIONS = {"columns": "id, working_dir", "table": "sessions", "order": "created_at, id"}


def goose_database(path: Path, role: str = "") -> Path:
    connection = sqlite3.connect(path)
    connection.executescript(GOOSE.format(role=role))
    connection.close()
    return path


def first_row(path: Path, statement: str, *values: object, **names: str) -> Any:
    with open_database(path) as database:
        return next(database.rows(statement, values, **names))


def test_computed_column_is_refused_without_being_computed(tmp_path: Path) -> None:
    path = goose_database(tmp_path / "sessions.db", f"GENERATED ALWAYS AS ({ENDLESS}) VIRTUAL")
    with pytest.raises(InvalidInput, match=r"messages\.role.*only stored columns of ordinary tables are read"):
        read(IMPORTERS["goose"], path)


def test_computed_column_that_is_not_read_does_no_harm(tmp_path: Path) -> None:
    path = goose_database(
        tmp_path / "sessions.db",
        f"; ALTER TABLE messages ADD COLUMN unread TEXT GENERATED ALWAYS AS ({ENDLESS}) VIRTUAL",
    )
    [conversation] = read(IMPORTERS["goose"], path)
    assert conversation.draft.source_id == "s"
    assert "unread" not in Source(path).tables["messages"]


def test_index_with_function_does_not_make_database_unreadable(tmp_path: Path) -> None:
    path = goose_database(tmp_path / "sessions.db")
    connection = sqlite3.connect(path)
    connection.executescript(
        "CREATE INDEX found ON messages (json_extract(content_json, '$.role'));"
        f"CREATE INDEX computed ON messages (id) WHERE content_json = 'none' AND {ENDLESS} IS NULL"
    )
    connection.close()
    [conversation] = read(IMPORTERS["goose"], path)
    assert conversation.draft.source_id == "s"


def test_database_is_left_as_it_is(tmp_path: Path) -> None:
    path = goose_database(tmp_path / "sessions.db")
    before = path.read_bytes()
    read(IMPORTERS["goose"], path)
    assert path.read_bytes() == before


def test_view_in_place_of_table_is_not_taken_for_one(tmp_path: Path) -> None:
    path = tmp_path / "sessions.db"
    connection = sqlite3.connect(path)
    connection.executescript(f"CREATE VIEW sessions AS SELECT {ENDLESS} AS id, 1 AS working_dir; CREATE TABLE t (a)")
    connection.close()
    assert set(Source(path).tables) == {"t"}


def test_read_without_progress_is_ended_and_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = goose_database(tmp_path / "sessions.db")
    with open_database(path) as database:
        monkeypatch.setattr("convmemory.conversations.importers.sqlite.STALL_S", 1.0)
        os.kill(database.process.pid, signal.SIGSTOP)
        with pytest.raises(InvalidInput, match=r"sessions\.db .* returned no row for 1 s"):
            list(database.rows("rows", **SESSIONS))
    assert database.process.returncode == -signal.SIGKILL


def test_process_that_ends_while_it_reads_is_named(tmp_path: Path) -> None:
    path = goose_database(tmp_path / "sessions.db")
    with open_database(path) as database:
        os.kill(database.process.pid, signal.SIGKILL)
        database.process.wait()
        with pytest.raises(InvalidInput, match="ended the process that read it"):
            list(database.rows("rows", **SESSIONS))


def test_values_of_every_type_arrive_as_they_are(tmp_path: Path) -> None:
    path = tmp_path / "threads.db"
    make(path).close()
    columns = "data AS blob, NULL AS missing, 2.5 AS number, 'ä' AS text"
    row = first_row(path, "rows", columns=columns, table="threads", order="id")
    assert isinstance(row["blob"], bytes)
    assert (row["missing"], row["number"], row["text"]) == (None, 2.5, "ä")


def test_rows_of_several_batches_arrive_in_order(tmp_path: Path) -> None:
    path = goose_database(tmp_path / "sessions.db")
    connection = sqlite3.connect(path)
    connection.executemany("INSERT INTO sessions VALUES (?, '/', '')", [(f"{number:04}",) for number in range(1_000)])
    connection.commit()
    connection.close()
    with open_database(path) as database:
        outer = database.rows("rows", **SESSIONS)
        inner = [next(database.rows("opencode_any_message", ["s"], table="messages")) for _ in range(3)]
        ids = [row["id"] for row in outer]
    assert ids == sorted(ids)
    assert len(ids) == 1_001
    assert inner == [{"1": 1}] * 3


def test_database_cannot_be_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = goose_database(tmp_path / "sessions.db")
    monkeypatch.setattr("convmemory.conversations.importers.sqlite.load_sql", lambda package, name: name)
    for statement in ("DELETE FROM messages", "ATTACH 'x' AS x", "SELECT readfile('/etc/passwd')", "SELECT hex('a')"):
        with pytest.raises(InvalidInput), open_database(path) as database:
            list(database.rows(statement))


def test_recognised_database_is_parsed_by_process_that_recognised_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[Database] = []

    class Recorded(Database):
        def __init__(self, *arguments: Any) -> None:
            super().__init__(*arguments)
            started.append(self)

    monkeypatch.setattr("convmemory.conversations.importers.sqlite.Database", Recorded)
    goose_database(tmp_path / "sessions.db")
    walk = Walk().over([tmp_path])
    detected = next(walk)
    assert detected.importer
    [draft] = detected.importer.parse(detected.source, FileReport(path="sessions.db"))
    assert draft.source_id == "s"
    assert len(started) == 1
    assert list(walk) == []
    assert started[0].process.returncode == -signal.SIGKILL
    assert [draft.source_id for draft in detected.importer.parse(detected.source, FileReport(path="sessions.db"))] == [
        "s"
    ]


def test_text_that_is_not_utf_8_is_repaired(tmp_path: Path) -> None:
    path = goose_database(tmp_path / "sessions.db")
    connection = sqlite3.connect(path)
    connection.execute("UPDATE sessions SET id = CAST(X'61ff62' AS TEXT), working_dir = X'61ff62'")
    connection.commit()
    connection.close()
    row = first_row(path, "rows", **SESSIONS)
    assert row == {"id": "a\N{REPLACEMENT CHARACTER}b", "working_dir": b"a\xffb"}
