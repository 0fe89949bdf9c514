import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from convmemory.conversations.importers.base import FileReport, Source
from convmemory.conversations.importers.plain import PlainImporter
from convmemory.conversations.messages.parts import AttachmentPart, TextPart, ToolCallPart
from convmemory.core.errors import InvalidInput, TooLarge
from tests.unit.importers.helpers import FIXTURES, Read, assistant_line, read, user_line, write_lines

FOLDER = FIXTURES / "plain"
DIALOGUE = [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}]

importer = PlainImporter()


def read_text(path: Path, text: str, report: FileReport | None = None) -> list[Read]:
    path.write_text(text, encoding="utf-8")
    assert importer.sniff(Source(path))
    return read(importer, path, report)


def test_one_conversation_in_openai_shape() -> None:
    (conversation,) = read(importer, FOLDER / "openai.json")
    draft = conversation.draft
    assert (draft.source, draft.source_id, draft.title, draft.project) == (
        *("plain", "chat-harvest-plan", "Harvest plan", "garden"),
    )
    assert draft.created_at == datetime(2026, 4, 1, 12, tzinfo=UTC)
    assert [message.role for message in conversation.messages] == ["system", "user", "assistant", "tool", "assistant"]
    assert conversation.messages[1].name == "mira"
    assert conversation.messages[1].parts == (
        TextPart("When are the beans ripe?"),
        AttachmentPart("image", "image/png", 70),
    )
    assert conversation.messages[2].parts == (ToolCallPart("call_9", "calendar", {"crop": "beans"}),)
    assert conversation.turns == 1


def test_separate_system_prompt_changes_neither_name_nor_keys(tmp_path: Path) -> None:
    (without,) = read_text(tmp_path / "a.json", json.dumps({"messages": DIALOGUE}))
    for system in ("Be brief.", [{"type": "text", "text": "Be brief."}]):
        (conversation,) = read_text(tmp_path / "a.json", json.dumps({"system": system, "messages": DIALOGUE}))
        assert conversation.texts == ["Be brief.", "q", "a"]
        assert conversation.keys == ["system", *without.keys]
        assert conversation.draft.source_id == without.draft.source_id


def test_lines_of_messages_in_anthropic_shape() -> None:
    (conversation,) = read(importer, FOLDER / "anthropic.jsonl")
    assert [message.role for message in conversation.messages] == ["user", "assistant", "tool", "assistant"]
    assert conversation.messages[0].created_at == datetime(2026, 1, 1, tzinfo=UTC)
    assert conversation.turns == 1


def test_lines_of_conversations_are_named_by_their_opening() -> None:
    conversations = read(importer, FOLDER / "finetune.jsonl")
    names = [item.draft.source_id for item in conversations]
    assert len(set(names)) == 3
    assert names[2] == f"{names[0]}:2"
    assert [item.turns for item in conversations] == [1, 1, 1]
    assert names == [item.draft.source_id for item in read(importer, FOLDER / "finetune.jsonl")]


@pytest.mark.parametrize("indent", [None, 2])
@pytest.mark.parametrize(
    ("value", "count"),
    [
        (DIALOGUE, 1),
        ({"messages": DIALOGUE}, 1),
        ([{"messages": DIALOGUE}, {"messages": DIALOGUE}], 2),
        ({"conversations": [{"messages": DIALOGUE}]}, 1),
        (DIALOGUE[0], 1),
    ],
)
def test_documents_in_every_shape(tmp_path: Path, value: Any, count: int, indent: int | None) -> None:
    conversations = read_text(tmp_path / "chat.json", json.dumps(value, indent=indent))
    assert len(conversations) == count
    assert all(item.prompts == ["q"] for item in conversations)


def test_names_of_conversations(tmp_path: Path) -> None:
    def names(name: str, *values: dict[str, Any]) -> list[str]:
        return [item.draft.source_id for item in read(importer, write_lines(tmp_path / name, values))]

    assert names("a.jsonl", {"id": "conv-0001-abc", "messages": DIALOGUE}) == ["conv-0001-abc"]
    assert names("a.jsonl", {"conversation_id": "conv-0001-abc", "messages": DIALOGUE}) == ["conv-0001-abc"]
    short = [*names("a.jsonl", {"id": 1, "messages": DIALOGUE}), *names("b.jsonl", {"id": "7", "messages": DIALOGUE})]
    assert len({*short, "1", "7"}) == 4
    first = names("a.jsonl", {"messages": DIALOGUE})
    assert names("b.jsonl", {"messages": [*DIALOGUE, {"role": "user", "content": "and then?"}]}) == first
    for entry in ({"content": "other"}, {"id": "m1"}, {"created_at": "2026-02-03T10:00:00Z"}):
        assert names("a.jsonl", {"messages": [DIALOGUE[0], {**DIALOGUE[1], **entry}]}) != first


def test_former_ids_of_conversations_without_one(tmp_path: Path) -> None:
    (answered,) = read(importer, write_lines(tmp_path / "a.jsonl", [{"messages": DIALOGUE}]))
    (asked,) = read(importer, write_lines(tmp_path / "a.jsonl", [{"messages": DIALOGUE[:1]}]))
    assert answered.draft.former_ids == (asked.draft.source_id, *asked.draft.former_ids)
    assert [name.partition(":")[0] for name in asked.draft.former_ids] == ["a"]


def test_conversations_of_one_file_that_begin_alike_are_told_apart(tmp_path: Path) -> None:
    chats = [{"messages": [*DIALOGUE, {"role": "user", "content": text}]} for text in ("one", "two", "one")]
    one, two, twin = (item.draft for item in read(importer, write_lines(tmp_path / "a.jsonl", chats)))
    assert two.source_id.startswith(f"{one.source_id}:")
    assert one.source_id in two.former_ids
    assert twin.source_id == f"{one.source_id}:2"


def test_bad_messages_are_skipped_with_their_place(tmp_path: Path) -> None:
    report = FileReport(path="c")
    lines = [
        *map(json.dumps, DIALOGUE),
        '{"role": "wizard", "content": "x"}',
        "{broken",
        '{"role": "user", "content": "z"}',
    ]
    (conversation,) = read_text(tmp_path / "c.jsonl", "\n".join(lines), report)
    assert conversation.prompts == ["q", "z"]
    assert sorted(issue.place for issue in report.issues) == ["c:3", "c:4"]
    report = FileReport(path="d")
    value = {"messages": [*DIALOGUE, {"role": "user"}, 5]}
    read_text(tmp_path / "d.json", json.dumps([value, 5, value], indent=1), report)
    places = ["d:item 1, message 3", "d:item 1, message 4", "d:item 2", "d:item 3, message 3", "d:item 3, message 4"]
    assert sorted(issue.place for issue in report.issues) == places


def test_keys_are_ids_where_they_are_unique_else_positions(tmp_path: Path) -> None:
    messages = [{**DIALOGUE[0], "id": "m1"}, {**DIALOGUE[1], "id": "m1"}, DIALOGUE[0]]
    (conversation,) = read(importer, write_lines(tmp_path / "c.jsonl", messages))
    assert conversation.keys == ["m1", "message:2", "message:3"]


def test_damaged_document_says_where(tmp_path: Path) -> None:
    path = tmp_path / "c.json"
    path.write_text(json.dumps(DIALOGUE, indent=2)[:-10])
    assert importer.sniff(Source(path))
    with pytest.raises(InvalidInput, match=r"it ends in the middle of a value, at line 8, column \d"):
        read(importer, path)


def test_deeply_nested_json_is_refused_or_read(tmp_path: Path) -> None:
    path = tmp_path / "c.json"
    path.write_text("[" * 100_000)
    with pytest.raises(InvalidInput, match="Not readable JSON"):
        read(importer, path)
    deep = (
        '{"role": "assistant", "tool_calls": [{"id": "c", "name": "f", "input": '
        + '{"a":' * 500
        + "1"
        + "}" * 501
        + "]}"
    )
    path.write_text(f'[{{"role": "user", "content": "q"}}, {deep}]')
    (conversation,) = read(importer, path)
    assert len(conversation.messages) == 2


FOREIGN: list[tuple[str, Any]] = [
    (
        "A ChatGPT export",
        [{"title": "t", "mapping": {"n": {"message": None}}, "current_node": "n", "create_time": 1.0}],
    ),
    ("A Claude.ai export", [{"uuid": "u", "name": "n", "chat_messages": []}]),
    ("A Codex session", {"timestamp": "t", "type": "session_meta", "payload": {"id": "x"}}),
    ("A Gemini CLI session", {"sessionId": "s", "projectHash": "h", "messages": [{"type": "user", "content": "x"}]}),
]


@pytest.mark.parametrize(("name", "value"), FOREIGN)
def test_files_of_other_programs_are_declined(tmp_path: Path, name: str, value: Any) -> None:
    path = tmp_path / "c.json"
    path.write_text(json.dumps(value))
    assert importer.sniff(Source(path)) is None


@pytest.mark.parametrize(
    "text",
    ["", "\0\0\0", "hello", "{}", "[]", '{"a": 1}', '{"messages": 5}', '["x"]', "# role content", "PK\x03\x04", "null"],
)
def test_files_of_no_format_are_declined(tmp_path: Path, text: str) -> None:
    path = tmp_path / "x.json"
    path.write_text(text)
    assert importer.sniff(Source(path)) is None


def test_files_of_claude_code_are_declined(tmp_path: Path) -> None:
    assert (
        importer.sniff(Source(write_lines(tmp_path / "c.jsonl", [user_line("u", "x"), assistant_line("a", "y")])))
        is None
    )
    assert importer.sniff(Source(tmp_path)) is None


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b'[{"role":"user","content":"x"}' + b",{}" * 1_000_000 + b"]", "more than 1,000,000 values"),
        (b'[{"role":"user","content":"' + b"x" * (64 * 1024**2) + b'"}]', "read only up to 64 MB"),
    ],
)
def test_document_that_costs_too_much_memory_is_not_parsed(tmp_path: Path, data: bytes, reason: str) -> None:
    path = tmp_path / "a.json"
    path.write_bytes(data)
    with pytest.raises(TooLarge, match=reason) as error:
        read(importer, path)
    assert "message or conversation a line" in str(error.value)


@pytest.mark.parametrize(
    "document",
    [
        {"conversation": [{"role": "user", "content": "Why?"}, {"role": "model", "content": "So."}]},
        [{"role": "user", "text": "Why?"}, {"role": "bot", "text": "So."}],
        [{"messages": [{"from": "human", "content": "Why?"}, {"from": "assistant", "content": "So."}]}],
        {"data": [{"type": "message", "role": r, "content": [{"type": "input_text", "text": t}]} for r, t in
                  (("user", "Why?"), ("assistant", "So."))]},
        {"custom_id": "r", "body": {"messages": [{"role": "user", "content": "Why?"},
                                                 {"role": "assistant", "content": "So."}]}},
        [{"role": "user", "content": {"parts": ["Why?"]}}, {"role": "assistant", "content": {"text": "So."}}],
    ],
)  # fmt: skip
def test_messages_under_other_names_are_read(document: Any, tmp_path: Path) -> None:
    path = tmp_path / "log.json"
    path.write_text(json.dumps(document))
    assert importer.sniff(Source(path))
    [conversation] = read(importer, path)
    assert conversation.texts == ["Why?", "So."]
    assert conversation.turns == 1
