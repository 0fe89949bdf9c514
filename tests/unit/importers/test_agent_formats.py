"""Messages that are read from files of coding agents: speakers, retracted messages, and projects."""

import json
from pathlib import Path
from typing import Any

import pytest

from convmemory.conversations.importers.base import FileReport, Source
from convmemory.conversations.importers.detect import IMPORTERS, Walk
from convmemory.conversations.messages.parts import TextPart, ThinkingPart, ToolCallPart, ToolResultPart
from tests.support.agent_databases import make
from tests.unit.importers.helpers import FIXTURES, Read, read, write_lines

CASES = {
    "aider": (
        "aider/.aider.chat.history.md",
        ["add a retry to the webhook\nwith a pause of five seconds", "make the pause configurable"],
    ),
    "cline": (
        "cline/tasks/1767261600000",
        ["Rename the column stock to in_stock", "Also in the tests, please"],
    ),
    "copilot-cli": (
        "copilot-cli/7a1c-session/events.jsonl",
        ["When do I sow broad beans?", "And sweet peas?"],
    ),
    "cursor": (
        "cursor/projects/home-ada-bakery/agent-transcripts/c0ffee00-0000-4000-8000-000000000005.jsonl",
        ["Add almond croissants to the menu", "And the price?"],
    ),
    "gemini-cli": (
        "gemini-cli/oven/chats/session-2026-05-02T10-00-5be1c0de.jsonl",
        ["How hot should the oven be for rye bread?", "How long does it bake?"],
    ),
    "goose": (
        "goose/20250801_101500.jsonl",
        ["How often do I check a hive?"],
    ),
    "opencode": (
        "opencode/storage",
        ["How do I feed a sourdough?"],
    ),
    "pi": (
        "pi/2026-05-12T01-02-27_019e19b4.jsonl",
        ["Why is the clock slow?", "By how much do I shorten it?"],
    ),
    "vscode-copilot": (
        "vscode-copilot/chatSessions/3f2e0000-0000-4000-8000-000000000003.jsonl",
        ["Why does the basket lose its items?", "Which lifetime?"],
    ),
}  # fmt: skip
PROJECTS = {
    "copilot-cli": "/home/ada/garden",
    "gemini-cli": "/home/ada/oven",
    "goose": "/home/ada/bees",
    "opencode": "/home/ada/bakery",
    "pi": "/home/ada/clock",
    "vscode-copilot": "/home/ada/web shop",
}


def first(name: str) -> Read:
    return read(IMPORTERS[name], FIXTURES / CASES[name][0])[0]


@pytest.mark.parametrize("name", CASES)
def test_session_file_is_recognised_by_walk(name: str) -> None:
    path = FIXTURES / CASES[name][0]
    items = list(Walk().over([path]))
    assert [item.importer for item in items] == [IMPORTERS[name]]


@pytest.mark.parametrize("name", CASES)
def test_prompts_of_session_are_read(name: str) -> None:
    conversation = first(name)
    current = [message for message in conversation.messages if not message.superseded]
    assert Read(conversation.draft, current, []).prompts == CASES[name][1]
    assert len(set(conversation.keys)) == len(conversation.keys)
    assert all(message.raw for message in conversation.messages if message.role == "user")


@pytest.mark.parametrize("name", PROJECTS)
def test_project_of_session_is_read(name: str) -> None:
    assert first(name).draft.project == PROJECTS[name]


@pytest.mark.parametrize("name", ["copilot-cli", "gemini-cli", "pi", "vscode-copilot"])
def test_retracted_messages_are_superseded(name: str) -> None:
    assert [message.role for message in first(name).messages if message.superseded] == ["user", "assistant"]


@pytest.mark.parametrize("name", ["copilot-cli", "gemini-cli", "goose", "opencode", "pi", "vscode-copilot"])
def test_calls_are_answered(name: str) -> None:
    parts = [part for message in first(name).messages for part in message.parts]
    calls = [part.id for part in parts if isinstance(part, ToolCallPart)]
    assert calls
    assert set(calls) <= {part.call_id for part in parts if isinstance(part, ToolResultPart)}


def test_gemini_message_that_is_written_again_keeps_its_place() -> None:
    texts = [
        part.text for message in first("gemini-cli").messages for part in message.parts if isinstance(part, TextPart)
    ]
    assert texts[1] == "Start at 250 degrees and let it fall to 200."


def test_gemini_log_replaces_its_older_document(tmp_path: Path) -> None:
    header = {"sessionId": "s", "projectHash": "h"}
    message = {"id": "u", "type": "user", "content": "hello"}
    document = tmp_path / "session-1.json"
    document.write_text(json.dumps({**header, "messages": [message]}))
    [alone] = read(IMPORTERS["gemini-cli"], document)
    write_lines(document.with_suffix(".jsonl"), [header, message])
    report = FileReport(path="")
    assert read(IMPORTERS["gemini-cli"], document, report) == []
    assert "session-1.jsonl" in report.notes[0]
    [log] = read(IMPORTERS["gemini-cli"], document.with_suffix(".jsonl"))
    assert (log.draft.source_id, log.keys) == (alone.draft.source_id, alone.keys)


def test_gemini_rewind_to_unknown_message_takes_everything_back(tmp_path: Path) -> None:
    lines = [{"sessionId": "s", "projectHash": "h"}, {"id": "a", "type": "user", "content": "x"}, {"$rewindTo": "?"}]
    [conversation] = read(IMPORTERS["gemini-cli"], write_lines(tmp_path / "s.jsonl", lines))
    assert [message.superseded for message in conversation.messages] == [True]


def test_text_added_by_editor_is_injected() -> None:
    roles = [(message.role, message.injected) for message in first("cline").messages]
    assert roles[:2] == [("user", False), ("system", True)]
    assert roles[3] == ("tool", False)


def test_roo_and_clines_sessions() -> None:
    [roo] = read(IMPORTERS["cline"], FIXTURES / "cline/roo-cline/tasks/0190-rye")
    assert (roo.draft.source, roo.draft.title, roo.draft.project) == ("roo", "Write a recipe page", "/home/ada/recipes")
    assert isinstance(roo.messages[1].parts[0], ThinkingPart)
    [session] = read(IMPORTERS["cline"], FIXTURES / "cline/sessions/ses-42.messages.json")
    assert session.prompts == ["Which port does the shop use?"]


def test_messages_of_redacted_export_are_kept_apart() -> None:
    [export] = read(IMPORTERS["opencode"], FIXTURES / "opencode/export/ses_export.json")
    assert export.keys == ["message:1", "message:2", "message:2:results"]
    assert export.draft.parent_source_id == ""


def test_session_of_both_generations_is_read_from_second(tmp_path: Path) -> None:
    make(tmp_path / "opencode.db").close()
    sessions = {item.draft.source_id: item for item in read(IMPORTERS["opencode"], tmp_path / "opencode.db")}
    assert set(sessions) == {"ses_one", "ses_two", "ses_three"}
    assert sessions["ses_one"].keys == ["ses_one:0", "ses_one:2", "ses_one:2:results"]
    assert sessions["ses_two"].keys[0] == "msg_ses_two_1"
    assert sessions["ses_three"].draft.parent_source_id == "ses_one"


def test_change_log_skips_changes_with_unknown_targets(tmp_path: Path) -> None:
    lines = [
        {"kind": 1, "k": ["requests"], "v": []},
        {"kind": 0, "v": {"sessionId": "s", "requests": []}},
        {"kind": 1, "k": ["requests", 10**9, "message"], "v": "far"},
        {"kind": 2, "k": ["nowhere", "else"], "v": [1]},
        {"kind": 2, "k": ["requests"], "v": [{"requestId": "r", "message": {"text": "hello"}}]},
        {"kind": 3, "k": ["customTitle"]},
    ]
    report = FileReport(path="")
    [conversation] = read(IMPORTERS["vscode-copilot"], write_lines(tmp_path / "s.jsonl", lines), report)
    assert conversation.prompts == ["hello"]
    assert (report.skipped, report.repaired) == (3, 1)


def test_older_chat_is_left_to_its_log() -> None:
    path = FIXTURES / "vscode-copilot/chatSessions/older.json"
    [conversation] = read(IMPORTERS["vscode-copilot"], path)
    assert conversation.prompts == ["What is a primary key?"]
    assert IMPORTERS["vscode-copilot"].sniff(Source(path)) == 85


@pytest.mark.parametrize("kind", [["user.message"], {"a": 1}, None, 7])
def test_line_with_non_string_type_does_not_affect_others(kind: object, tmp_path: Path) -> None:
    original = FIXTURES / "copilot-cli/7a1c-session/events.jsonl"
    path = tmp_path / "7a1c-session/events.jsonl"
    lines = original.read_text().splitlines()
    write_lines(path, [*lines[:2], {"type": kind, "data": {}}, *lines[2:]])
    expected, texts = (read(IMPORTERS["copilot-cli"], each)[0].texts for each in (original, path))
    assert texts == expected


def test_output_of_claude_with_subagent_is_read() -> None:
    session, subagent = read(IMPORTERS["claude-stream"], FIXTURES / "claude-stream/ci.jsonl")
    assert session.prompts == ["Why is the pantry test red?"]
    assert session.texts[-1] == "The jar has no label."
    assert (session.draft.project, session.draft.unless_source) == ("/home/ada/pantry", "claude-code")
    assert subagent.texts == ["It is empty."]
    assert subagent.draft.parent_source_id == session.draft.source_id


def test_answer_alone_of_claude_gets_stand_in_for_its_prompt() -> None:
    [conversation] = read(IMPORTERS["claude-stream"], FIXTURES / "claude-stream/result.json")
    assert conversation.texts[1:] == ["The jar has no label."]
    assert conversation.turns == 1


def test_outputs_of_claude_under_one_name_are_as_many_conversations(tmp_path: Path) -> None:
    lines = (FIXTURES / "claude-stream/ci.jsonl").read_text().replace("5e550000-0001", "5e550000-0009")
    path = tmp_path / "ci.jsonl"
    path.write_text(lines)
    [other, _], [first_one, _] = (
        read(IMPORTERS["claude-stream"], each) for each in (path, FIXTURES / "claude-stream/ci.jsonl")
    )
    assert other.draft.source_id != first_one.draft.source_id


def test_gemini_context_is_no_prompt_and_calls_are_read_once(tmp_path: Path) -> None:
    call = {"id": "c1", "name": "read_file", "args": {"path": "oven.py"}}
    answer = {"functionResponse": {"id": "c1", "name": "read_file", "response": {"output": "250"}}}
    asked = {
        "id": "g1",
        "type": "user",
        "content": [{"text": "How hot?"}, {"text": "<hook_context>memory</hook_context>"}],
    }
    calling = {
        "id": "g2",
        "type": "gemini",
        "content": [{"functionCall": call}],
        "toolCalls": [{**call, "result": [answer]}],
    }
    lines: list[dict[str, Any] | str] = [
        {"sessionId": "5e550000-0001-4000-8000-0000000000bb", "projectHash": "h"},
        {"$set": {"messages": [{"id": "g0", "type": "user", "content": [{"text": "<session_context>\nToday"}]}]}},
        asked,
        {**calling, "toolCalls": [], "content": ""},
        calling,
        {"id": "g3", "type": "user", "content": [answer]},
        {"id": "g4", "type": "gemini", "content": "At 250."},
    ]
    [conversation] = read(IMPORTERS["gemini-cli"], write_lines(tmp_path / "s.jsonl", lines))
    assert conversation.prompts == ["How hot?"]
    parts = [part for message in conversation.messages for part in message.parts]
    assert [part.id for part in parts if isinstance(part, ToolCallPart)] == ["c1"]
    assert [part.text for part in parts if isinstance(part, ToolResultPart)] == ["250"]
    assert [message.injected for message in conversation.messages] == [True, False, True, False, False, False]


def test_resumed_gemini_session_keeps_prompts_that_follow_hook_context(tmp_path: Path) -> None:
    header = {"sessionId": "5e550000-0001-4000-8000-0000000000bc", "projectHash": "h", "startTime": "2026-05-02T10:00Z"}
    context = {"id": "g0", "type": "user", "content": [{"text": "<session_context>\nToday"}]}
    hooked = "<hook_context>&lt;recalled-memory&gt;\n2 conversations\n&lt;/recalled-memory&gt;</hook_context>\n\n"
    call = {"id": "c1", "name": "read_file", "args": {"path": "notes"}}
    answer = {"functionResponse": {"id": "c1", "name": "read_file", "response": {"output": "250"}}}
    called = {"id": "g2", "type": "gemini", "content": "", "toolCalls": [{**call, "result": [answer]}]}
    answered = {"id": "g4", "type": "gemini", "content": "At 250."}
    sent_again = [
        context,
        {"id": "g2", "type": "gemini", "content": [{"functionCall": call}]},
        {"id": "g2", "type": "user", "content": [answer]},
        answered,
    ]
    lines: list[dict[str, Any] | str] = [
        header,
        {"$set": {"messages": [context]}},
        {"id": "g1", "type": "user", "content": [{"text": f"{hooked}How hot?"}, {"text": hooked.strip()}]},
        called,
        answered,
        header,
        {"$set": {"messages": [context]}},
        {"$set": {"messages": sent_again}},
        {"id": "g5", "type": "user", "content": [{"text": f"{hooked}How long?"}]},
        {"id": "g6", "type": "gemini", "content": "An hour."},
    ]
    [conversation] = read(IMPORTERS["gemini-cli"], write_lines(tmp_path / "s.jsonl", lines))
    assert (conversation.prompts, conversation.turns) == (["How hot?", "How long?"], 2)
    assert not any(message.superseded for message in conversation.messages)
    parts = [part for message in conversation.messages for part in message.parts]
    assert [part.id for part in parts if isinstance(part, ToolCallPart)] == ["c1"]
    assert [part.text for part in parts if isinstance(part, ToolResultPart)] == ["250"]


def test_cline_session_has_project_and_model_of_its_notes(tmp_path: Path) -> None:
    messages = [{"id": "1", "role": "user", "content": "Hi"}, {"id": "2", "role": "assistant", "content": "Hello"}]
    path = tmp_path / "17_x.messages.json"
    path.write_text(json.dumps({"sessionId": "17_x", "messages": messages}))
    about = {
        "cwd": "/home/ada/shop",
        "model": "gpt-5",
        "started_at": "2026-02-01T09:00:00Z",
        "metadata": {"title": "Hi"},
    }
    (tmp_path / "17_x.json").write_text(json.dumps({"session_id": "17_x", **about}))
    [conversation] = read(IMPORTERS["cline"], path)
    assert (conversation.draft.project, conversation.draft.title, conversation.messages[1].model) == (
        "/home/ada/shop",
        "Hi",
        "gpt-5",
    )
    assert [item.source.path.name for item in Walk().over([tmp_path])] == ["17_x.messages.json"]


def test_aider_history_names_project_and_model(tmp_path: Path) -> None:
    path = tmp_path / "old.chat.history.md"
    path.write_text(
        "# aider chat started at 2026-02-01 09:00:00\n> Main model: gpt-5 with diff format  \n#### hi  \n\nHello.\n"
    )
    [conversation] = read(IMPORTERS["aider"], path)
    assert conversation.draft.project == str(tmp_path.resolve())
    assert conversation.messages[-1].model == "gpt-5"


def test_results_of_codex_get_name_of_their_tool(tmp_path: Path) -> None:
    lines = [
        {"type": "session_meta", "payload": {"id": "5e550000-0001-4000-8000-0000000000cc", "cli_version": "99.0.0"}},
        {
            "type": "response_item",
            "payload": {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "go"}]},
        },
        {
            "type": "response_item",
            "payload": {"type": "function_call", "name": "list", "call_id": "c", "arguments": "{}"},
        },
        {"type": "token_usage_record", "payload": {}},
        {"type": "response_item", "payload": {"type": "function_call_output", "call_id": "c", "output": "a.py"}},
    ]
    report = FileReport(path="s.jsonl")
    [conversation] = read(IMPORTERS["codex"], write_lines(tmp_path / "s.jsonl", lines), report)
    results = [part for message in conversation.messages for part in message.parts if isinstance(part, ToolResultPart)]
    assert [(part.name, part.text) for part in results] == [("list", "a.py")]
    assert not report.warnings  # a newer version, of which everything was read
    report = FileReport(path="s.jsonl")
    read(IMPORTERS["codex"], write_lines(tmp_path / "t.jsonl", [*lines, {"type": "new_kind", "payload": {}}]), report)
    assert "99.0.0" in report.warnings[0]


def test_results_of_copilot_get_name_of_their_tool(tmp_path: Path) -> None:
    lines = [
        {"type": "session.start", "id": "0", "data": {"sessionId": "s"}},
        {"type": "user.message", "id": "1", "data": {"content": "go"}},
        {"type": "assistant.message", "id": "2", "data": {"toolRequests": [{"toolCallId": "c", "name": "list"}]}},
        {"type": "tool.execution_complete", "id": "3", "data": {"toolCallId": "c", "result": {"content": "a.py"}}},
    ]
    [conversation] = read(IMPORTERS["copilot-cli"], write_lines(tmp_path / "events.jsonl", lines))
    results = [part for message in conversation.messages for part in message.parts if isinstance(part, ToolResultPart)]
    assert [(part.name, part.text) for part in results] == [("list", "a.py")]
