"""Stores of programs as they are since autumn 2026, and what older ones hide: short inputs, and all that they say."""

import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest
import zstandard

from convmemory.conversations.importers.base import FileReport
from convmemory.conversations.importers.detect import Walk
from tests.unit.importers.helpers import FIXTURES, Read, read, write_lines

UUID = "5e550000-0000-4000-8000-0000000000e{}"
Q, A = "How ripe is the quince?", "Ripe in October."


def read_all(path: Path) -> dict[str, Read]:
    """All conversations under the path, by their ids; nothing may be refused or passed over."""
    by_id: dict[str, Read] = {}
    for item in Walk().over([path], root=path):
        assert item.importer, item.reason
        report = FileReport(path="")
        by_id.update((chat.draft.source_id, chat) for chat in read(item.importer, item.source.path, report))
        assert (report.passed_over, report.errors) == (0, [])
    return by_id


def event(kind: str, number: int, role: str, text: str, **message: Any) -> dict[str, Any]:
    content = [{"type": "text", "text": text}]
    parent = str(number - 1) if number > 1 else None
    return {
        "type": kind,
        "id": str(number),
        "parentId": parent,
        "timestamp": f"2026-09-01T10:00:0{number}.000Z",
        "message": {"role": role, "content": content, **message},
    }


def session(id: str) -> list[dict[str, Any]]:
    header = {"type": "session", "version": 3, "id": id, "timestamp": "2026-09-01T10:00:00.000Z"}
    return [
        {**header, "cwd": "/home/ada/.openclaw/workspace"},
        event("message", 1, "user", Q),
        event("message", 2, "assistant", A, model="m"),
    ]


@pytest.mark.parametrize(
    "name",
    [
        *("s.jsonl", "s.jsonl.reset.2026-08-02T04-58-33.868Z", "s.jsonl.deleted.2026-08-03T04-58-33.868Z"),
        "archive-tier.s.jsonl.imported-20260906",
    ],
)
def test_openclaw_sessions_that_are_over_are_read_without_repeated_deliveries(tmp_path: Path, name: str) -> None:
    mirror = event("message", 3, "assistant", A, model="delivery-mirror", provider="openclaw")
    sent = event("message", 4, "assistant", "Sent by hand.", model="delivery-mirror", provider="openclaw")
    write_lines(tmp_path / name, [*session(UUID.format(1)), mirror, sent])
    [chat] = read_all(tmp_path).values()
    assert chat.texts == [Q, A, "Sent by hand."]
    assert (chat.draft.agent, chat.draft.source_id) == ("openclaw", UUID.format(1))


def test_openclaw_database_is_read_plain_and_compressed(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "agent.sqlite") as database:
        database.execute("CREATE TABLE session_windows(session_id TEXT PRIMARY KEY, created_at INTEGER)")
        database.execute(
            "CREATE TABLE transcript_events(session_id TEXT, seq INTEGER, event_json TEXT, event_zstd BLOB,"
            " PRIMARY KEY (session_id, seq))"
        )
        for number in (1, 2):
            database.execute("INSERT INTO session_windows VALUES (?, ?)", [UUID.format(number), number])
            for seq, record in enumerate(session(UUID.format(number))):
                text = json.dumps(record)
                packed = zstandard.ZstdCompressor().compress(text.encode()) if number == 2 else None
                row = [UUID.format(number), seq, None if packed else text, packed]
                database.execute("INSERT INTO transcript_events VALUES (?, ?, ?, ?)", row)
    database.close()
    chats = read_all(tmp_path)
    assert {id: chat.texts for id, chat in chats.items()} == {UUID.format(number): [Q, A] for number in (1, 2)}


def test_cursor_bubbles_are_read_without_headers_or_composer_and_given_up_ones_superseded(tmp_path: Path) -> None:
    def bubble(composer: int, number: int, kind: int, text: str) -> tuple[str, str]:
        value = {"type": kind, "text": text, "createdAt": f"2026-07-09T18:00:0{number}.000Z"}
        return f"bubbleId:{UUID.format(composer)}:b{9 - number}", json.dumps(value)

    def composer(number: int, **values: Any) -> tuple[str, str]:
        return f"composerData:{UUID.format(number)}", json.dumps({"composerId": UUID.format(number), **values})

    with sqlite3.connect(tmp_path / "state.vscdb") as database:
        database.execute("CREATE TABLE cursorDiskKV(key TEXT UNIQUE, value BLOB)")
        rows = [composer(1, name="Quinces"), bubble(1, 1, 1, Q), bubble(1, 2, 2, A)]
        rows += [bubble(2, 1, 1, "And medlars?"), bubble(2, 2, 2, "After the frost.")]
        rows += [
            composer(3, fullConversationHeadersOnly=[{"bubbleId": "b8", "type": 1}, {"bubbleId": "b7", "type": 2}])
        ]
        rows += [bubble(3, 1, 1, Q), bubble(3, 2, 2, A), bubble(3, 3, 1, "Given up?")]
        database.executemany("INSERT INTO cursorDiskKV VALUES (?, ?)", rows)
    database.close()
    texts = {id[-1]: chat.texts for id, chat in read_all(tmp_path).items()}
    assert texts == {"1": [Q, A], "2": ["And medlars?", "After the frost."], "3": [Q, A, "(Given up?)"]}


def test_log_of_vs_code_without_first_record_is_read_from_its_changes(tmp_path: Path) -> None:
    folder = tmp_path / "workspaceStorage" / "h1" / "chatSessions"
    folder.mkdir(parents=True)
    (folder.parent / "workspace.json").write_text('{"folder": "file:///home/ada/orchard"}')
    request = {"requestId": "r1", "message": {"text": Q}, "response": [{"value": A}]}
    lines = [{"kind": 1, "k": ["inputState"], "v": {}}, {"kind": 2, "k": ["requests"], "v": [request]}]
    path = folder / f"{UUID.format(1)}.jsonl"
    path.write_text("\ufeff" + "".join(f"{json.dumps(line)}\n" for line in lines))
    [chat] = read_all(tmp_path).values()
    assert (chat.texts, chat.draft.project, chat.draft.source_id) == ([Q, A], "/home/ada/orchard", UUID.format(1))


def test_export_of_opencode_is_in_order_of_time(tmp_path: Path) -> None:
    def message(number: int, role: str, text: str) -> dict[str, Any]:
        info = {
            "id": f"msg_{9 - number}",
            "sessionID": "ses_1",
            "role": role,
            "time": {"created": 1783620000000 + number},
        }
        return {"info": info, "parts": [{"type": "text", "text": text}]}

    messages = [message(3, "user", "And medlars?"), message(1, "user", Q), message(2, "assistant", A)]
    (tmp_path / "export.json").write_text(json.dumps({"info": {"id": "ses_1"}, "messages": messages}, indent=1))
    [chat] = read_all(tmp_path).values()
    assert chat.texts == [Q, A, "And medlars?"]


def test_prompt_block_that_claude_ai_injects_is_no_speech(tmp_path: Path) -> None:
    block = {"start_timestamp": "2026-08-01T10:00:00Z", "type": "injected_prompt_block", "prompt": "Today is Monday."}
    human = {"uuid": "m1", "sender": "human", "text": Q, "content": [{"type": "text", "text": Q}, block]}
    reply = {"uuid": "m2", "sender": "assistant", "text": A, "content": [{"type": "text", "text": A}]}
    chat = {"uuid": UUID.format(1), "name": "Quinces", "chat_messages": [human, reply]}
    (tmp_path / "conversations.json").write_text(json.dumps([chat]))
    [read_chat] = read_all(tmp_path).values()
    assert (read_chat.prompts, read_chat.texts) == ([Q], [Q, "Today is Monday.", A])
    assert read_chat.messages[1].injected


@pytest.mark.parametrize("indent", [None, 1])
def test_session_of_claude_code_for_web_is_session_of_its_id(tmp_path: Path, indent: int | None) -> None:
    lines = [
        {"type": "user", "uuid": "u1", "sessionId": UUID.format(1), "cwd": "/home/ada", "message": {"content": Q}},
        {"type": "user", "uuid": "u3", "isSidechain": True, "agentId": "a1", "message": {"content": "Look it up"}},
        {"type": "assistant", "uuid": "u2", "sessionId": UUID.format(1), "message": {"content": A}},
    ]
    (tmp_path / "session.json").write_text(json.dumps({"loglines": lines}, indent=indent))
    main, agent = read_all(tmp_path).values()
    assert (main.draft.source, main.draft.source_id, main.draft.title) == ("claude-code", UUID.format(1), Q)
    assert (main.texts, agent.texts, agent.draft.parent_source_id) == ([Q, A], ["Look it up"], UUID.format(1))


@pytest.mark.parametrize(
    ("folder", "texts"),
    [
        (
            "copilot-cli/jb",
            [
                *("Why is the pantry test red?", "read_file filePath:jar.py", "label = None"),
                *("Look at the jar. The jar has no label.", "And the bag?", "It is sealed."),
            ],
        ),
        (
            "junie",
            ["Why is the pantry test red?", "Terminal command:cat jar.py", "label = None", "The jar has no label."],
        ),
        (
            "zed/conversations",
            ["How long do I soak dried chickpeas? Weichen? \u2013 ja", "Twelve hours, in the fridge."],
        ),
    ],
)
def test_each_text_of_session_is_read_once(folder: str, texts: list[str]) -> None:
    [chat] = read_all(FIXTURES / folder).values()
    assert chat.texts == texts


def test_people_of_slack_s_days_are_speakers_of_one_searchable_turn() -> None:
    chats = list(read_all(FIXTURES / "slack" / "kitchen").values())
    assert [(chat.turns, [message.name for message in chat.messages]) for chat in chats] == [
        (1, ["Ada", "Cook"]),
        (1, ["Ada", "Ben", ""]),
    ]
    assert chats[1].texts == ["Who has the big pot?", "It stands in the cellar.", "(Only people talk here.)"]
