"""Databases as coding agents make them, with their published schemas and a conversation or two in each."""

import json
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import zstandard

OPENCODE_SESSION = """
CREATE TABLE {table} (
  id text PRIMARY KEY, project_id text NOT NULL, workspace_id text, parent_id text, fork_session_id text,
  slug text NOT NULL, directory text NOT NULL, path text, title text NOT NULL, version text NOT NULL, share_url text,
  revert text, permission text, agent text, model text, time_created integer NOT NULL, time_updated integer NOT NULL,
  time_compacting integer, time_archived integer)
"""
OPENCODE_FIRST = """
CREATE TABLE message (id text PRIMARY KEY, session_id text NOT NULL REFERENCES session(id) ON DELETE CASCADE,
  time_created integer NOT NULL, time_updated integer NOT NULL, data text NOT NULL);
CREATE TABLE part (id text PRIMARY KEY, message_id text NOT NULL REFERENCES message(id) ON DELETE CASCADE,
  session_id text NOT NULL, time_created integer NOT NULL, time_updated integer NOT NULL, data text NOT NULL);
CREATE INDEX message_session_time_created_id_idx ON message (session_id, time_created, id);
"""
OPENCODE_SECOND = """
CREATE TABLE session_message (id text PRIMARY KEY, session_id text NOT NULL, type text NOT NULL, seq integer NOT NULL,
  time_created integer NOT NULL, time_updated integer NOT NULL, data text NOT NULL);
CREATE UNIQUE INDEX session_message_session_seq_idx ON session_message (session_id, seq);
"""
GOOSE = """
CREATE TABLE schema_version (version INTEGER PRIMARY KEY, applied_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP);
CREATE TABLE sessions (id TEXT PRIMARY KEY, name TEXT NOT NULL DEFAULT '', description TEXT NOT NULL DEFAULT '',
  session_type TEXT NOT NULL DEFAULT 'user', working_dir TEXT NOT NULL, created_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP,
  updated_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP, extension_data TEXT DEFAULT '{}', provider_name TEXT,
  model_config_json TEXT);
CREATE TABLE messages (id INTEGER PRIMARY KEY AUTOINCREMENT, message_id TEXT,
  session_id TEXT NOT NULL REFERENCES sessions(id), role TEXT NOT NULL, content_json TEXT NOT NULL,
  created_timestamp INTEGER NOT NULL, timestamp TIMESTAMP DEFAULT CURRENT_TIMESTAMP, tokens INTEGER,
  metadata_json TEXT);
"""
ZED = """
CREATE TABLE threads (id TEXT PRIMARY KEY, parent_id TEXT, folder_paths TEXT, summary TEXT NOT NULL,
  updated_at TEXT NOT NULL, data_type TEXT NOT NULL, data BLOB NOT NULL, created_at TEXT);
"""
CURSOR = """
CREATE TABLE ItemTable (key TEXT UNIQUE ON CONFLICT REPLACE, value BLOB);
CREATE TABLE cursorDiskKV (key TEXT UNIQUE ON CONFLICT REPLACE, value BLOB);
"""
MS = 1_780_000_000_000


def opencode(connection: sqlite3.Connection) -> None:
    """Session `one` is in both generations, `two` in the first alone, `three` in the second alone."""
    connection.executescript(OPENCODE_SESSION.format(table="session") + ";" + OPENCODE_FIRST)
    connection.executescript(OPENCODE_SESSION.format(table="session_v2") + ";" + OPENCODE_SECOND)
    for table, ids in (("session", ("ses_one", "ses_two")), ("session_v2", ("ses_one", "ses_three"))):
        for number, id in enumerate(ids):
            _insert(connection, table, id=id, project_id="p", slug="s", directory="/home/ada/bakery",
                    title=f"Title of {id}", version="1.2.24", time_created=MS + number, time_updated=MS,
                    parent_id="ses_one" if id == "ses_three" else None)  # fmt: skip
    for session in ("ses_one", "ses_two"):
        _opencode_message(connection, session, "1", {"role": "user"}, [{"type": "text", "text": f"Asked in {session}"}])
        tool = {
            "type": "tool",
            "callID": "c",
            "tool": "bash",
            "state": {"status": "completed", "input": {}, "output": "ok"},
        }
        answer: list[dict[str, Any]] = [
            {"type": "reasoning", "text": "Hm."},
            tool,
            {"type": "text", "text": "Answered."},
        ]
        _opencode_message(connection, session, "2", {"role": "assistant", "modelID": "m"}, answer)
    for session in ("ses_one", "ses_three"):
        tool = {"type": "tool", "id": "c", "name": "bash",
                "state": {"status": "completed", "input": {}, "content": [{"type": "text", "text": "ok"}]}}  # fmt: skip
        content = [{"type": "reasoning", "text": "Hm."}, tool, {"type": "text", "text": "Answered anew."}]
        rows = (
            ("user", {"text": f"Asked in {session}", "time": {"created": MS}}),
            ("model-switched", {"model": {"id": "m", "providerID": "p"}}),
            ("assistant", {"content": content, "model": {"id": "m", "providerID": "p"}, "time": {"created": MS}}),
        )
        for seq, (kind, data) in enumerate(rows):
            _insert(connection, "session_message", id=f"{session}:{seq}", session_id=session, type=kind, seq=seq,
                    time_created=MS, time_updated=MS, data=json.dumps(data))  # fmt: skip


def _opencode_message(
    connection: sqlite3.Connection, session: str, number: str, info: dict[str, Any], parts: list[dict[str, Any]]
) -> None:
    id = f"msg_{session}_{number}"
    times = {"time_created": MS + int(number), "time_updated": MS}
    info = {**info, "time": {"created": MS}}
    _insert(connection, "message", id=id, session_id=session, data=json.dumps(info), **times)
    for place, part in enumerate(parts):
        _insert(
            connection, "part", id=f"{id}_{place}", message_id=id, session_id=session, data=json.dumps(part), **times
        )


def goose(connection: sqlite3.Connection) -> None:
    connection.executescript(GOOSE)
    _insert(connection, "sessions", id="20260601_1", name="Bees", working_dir="/home/ada/bees",
            created_at="2026-06-01 08:00:00", model_config_json='{"model_name": "m"}')  # fmt: skip
    result = {"status": "success", "value": {"content": [{"type": "text", "text": "ok"}], "isError": False}}
    messages: list[tuple[str, list[dict[str, Any]]]] = [
        ("user", [{"type": "text", "text": "Asked of goose"}]),
        ("assistant", [{"type": "toolRequest", "id": "c", "toolCall": {"value": {"name": "shell", "arguments": {}}}}]),
        ("user", [{"type": "toolResponse", "id": "c", "toolResult": result}]),
        ("assistant", [{"type": "text", "text": "Answered."}]),
    ]
    for number, (role, content) in enumerate(messages):
        _insert(connection, "messages", message_id=f"m{number}", session_id="20260601_1", role=role,
                content_json=json.dumps(content), created_timestamp=1_780_300_000 + number)  # fmt: skip


def zed(connection: sqlite3.Connection) -> None:
    """One thread of version 0.3.0, compressed, and one of 0.2.0 as it was."""
    connection.executescript(ZED)
    tool = {
        "ToolUse": {"id": "c", "name": "grep", "raw_input": "{}", "input": {"regex": "x"}, "is_input_complete": True}
    }
    results = {"c": {"tool_use_id": "c", "tool_name": "grep", "is_error": False, "content": {"Text": "ok"}}}
    thread = {"version": "0.3.0", "title": "t", "model": {"provider": "p", "model": "m"}, "messages": [
        {"User": {"id": "u1", "content": [{"Text": "Asked of zed"}, {"Mention": {"uri": "file:///a"}}]}},
        {"Agent": {"content": [{"Thinking": {"text": "Hm."}}, tool, {"Text": "Answered."}], "tool_results": results}},
        "Resume"]}  # fmt: skip
    old = {"version": "0.2.0", "summary": "old", "messages": [
        {"id": 0, "role": "user", "segments": [{"type": "text", "text": "Asked long ago"}]},
        {"id": 1, "role": "assistant", "segments": [{"type": "text", "text": "Answered."}]}]}  # fmt: skip
    packed = zstandard.compress(json.dumps(thread).encode())
    for id, kind, data in (("new", "zstd", packed), ("old", "json", json.dumps(old).encode())):
        _insert(connection, "threads", id=id, summary=f"Thread {id}", folder_paths="/home/ada/shop\n/tmp",
                updated_at="2026-06-01T08:00:00Z", data_type=kind, data=data)  # fmt: skip


def cursor(connection: sqlite3.Connection) -> None:
    connection.executescript(CURSOR)
    tool = {"name": "read_file", "toolCallId": "c", "rawArgs": '{"path": "a"}', "result": "ok", "status": "completed"}
    values: dict[str, dict[str, Any]] = {
        "composerData:c1": {
            "composerId": "c1", "name": "Menu", "createdAt": MS, "modelConfig": {"modelName": "m"},
            "fullConversationHeadersOnly": [{"bubbleId": f"b{n}", "type": 2 if n > 1 else 1} for n in (1, 2, 3)],
        },
        "bubbleId:c1:b1": {"bubbleId": "b1", "type": 1, "text": "Asked of cursor"},
        "bubbleId:c1:b2": {"bubbleId": "b2", "type": 2, "text": "", "toolFormerData": tool},
        "bubbleId:c1:b3": {"bubbleId": "b3", "type": 2, "text": "Answered.", "thinking": {"text": "Hm."}},
        "composerData:c2": {"composerId": "c2", "conversation": [{"bubbleId": "x", "type": 1, "text": "Asked early"},
                                                                {"bubbleId": "y", "type": 2, "text": "Answered."}]},
        "composerData:c3": {"composerId": "c3", "fullConversationHeadersOnly": [{"bubbleId": "gone", "type": 1}]},
        "agentKv:blob:00ff": {"id": "binary"},
    }  # fmt: skip
    for key, value in values.items():
        _insert(connection, "cursorDiskKV", key=key, value=json.dumps(value).encode())


MAKERS: dict[str, Callable[[sqlite3.Connection], None]] = {
    "opencode.db": opencode,
    "sessions.db": goose,
    "threads.db": zed,
    "state.vscdb": cursor,
}


def make(path: Path) -> sqlite3.Connection:
    """The database that this file name stands for, in write-ahead mode; the connection holds it open."""
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA wal_autocheckpoint = 0")
    MAKERS[path.name](connection)
    return connection


def _insert(connection: sqlite3.Connection, table: str, **values: Any) -> None:
    places = ", ".join("?" * len(values))
    connection.execute(f"INSERT INTO {table} ({', '.join(values)}) VALUES ({places})", list(values.values()))
