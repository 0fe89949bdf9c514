import json
import shutil
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from convmemory.conversations.importers.amplifier import MAX_PAYLOAD_BYTES, AmplifierImporter, bounded_payload
from convmemory.conversations.importers.base import FileReport, Source
from convmemory.conversations.messages.parts import TextPart, ThinkingPart, ToolCallPart, ToolResultPart
from tests.unit.importers.helpers import FIXTURES, Read, read, write_lines

SESSIONS = FIXTURES / "amplifier" / "sessions"
SESSION = "4c2f9b1e-6a70-4d59-8f31-90ab12cd34ef"
CHILD = f"{SESSION}-1a2b3c4d5e6f7081_soil-expert"

importer = AmplifierImporter()


def read_session(folder: Path, report: FileReport | None = None) -> Read:
    (conversation,) = read(importer, folder, report)
    return conversation


@pytest.fixture
def session() -> Read:
    return read_session(SESSIONS / SESSION)


@pytest.fixture
def copied(tmp_path: Path) -> Path:
    shutil.copytree(SESSIONS, tmp_path / "sessions")
    return tmp_path / "sessions"


def test_metadata_gives_title_agent_project_and_time(session: Read) -> None:
    draft = session.draft
    assert (draft.source, draft.source_id, draft.parent_source_id) == ("amplifier", SESSION, "")
    assert (draft.title, draft.agent, draft.project) == ("Soil mixes", "foundation", "/home/mira/garden")
    assert draft.created_at == datetime(2026, 3, 1, 8, 59, 59, tzinfo=UTC)


def test_messages_are_read_with_roles_keys_and_parts(session: Read) -> None:
    assert [(message.role, message.source_key) for message in session.messages] == [
        ("user", "line:1"),
        ("assistant", "line:2"),
        ("tool", "line:3"),
        ("system", "line:4"),
        ("assistant", "line:5"),
        ("user", "line:6"),
        ("assistant", "line:7"),
    ]
    assert session.prompts == ["Which soil mix for peppers?", "And for rosemary?"]
    assert session.turns == 2
    assert session.messages[1].parts == (
        ThinkingPart("Peppers like drainage."),
        TextPart("I will ask the soil expert."),
        ToolCallPart("call_1", "delegate", {"agent": "soil-expert", "instruction": "mix for peppers"}),
    )
    assert session.messages[1].model == "claude-sonnet-4-5"
    (result,) = session.messages[2].parts
    assert isinstance(result, ToolResultPart)
    assert (result.call_id, result.name, result.is_error) == ("call_1", "delegate", True)
    assert json.loads(session.messages[0].raw)["role"] == "user"


def test_times_may_be_missing_or_redacted(session: Read) -> None:
    times = [message.created_at for message in session.messages]
    assert times[0] == datetime(2026, 3, 1, 9, 0, 0, 123000, tzinfo=UTC)
    assert times[2:] == [None] * 5


def test_sub_session_is_linked_to_its_parent(copied: Path) -> None:
    child = read_session(copied / CHILD)
    assert (child.draft.source_id, child.draft.parent_source_id) == (CHILD, SESSION)
    assert (child.draft.agent, child.prompts) == ("soil-expert", ["mix for peppers"])
    (copied / CHILD / "metadata.json").unlink()
    assert read_session(copied / CHILD).draft.parent_source_id == SESSION  # by its folder's name
    shutil.rmtree(copied / SESSION)
    assert read_session(copied / CHILD).draft.parent_source_id == SESSION  # without the parent, too


def test_events_are_read_with_tools_times_and_prompt_numbers(session: Read) -> None:
    events = session.events
    assert [(event.line_number, event.type, event.tool, event.prompt_number) for event in events] == [
        (1, "session:start", "", None),
        (2, "prompt:submit", "", 0),
        (3, "tool:pre", "delegate", 0),
        (4, "llm:request", "", 0),
        (6, "tool:post", "delegate", 0),
        (7, "prompt:submit", "", 1),
        (8, "llm:response", "", 1),
    ]
    assert events[0].level == "INFO"
    assert events[1].created_at == datetime(2026, 3, 1, 9, 0, 1, tzinfo=UTC)
    assert events[6].created_at is None  # a redacted time
    assert events[3].payload == {"model": "claude-sonnet-4-5"}
    assert events[4].payload["duration_ms"] == 12


def test_project_without_metadata_is_slug_of_its_folder(copied: Path) -> None:
    metadata = json.loads((copied / SESSION / "metadata.json").read_text())
    del metadata["working_dir"]
    (copied / SESSION / "metadata.json").write_text(json.dumps(metadata))
    assert read_session(copied / SESSION).draft.project == copied.parent.name
    for label, project in (("-home-mira-garden/sessions/s", "-home-mira-garden"), ("sessions/s", ""), ("s", "")):
        (draft,) = importer.parse(Source(copied / SESSION, label), FileReport(path="s"))
        assert draft.project == project


def test_events_in_nested_folder_are_read(copied: Path) -> None:
    nested = copied / SESSION / "context-intelligence"
    nested.mkdir()
    (copied / SESSION / "events.jsonl").rename(nested / "events.jsonl")
    (nested / "metadata.json").write_text(
        json.dumps({"working_dir": "/elsewhere", "started_at": "2026-01-01T00:00:00Z"})
    )
    conversation = read_session(copied / SESSION)
    assert len(conversation.events) == 7
    assert conversation.draft.project == "/home/mira/garden"


def test_broken_event_lines_are_reported_with_their_place() -> None:
    report = FileReport(path="s")
    read_session(SESSIONS / SESSION, report)
    assert [issue.place for issue in report.issues] == ["s:events.jsonl:5"]


@pytest.mark.parametrize(
    "data",
    [
        {"result": "loam " * 5000},
        {"items": [{"text": "x" * 900} for _ in range(500)]},
        {f"key {number}": "ü" * 500 for number in range(500)},
        {"nested": [[[[[[[[["deep"]]]]]]]]]},
        {"k" * 5000: {"k" * 5000: "ü" * 5000}},
        {"n": 10**3000},
    ],
)
def test_payloads_are_bounded(data: dict[str, Any]) -> None:
    payload = bounded_payload(data)
    assert payload
    assert len(json.dumps(payload, ensure_ascii=False).encode()) <= MAX_PAYLOAD_BYTES


def test_history_is_never_in_payload() -> None:
    assert bounded_payload({"raw": {"messages": ["a"]}, "messages": ["b"], "usage": {"raw": 1, "input": 2}}) == {
        "usage": {"input": 2}
    }


def test_metadata_missing_or_corrupt(copied: Path) -> None:
    path = copied / SESSION / "metadata.json"
    path.write_text('{"session_id": "4c2f')
    report = FileReport(path="s")
    conversation = read_session(copied / SESSION, report)
    assert report.issues[0].place == "s:metadata.json"
    path.unlink()
    assert read_session(copied / SESSION).draft.source_id == conversation.draft.source_id == SESSION
    assert conversation.draft.title == "Which soil mix for peppers?"
    assert conversation.draft.agent == "amplifier"
    assert conversation.draft.created_at is None  # then by its first event


def test_transcript_missing_or_corrupt(copied: Path) -> None:
    folder = copied / SESSION
    (folder / "transcript.jsonl").write_bytes(b"\0\0\0\n{{{{\n")
    assert importer.sniff(Source(folder))
    report = FileReport(path="s")
    conversation = read_session(folder, report)
    assert (conversation.messages, len(conversation.events)) == ([], 7)
    assert "a session without any message" in report.notes
    (folder / "transcript.jsonl").unlink()
    assert importer.sniff(Source(folder))
    (folder / "events.jsonl").unlink()
    assert read(importer, folder, report) == []


def test_session_without_id_is_named_by_its_opening_and_not_by_its_folder(tmp_path: Path) -> None:
    names = set()
    for name, text in (("session", "one"), ("session", "two"), ("copy", "two")):
        transcript = tmp_path / text / name / "transcript.jsonl"
        write_lines(transcript, [{"role": "user", "content": text}, {"role": "assistant", "content": "x"}])
        answered = read_session(transcript.parent).draft
        write_lines(transcript, [{"role": "user", "content": text}])
        assert read_session(transcript.parent).draft.source_id in answered.former_ids
        names.add(answered.source_id)
    assert len(names) == 2


def test_users_that_are_tools_and_messages_that_cannot_be_read(tmp_path: Path) -> None:
    report = FileReport(path="s")
    write_lines(
        tmp_path / "transcript.jsonl",
        [
            {"role": "user", "content": "real"},
            {"role": "user", "tool_call_id": "c", "content": "a tool's answer"},
            {"role": "nobody", "content": "x"},
            {"role": "assistant", "content": 5},
            {"role": "assistant", "content": [{"type": "tool_use", "id": "t", "name": "n", "input": {}}]},
            {"role": "assistant", "content": [{"type": "odd"}]},
        ],
    )
    conversation = read_session(tmp_path, report)
    assert [message.role for message in conversation.messages] == [
        "user", "tool", "system", "assistant", "assistant", "assistant",
    ]  # fmt: skip
    assert conversation.messages[1].parts == (ToolResultPart("c", "a tool's answer"),)
    assert conversation.messages[2].parts == (TextPart('{"role": "nobody", "content": "x"}'),)
    assert conversation.messages[5].parts == (TextPart('{"type": "odd"}'),)
    assert all(message.raw for message in conversation.messages)
    assert [(issue.place, issue.kept) for issue in report.issues] == [("s:3", True)]
    assert report.unknown_types == {"int": 1, "odd": 1}


def test_other_folders_are_declined(tmp_path: Path) -> None:
    assert importer.sniff(Source(tmp_path)) is None
    (tmp_path / "metadata.json").write_text('{"session_id": "x"}')
    assert importer.sniff(Source(tmp_path)) is None
    write_lines(tmp_path / "transcript.jsonl", [{"type": "user", "message": {"role": "user", "content": "x"}}])
    assert importer.sniff(Source(tmp_path)) is None
    assert importer.sniff(Source(tmp_path / "transcript.jsonl")) is None
