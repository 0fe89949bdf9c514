"""Declared formats: what their rows read, and what the one importer of all of them holds to."""

import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from convmemory.conversations.importers import json_arrays
from convmemory.conversations.importers.agent_formats import AGENT_FORMATS
from convmemory.conversations.importers.base import FileReport, Source
from convmemory.conversations.importers.chat_formats import CHAT_FORMATS
from convmemory.conversations.importers.declared import DeclaredImporter
from convmemory.conversations.importers.detect import IMPORTERS, Walk
from convmemory.conversations.importers.json_arrays import read_elements_at
from convmemory.conversations.importers.places import beginning_of, first, values_at
from convmemory.conversations.messages.parts import ThinkingPart, ToolCallPart, ToolResultPart
from convmemory.core.errors import TooLarge
from tests.unit.importers.helpers import FIXTURES, Read, read, write_lines

QUESTION = "How long do I soak dried chickpeas?"
ANSWER = "Twelve hours, in the fridge."
CHATS = [of.name for of in CHAT_FORMATS]
AGENTS = [of.name for of in AGENT_FORMATS]
AGENT_QUESTION = "Why is the pantry test red?"
AGENT_ANSWER = "The jar has no label."
WITHOUT_ANSWERS = {"codex-history", "warp"}
WITHOUT_CALLS = {*WITHOUT_ANSWERS, "kiro", "kiro-workspace"}
OF_PROJECTS = {
    *("qwen-code", "grok-build", "kimi-code", "droid", "amp", "warp", "continue", "mistral-vibe", "kiro-save"),
    *("deepseek-harness", "kiro-workspace"),
}
WITHOUT_QUESTIONS = {"openai-batch"}
TITLED = {
    *("deepseek", "grok", "perplexity", "perplexity-turns", "microsoft-copilot", "lm-studio", "jan", "ollama", "llm"),
    *("nextchat", "typingmind", "lobechat", "cherry-studio", "big-agi", "deepseek-api", "chatgpt-exporter"),
    *("llama-cpp", "llama-cpp-lines", "openrouter"),
}
THINKING = {
    *("deepseek", "grok", "ai-studio", "lm-studio", "jan", "ollama", "nextchat", "lobechat", "cherry-studio"),
    *("big-agi", "sillytavern", "ai-sdk", "gemini-contents", "deepseek-api", "deepseek-exporter"),
    *("llama-cpp", "llama-cpp-lines", "openrouter"),
}
WITH_SUPERSEDED = {
    *("deepseek", "grok", "lm-studio", "sillytavern", "oasst", "preferences", "dpo", "deepseek-api"),
    *("deepseek-exporter", "oasst-messages", "llama-cpp", "llama-cpp-lines"),
}
CALLING = {"gemini-contents", "le-chat", "ai-sdk", "ai-sdk-messages", "langchain", "chatbox"}


def conversations_of(name: str) -> list[Read]:
    """All conversations of the format's fixture."""
    conversations = [
        conversation
        for item in Walk().over([FIXTURES / name])
        if item.importer
        for conversation in read(item.importer, item.source.path)
    ]
    return [item for item in conversations if item.draft.title != "Before"]


def parts_of(conversation: Read, kind: type) -> list[Any]:
    return [part for message in conversation.messages for part in message.parts if isinstance(part, kind)]


@pytest.mark.parametrize("name", CHATS)
def test_question_and_answer_are_read(name: str) -> None:
    conversation = conversations_of(name)[0]
    current = [text for text in conversation.texts if not text.startswith("(")]
    assert conversation.prompts[0] == QUESTION or name in WITHOUT_QUESTIONS
    assert ANSWER in current[-1] if name not in CALLING else any(ANSWER in text for text in current)
    assert conversation.turns == 1
    assert len(set(conversation.keys)) == len(conversation.keys)
    assert any(message.raw for message in conversation.messages)


@pytest.mark.parametrize("name", AGENTS)
def test_prompt_and_answer_of_agent_are_read(name: str) -> None:
    [conversation] = conversations_of(name)
    current = [text for text in conversation.texts if not text.startswith("(The jar")]
    assert conversation.prompts[0] == AGENT_QUESTION or name == "codex-exec"
    assert current[-1] == AGENT_ANSWER or name in WITHOUT_ANSWERS
    assert conversation.turns == len(conversation.prompts)
    assert len(set(conversation.keys)) == len(conversation.keys)


@pytest.mark.parametrize("name", sorted({*AGENTS} - WITHOUT_CALLS))
def test_calls_of_agent_are_read_with_their_results(name: str) -> None:
    [conversation] = conversations_of(name)
    [call], [result] = parts_of(conversation, ToolCallPart), parts_of(conversation, ToolResultPart)
    assert (call.id, call.name) == (result.call_id, result.name) or name == "antigravity"  # it has no ids
    assert call.name
    assert call.input
    assert "label = None" in result.text


@pytest.mark.parametrize("name", sorted(OF_PROJECTS))
def test_project_of_agent_is_read(name: str) -> None:
    assert conversations_of(name)[0].draft.project == "/home/ada/pantry"


@pytest.mark.parametrize("name", sorted(TITLED))
def test_title_is_read(name: str) -> None:
    assert conversations_of(name)[0].draft.title == "Chickpeas"


@pytest.mark.parametrize("name", sorted(THINKING))
def test_thinking_is_part_of_its_own(name: str) -> None:
    conversation = conversations_of(name)[0]
    assert [part.text for part in parts_of(conversation, ThinkingPart)]
    assert not any("<think>" in text for text in conversation.texts)


@pytest.mark.parametrize("name", sorted(WITH_SUPERSEDED))
def test_answer_that_was_not_chosen_is_superseded(name: str) -> None:
    gone = [text for text in conversations_of(name)[0].texts if text.startswith("(")]
    assert [text for text in gone if "Overnight." in text]


@pytest.mark.parametrize("name", sorted(CALLING))
def test_call_and_its_result_are_read_once(name: str) -> None:
    conversation = conversations_of(name)[0]
    calls, results = parts_of(conversation, ToolCallPart), parts_of(conversation, ToolResultPart)
    assert [call.id for call in calls] == [result.call_id for result in results]
    assert all(call.name and call.input for call in calls)
    assert len(calls) == 1


@pytest.mark.parametrize("name", sorted(IMPORTERS))
def test_no_other_declared_importer_claims_fixture(name: str) -> None:
    for item in Walk().over([FIXTURES / name]) if (FIXTURES / name).exists() else ():
        if item.importer is None or item.source.is_folder:
            continue
        declared = [importer for importer in IMPORTERS.values() if isinstance(importer, DeclaredImporter)]
        claims = [importer.name for importer in declared if importer.sniff(item.source)]
        assert claims in ([], [item.importer.name]), item.source.path


def test_same_file_under_another_name_is_same_conversation(tmp_path: Path) -> None:
    for name in CHATS:
        for path in (FIXTURES / name).rglob("*.json*"):
            item = next(iter(Walk().over([path])))
            if item.importer is None:
                continue
            other = tmp_path / f"other{path.suffix}"
            other.write_bytes(path.read_bytes())
            assert [conversation.draft.source_id for conversation in read(item.importer, other)] == [
                conversation.draft.source_id for conversation in read(item.importer, path)
            ]


def test_conversations_without_ids_that_begin_alike_stay_apart(tmp_path: Path) -> None:
    opening = [{"role": "user", "parts": [{"text": QUESTION}]}, {"role": "model", "parts": [{"text": ANSWER}]}]
    lines = [{"contents": [*opening, {"role": "user", "parts": [{"text": more}]}]} for more in ("And peas?", "Beans?")]
    path = write_lines(tmp_path / "requests.jsonl", lines)
    conversations = read(IMPORTERS["gemini-contents"], path)
    assert [item.prompts for item in conversations] == [[QUESTION, "And peas?"], [QUESTION, "Beans?"]]
    assert len({item.draft.source_id for item in conversations}) == 2
    assert [item.draft.source_id for item in read(IMPORTERS["gemini-contents"], path)] == [
        item.draft.source_id for item in conversations
    ]


def test_conversation_that_grew_keeps_its_name(tmp_path: Path) -> None:
    messages = json.loads((FIXTURES / "langchain/history.json").read_text())
    grown = tmp_path / "grown.json"
    grown.write_text(json.dumps([*messages, {"type": "human", "data": {"content": "Thanks", "additional_kwargs": {}}}]))
    [before], [after] = conversations_of("langchain"), read(IMPORTERS["langchain"], grown)
    assert after.draft.source_id == before.draft.source_id
    assert after.keys[: len(before.keys)] == before.keys


def test_message_whose_content_cannot_be_read_is_reported_with_its_place(tmp_path: Path) -> None:
    messages = json.loads((FIXTURES / "le-chat/chat-5b0a.json").read_text())
    messages[1]["contentChunks"] = [{"type": "text", "text": {"nothing": "here"}}]
    path = tmp_path / "chat.json"
    path.write_text(json.dumps(messages))
    report = FileReport(path="chat.json")
    [conversation] = read(IMPORTERS["le-chat"], path, report)
    assert conversation.prompts == [QUESTION]
    assert [issue.place for issue in report.issues] == ["chat.json:element 2"] or report.unknown_types


def test_broken_conversation_is_reported_and_its_neighbours_are_read(tmp_path: Path) -> None:
    whole = json.loads((FIXTURES / "deepseek/conversations.json").read_text())
    texts = [json.dumps(whole[0]), '{"id": "broken", "mapping": {"a": nonsense}}', json.dumps(whole[1])]
    path = tmp_path / "conversations.json"
    path.write_text(f"[{','.join(texts)}]")
    report = FileReport(path="conversations.json")
    conversations = read(IMPORTERS["deepseek"], path, report)
    assert [item.draft.source_id for item in conversations] == [value["id"] for value in whole]
    assert [issue.place for issue in report.issues] == ["conversations.json:element 2"]


def test_backup_is_recognised_behind_other_data_larger_than_head(tmp_path: Path) -> None:
    backup = json.loads((FIXTURES / "chatbox/chatbox-exported-data.json").read_text())
    sessions = {name: value for name, value in backup.items() if name.startswith("session:")}
    large = {"chat-sessions-list": [], "settings": {"picture": "x" * 200_000, "list": [[["]"]]] * 9_000}, **sessions}
    path = tmp_path / "backup.json"
    path.write_text(json.dumps(large))
    [item] = Walk().over([path])
    assert item.importer is IMPORTERS["chatbox"]
    assert [conversation.draft.title for conversation in read(item.importer, path)] == ["Before", "Chickpeas"]


def test_question_in_both_answers_of_preference_is_current(tmp_path: Path) -> None:
    question = {"role": "user", "content": QUESTION}
    answers = {name: [question, {"role": "assistant", "content": name}] for name in ("chosen", "rejected")}
    [conversation] = read(IMPORTERS["dpo"], write_lines(tmp_path / "train.jsonl", [answers]))
    assert conversation.texts == [QUESTION, "(rejected)", "chosen"]


def test_thread_with_branches_is_refused_beyond_its_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("convmemory.conversations.importers.declared_messages.MAX_TREE_BYTES", 500)
    with pytest.raises(TooLarge, match="export it in parts"):
        read(IMPORTERS["qwen-code"], FIXTURES / "qwen-code/chats/a.jsonl")


def test_columns_of_bytes_do_not_stop_database_from_being_read(tmp_path: Path) -> None:
    path = tmp_path / "db.sqlite"
    path.write_bytes((FIXTURES / "ollama/db.sqlite").read_bytes())
    connection = sqlite3.connect(path)
    connection.executescript("ALTER TABLE messages ADD COLUMN picture BLOB; UPDATE messages SET picture = x'00ff'")
    connection.close()
    [conversation] = read(IMPORTERS["ollama"], path)
    assert conversation.prompts == [QUESTION]


def test_document_of_another_program_with_same_marks_is_declined(tmp_path: Path) -> None:
    path = tmp_path / "other.json"
    path.write_text('{"mapping": {"a": {"message": {"fragments": [{"type": "VIDEO"}]}}}, "inserted_at": 1}')
    assert IMPORTERS["deepseek"].sniff(Source(path)) is None


@pytest.mark.parametrize("chunk_bytes", [1, 7, 1024])
def test_nested_arrays_are_read_element_by_element(
    chunk_bytes: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(json_arrays, "CHUNK_BYTES", chunk_bytes)
    document = {"x": [1, {"y": '}]\\"'}], "n": 1234567, "s": 'abc"', "a": {"q": None, "b": [{"id": 1}, {"id": 2}]}}
    path = tmp_path / "nested.json"
    path.write_text(json.dumps({**document, "part:1": {"i": 1}, "part:2": {"i": 2}}))
    report = FileReport(path="nested.json")

    def values(*steps: str) -> list[Any]:
        return [element.value for element in read_elements_at(path, steps, report=report)]

    assert values("a", "b") == [{"id": 1}, {"id": 2}]
    assert values("part:*") == [{"i": 1}, {"i": 2}]
    assert values("missing") == []
    assert not report.issues


def test_beginning_of_document_is_readable_wherever_it_is_cut() -> None:
    document = {"a": [{"b": 'x"y\u1234z', "c": [1, 2, {"d": None}]}, {"n": 12.5}], "z": True}
    text = json.dumps(document).encode()
    assert all(beginning_of(text[:end]) is not None for end in range(1, len(text)))
    assert beginning_of(text) == document
    assert beginning_of(b'{"text": "a long te') == {"text": "a long te"}
    assert beginning_of(b"no JSON") is None


def test_places_lead_to_values() -> None:
    value = {"list": [{"a": 1}, {"a": 2}], "chosen": 1, "part:1": "x", "packed": '{"b": [3]}', "empty": ""}
    assert values_at(value, "list.*.a") == [1, 2]
    assert values_at(value, "list[chosen].a") == [2]
    assert values_at(value, "part:*") == ["x"]
    assert values_at(value, "packed.@json.b.0") == [3]
    assert first(value, ("missing", "empty", "list.0.a")) == 1


PERPLEXITY_STEPS = json.dumps([{"step_type": "FINAL", "content": {"answer": json.dumps({"answer": ANSWER})}}])
SPELLINGS: dict[str, tuple[str, dict[str, Any]]] = {
    "no parents": (
        "grok",
        {
            "conversations": [
                {
                    "conversation": {"title": "Chickpeas"},
                    "responses": [{"sender": "human", "message": QUESTION}, {"sender": "assistant", "message": ANSWER}],
                }
            ]
        },
    ),
    "steps as text": (
        "perplexity",
        {"entries": [{"context_uuid": "c-1", "query_str": QUESTION, "text": PERPLEXITY_STEPS, "blocks": []}]},
    ),
    "chunks": (
        "perplexity",
        {"entries": [{"query_str": QUESTION, "blocks": [{"markdown_block": {"chunks": [ANSWER[:7], ANSWER[7:]]}}]}]},
    ),
    "sessions in one list": (
        "chatbox",
        {
            "chat-sessions": [
                {"messages": [{"role": "user", "content": QUESTION}, {"role": "assistant", "content": ANSWER}]}
            ]
        },
    ),
    "forks": (
        "chatbox",
        {
            "chat-sessions-list": [],
            "session:a": {
                "messages": [{"role": "user", "content": QUESTION}, {"role": "assistant", "content": ANSWER}],
                "messageForksHash": {"1": {"lists": [{"messages": [{"role": "assistant", "content": "Overnight."}]}]}},
            },
        },
    ),
    "tags around the prompt": (
        "droid-exec",
        {
            "session_id": "s-1",
            "role": "user",
            "text": f"<system-reminder>Be brief.</system-reminder>\n{QUESTION}\n<env_context>noon</env_context>",
        },
    ),
}


@pytest.mark.parametrize("name", sorted(SPELLINGS))
def test_other_spellings_of_format_are_read(name: str, tmp_path: Path) -> None:
    format, document = SPELLINGS[name]
    path = tmp_path / "export.json"
    path.write_text(json.dumps(document))
    [item] = Walk().over([path])
    assert item.importer is IMPORTERS[format]
    [conversation] = read(item.importer, path)
    assert conversation.prompts == [QUESTION]
    assert conversation.turns == 1 or name == "tags around the prompt"
    assert [text for text in conversation.texts if text.startswith("(")] == (
        ["(Overnight.)"] if name == "forks" else []
    )


def test_empty_conversation_is_noted_and_not_skipped(tmp_path: Path) -> None:
    path = tmp_path / "grok.json"
    path.write_text(json.dumps({"conversations": [{"conversation": {"title": None}, "responses": []}]}))
    report = FileReport(path="grok.json")
    assert read(IMPORTERS["grok"], path, report) == []
    assert (report.skipped, report.notes[0]) == (0, "element 1: a conversation without messages")


def test_transcripts_in_hidden_folder_of_antigravity_are_found(tmp_path: Path) -> None:
    logs = tmp_path / "brain/one/.system_generated/logs"
    logs.mkdir(parents=True)
    [original] = (FIXTURES / "antigravity").rglob("transcript.jsonl")
    (logs / "transcript.jsonl").write_bytes(original.read_bytes())
    assert [item.importer for item in Walk().over([tmp_path])] == [IMPORTERS["antigravity"]]


@pytest.mark.parametrize(("second", "day"), [("5/14/2026, 9:00:00 AM", "2026-05-01"), ("5/2/2026, 9:00:00 AM", None)])
def test_day_and_month_are_read_by_evidence_of_file_or_left_out(second: str, day: str | None, tmp_path: Path) -> None:
    backup = json.loads((FIXTURES / "chatgpt-exporter/ChatGPT-Chickpeas.json").read_text())
    for message, time in zip(backup["messages"], ("5/1/2026, 9:00:00 AM", second), strict=True):
        message["time"] = time
    backup["metadata"]["dates"] = {}
    path = tmp_path / "ChatGPT.json"
    path.write_text(json.dumps(backup))
    report = FileReport(path=path.name)
    [conversation] = read(IMPORTERS["chatgpt-exporter"], path, report)
    asked = conversation.messages[0].created_at
    assert (asked and asked.date().isoformat()) == day
    assert report.repaired == (0 if day else 2)


def test_records_of_log_with_everyday_names_are_no_data_set(tmp_path: Path) -> None:
    lines = [{"type": "call", "output": "done", "prompt": QUESTION}, {"prompt": QUESTION}, {"output": ANSWER}]
    assert IMPORTERS["instructions"].sniff(Source(write_lines(tmp_path / "log.jsonl", lines))) is None
