"""A file is read by the importer of its format, or refused: nothing is stored of what only looks like a format."""

import json
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User

from convmemory.accounts.callers import Caller
from convmemory.conversations.importing.runner import ImportReport, import_paths
from convmemory.conversations.models import Message
from tests.factories import make_user
from tests.unit.importers.helpers import assistant_line, user_line, write_lines

pytestmark = pytest.mark.django_db

AT = "2026-02-03T10:00:00Z"
ID = "7d1f0a52-3c1b-4f6e-9a57-2f6b1c9d0e11"
Q, A = "How high does a plover fly?", "As high as it likes."


def qwen(kind: str, text: str) -> dict[str, Any]:
    message = {"role": kind, "parts": [{"text": text}]}
    return {"uuid": f"u-{kind}", "sessionId": ID, "timestamp": AT, "type": kind, "cwd": "/home/ada", "message": message}


def mapped(request: dict[str, Any], answer: dict[str, Any]) -> dict[str, Any]:
    nodes = {
        "root": {"id": "root", "parent": None, "children": ["1"], "message": None},
        "1": {"id": "1", "parent": "root", "children": ["2"], "message": request},
        "2": {"id": "2", "parent": "1", "children": [], "message": answer},
    }
    return {"id": ID, "title": "Plovers", "inserted_at": AT, "mapping": nodes}


def fragments(kind: str, text: str) -> dict[str, Any]:
    return {"model": "m", "inserted_at": AT, "fragments": [{"type": kind, "content": text}]}


# Shapes of programs that other programs' importers claimed, as JSON documents or lines. Each says Q and A.
FOREIGN: dict[str, Any] = {
    "mapping with fragments": [mapped(fragments("REQUEST", Q), fragments("RESPONSE", A))],
    "mapping without authors": [mapped({"content": Q, "inserted_at": AT}, {"content": A, "reasoning_content": "hm"})],
    "session lines with parts": [qwen("user", Q), qwen("assistant", A), {**qwen("system", ""), "message": None}],
    "envelope with an unknown payload": [
        {"timestamp": AT, "type": "response_item", "payload": {"type": "reasoning", "summary": [{"text": "hm"}]}},
        {"timestamp": AT, "type": "response_item", "payload": {"type": "user_query", "query": Q}},
        {"timestamp": AT, "type": "event_msg", "payload": {"type": "final_answer", "answer": A}},
    ],
    "chat messages of another kind": [{"uuid": ID, "chat_messages": [{"from": "user", "body": Q}, {"body": A}]}],
    "store of sessions": {"chat-store": {"sessions": [{"id": "a", "messages": [{"role": "user", "content": Q}]}]}},
    "backup of sessions": {"list": [{"id": "a"}], "session:a": {"messages": [{"role": "user", "contentParts": [Q]}]}},
    "versions of messages": {
        "name": "Plovers",
        "messages": [{"versions": [{"role": role, "content": text}]} for role, text in (("user", Q), ("assistant", A))],
    },
    "chunks": [{"role": "user", "content": "", "contentChunks": [{"type": "text", "text": Q}]}],
    "fragments of messages": {
        "conversations": [{"messages": [{"role": "user", "fragments": [{"part": {"text": Q}}]}]}]
    },
    "parts of messages": [{"role": "user", "parts": [{"type": "text", "text": Q}]}],
    "newest first": {"object": "list", "data": [{"role": "assistant", "content": [{"text": {"value": A}}]}]},
    "human and bot": {"chat": [{"role": "human", "content": Q}, {"role": "bot", "content": A}], "context": []},
    "types in data": [{"type": "human", "data": {"content": Q}}, {"type": "ai", "data": {"content": A}}],
    "from and value": [{"conversations": [{"from": "human", "value": Q}, {"from": "gpt", "value": A}]}],
    "history of queries": {"sessionId": ID, "projectHash": "ab", "messages": [{"type": "query", "text": Q}]},
    "requests of another editor": {"requests": [{"prompt": Q, "reply": A}], "creationDate": 1},
    "prompt list": [{"session_id": ID, "ts": 1777629600, "text": Q}],
    "settings": {"version": 3, "messages": {"greeting": "Hello"}, "role": "admin", "content": None},
}


@pytest.fixture
def owner() -> User:
    return make_user()


def spoken(owner: User) -> str:
    rows = Message.objects.filter(archive_id=owner.pk, role__in=["user", "assistant"]).values_list("parts", flat=True)
    return json.dumps(list(rows))


@pytest.mark.parametrize("as_lines", [False, True])
@pytest.mark.parametrize("name", FOREIGN)
def test_foreign_shape_is_read_as_what_it_is_or_refused(owner: User, tmp_path: Path, name: str, as_lines: bool) -> None:
    value = FOREIGN[name]
    path = tmp_path / "conversations.json"
    if as_lines:
        path = write_lines(tmp_path / "session.jsonl", value if isinstance(value, list) else [value])
    else:
        path.write_text(json.dumps(value, indent=1))
    report = import_paths(caller=Caller.of(owner), paths=[path])
    (file,) = report.files
    if file.is_refused:
        assert not Message.objects.filter(archive_id=owner.pk).exists()
        assert (report.recognised, report.refused) == (0, 1)
        assert file.errors
    else:
        assert Q in spoken(owner)
        assert A in spoken(owner) or A not in json.dumps(value)


def refused(owner: User, path: Path) -> tuple[ImportReport, str]:
    report = import_paths(caller=Caller.of(owner), paths=[path])
    return report, report.files[0].errors[0]


def test_refusal_names_format_that_file_looks_like(owner: User, tmp_path: Path) -> None:
    lines = [{**user_line("u1", Q), "message": {"content": None, "text": Q}}]
    report, error = refused(owner, write_lines(tmp_path / "a.jsonl", lines))
    assert error == "looks like Claude Code's format, but nothing in it could be read"
    assert report.files[0].skipped == 1


def test_next_importer_is_tried_when_likeliest_declines(owner: User, tmp_path: Path) -> None:
    plain = [{"role": "user", "content": Q}, {"role": "assistant", "content": A}]
    marks = {"type": "system", "uuid": "u", "subtype": "from-the-future"}
    path = write_lines(tmp_path / "a.jsonl", [marks, *plain])
    report = import_paths(caller=Caller.of(owner), paths=[path])
    assert [file.format for file in report.files] == ["plain"]
    assert Q in spoken(owner)
    assert A in spoken(owner)
    assert report.messages_read == 2


def test_session_of_tool_and_no_words_is_stored_unless_entries_are_unknown(owner: User, tmp_path: Path) -> None:
    thinking = {"id": "m", "role": "assistant", "content": [{"type": "thinking", "thinking": "hm"}]}
    line = {**assistant_line("a1", ""), "message": thinking}
    unknown = {"type": "novel", "uuid": "n", "sessionId": "s", "body": "text"}
    report, error = refused(owner, write_lines(tmp_path / "a.jsonl", [line, unknown]))
    assert "nothing in it could be read" in error
    report = import_paths(caller=Caller.of(owner), paths=[write_lines(tmp_path / "b.jsonl", [line])])
    assert (report.recognised, report.total("added")) == (1, 1)


def test_message_whose_text_is_in_unknown_fields_is_issue(owner: User, tmp_path: Path) -> None:
    answer = {"role": "assistant", "content": "", "contentChunks": [{"type": "text", "text": A}]}
    path = write_lines(tmp_path / "a.jsonl", [{"role": "user", "content": Q}, answer, {"role": "user", "content": ""}])
    (file,) = import_paths(caller=Caller.of(owner), paths=[path]).files
    assert [issue.reason for issue in file.issues] == [
        "the text of the message is in fields that are not known: contentChunks"
    ]
