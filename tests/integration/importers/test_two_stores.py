"""One session that a program keeps in two stores, or in a file that it rewrote, is one conversation."""

import io
import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User

from convmemory.accounts.callers import Caller
from convmemory.conversations.importing.runner import ImportReport, import_paths, import_upload
from convmemory.conversations.messages.parts import part_from_json, part_text
from convmemory.conversations.models import Conversation, Message
from tests.unit.importers.helpers import write_lines

pytestmark = pytest.mark.django_db

SESSION, CHILD = "20260605_153449_7bf782", "20260605_160102_9ac001"
SAID = [("user", "Count the jars"), ("assistant", "Nine."), ("user", "And the lids?"), ("assistant", "Eight.")]


def imported(owner: User, *paths: Path) -> ImportReport:
    return import_paths(caller=Caller.of(owner), paths=paths)


def texts(owner: User) -> dict[str, list[str]]:
    """What is said in each conversation, by its title; messages of no person and no model are in brackets."""
    return {
        chat.title: [
            f"({text})" if message.role == "system" else text
            for message in chat.messages.order_by("position")
            for text in [" ".join(map(part_text, map(part_from_json, message.parts)))]
        ]
        for chat in Conversation.objects.filter(archive_id=owner.pk).order_by("pk")
    }


def hermes(folder: Path) -> tuple[Path, Path]:
    """A database with a session and its continuation after a compaction, and the session as JSON."""
    database = folder / "state.db"
    with sqlite3.connect(database) as connection:
        connection.execute("CREATE TABLE sessions(id text, parent_session_id text, started_at real, title text)")
        connection.execute(
            "CREATE TABLE messages(id integer primary key, session_id text, role text, content text, tool_name text,"
            " tool_calls text, timestamp real, finish_reason text)"
        )
        rows = [(SESSION, None, 1783620000.0, "Jars"), (CHILD, SESSION, 1783620100.0, "Jars, continued")]
        connection.executemany("INSERT INTO sessions VALUES (?, ?, ?, ?)", rows)
        stored = [(SESSION, *message) for message in SAID] + [(CHILD, *message) for message in SAID[:2]]
        stored.append((CHILD, "user", "[CONTEXT COMPACTION] Earlier turns were compacted."))
        stored += [(CHILD, "user", "Order lids"), (CHILD, "assistant", "Ordered.")]
        connection.executemany(
            "INSERT INTO messages(session_id, role, content, timestamp) VALUES (?, ?, ?, ?)",
            [(*row, 1783620001.0 + number) for number, row in enumerate(stored)],
        )
    connection.close()
    exported = folder / f"session_{SESSION}.json"
    messages = [{"role": role, "content": text} for role, text in SAID]
    exported.write_text(
        json.dumps({"session_id": SESSION, "session_start": "2026-07-09T18:00:00", "messages": messages})
    )
    return database, exported


@pytest.mark.parametrize("is_json_first", [False, True])
def test_session_in_database_and_json_is_one_conversation(tmp_path: Path, owner: User, is_json_first: bool) -> None:
    stores = hermes(tmp_path)
    for _ in range(2):
        report = imported(owner, *(stores[::-1] if is_json_first else stores))
        assert texts(owner) == {
            "Jars": [text for _, text in SAID],
            "Jars, continued": ["([CONTEXT COMPACTION] Earlier turns were compacted.)", "Order lids", "Ordered."],
        }
    assert report.total("added") == 0
    assert not any(file.notes for file in report.files)


def rollout(path: Path, *records: dict[str, Any]) -> Path:
    meta = {"type": "session_meta", "payload": {"id": "019a1111-2222-7333-8444-555566667777", "cwd": "/home/ada"}}
    return write_lines(path, [meta, *records])


def event(turn: str, prompt: str, answer: str) -> list[dict[str, Any]]:
    return [
        {"type": "turn_context", "payload": {"turn_id": turn}},
        {"type": "event_msg", "payload": {"type": "user_message", "message": prompt}},
        {"type": "event_msg", "payload": {"type": "agent_message", "message": answer}},
    ]


def test_rewritten_rollout_keeps_archived_turns_and_title(tmp_path: Path, owner: User) -> None:
    before = [*event("t0", "Why is the jar shut?", "Vacuum."), *event("t1", "How do I open it?", "Warm the lid.")]
    repeated = [
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]}
        for text in ("Why is the jar shut?", "How do I open it?", "And without warmth?")
    ]
    after: list[dict[str, Any]] = [
        {"type": "compacted", "payload": {"message": "", "replacement_history": repeated}},
        *event("t9", "Where were we?", "No idea."),
    ]
    path = tmp_path / "rollout-2026-07-11T15-27-42-019a1111-2222-7333-8444-555566667777.jsonl"
    imported(owner, rollout(path, *before))
    (file,) = imported(owner, rollout(path, *after)).files
    [(title, shown)] = texts(owner).items()
    assert title == "Why is the jar shut?"
    assert sorted(shown[:4]) == sorted(["Why is the jar shut?", "Vacuum.", "How do I open it?", "Warm the lid."])
    assert shown[-4] == "And without warmth?"
    assert shown[-2:] == ["Where were we?", "No idea."]
    assert any("3 prompts are only in a compaction" in note for note in file.notes)
    assert any("2 messages that are archived are not in this file" in note for note in file.notes)
    assert imported(owner, path).total("added") == 0


@pytest.mark.parametrize(
    ("name", "day"),
    [("chat.json", None), ("chat-20250601_1.json", "2025-06-01"), ("2025-06-01 chat.json", "2025-06-01")],
)
def test_upload_without_times_is_dated_by_its_name_or_not_at_all(
    tmp_path: Path, owner: User, name: str, day: str | None
) -> None:
    upload = io.BytesIO(json.dumps([{"role": role, "content": text} for role, text in SAID]).encode())
    import_upload(caller=Caller.of(owner), file=upload, name=name, folder=tmp_path)
    dates = Message.objects.filter(archive_id=owner.pk).values_list("created_at", flat=True)
    assert {at and at.date().isoformat() for at in dates} == {day}
