import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import zstandard

from convmemory.conversations.importers.base import FileReport, Source
from convmemory.conversations.importers.codex import CodexImporter
from convmemory.conversations.importers.detect import Walk
from convmemory.conversations.messages.parts import AttachmentPart, ToolResultPart
from convmemory.core.errors import InvalidInput
from tests.unit.importers.helpers import FIXTURES, read, write_lines

importer = CodexImporter()
SESSIONS = FIXTURES / "codex" / "sessions" / "2026"
(ROLLOUT,) = (SESSIONS / "06" / "26").iterdir()
(PAGE_1,) = (SESSIONS / "09" / "01").iterdir()
(PAGE_2,) = (SESSIONS / "09" / "02").iterdir()
THREAD = "019f0000-0000-7000-8000-00000000000b"


def record(kind: str, payload: dict[str, Any]) -> dict[str, Any]:
    return {"timestamp": "2026-06-26T12:24:12Z", "type": kind, "payload": payload}


def prompt(text: str) -> dict[str, Any]:
    return record("event_msg", {"type": "user_message", "message": text})


def item(role: str, text: str) -> dict[str, Any]:
    return record("response_item", {"type": "message", "role": role, "content": [{"type": "input_text", "text": text}]})


def test_duplicate_records_of_rollout_are_read_once() -> None:
    (thread,) = read(importer, ROLLOUT)
    assert thread.prompts == ["How many slates are left?", "Order a thousand.", "Order two hundred."]
    assert thread.turns == 2
    assert sum("412 slates are left." in text for text in thread.texts) == 1
    assert len(set(thread.keys)) == len(thread.keys)
    assert thread.draft.title == "Slates for the roof"
    assert {message.model for message in thread.messages if message.role == "assistant"} == {"gpt-5.4"}


def test_user_records_written_by_codex_are_injected() -> None:
    (thread,) = read(importer, ROLLOUT)
    injected = [message for message in thread.messages if message.injected]
    assert [message.role for message in injected] == ["system", "system"]
    question = next(message for message in thread.messages if message.role == "user")
    assert [part.name for part in question.parts if isinstance(part, AttachmentPart)] == ["/tmp/roof.png"]


def test_failed_call_is_error_and_encrypted_text_is_left_out(tmp_path: Path) -> None:
    said = [{"type": "output_text", "text": "It failed."}, {"type": "encrypted_content", "encrypted_content": "gAAA"}]
    outputs = {"c1": {"content": "no such file", "success": False}, "c2": {"content": "done", "success": True}}
    records = [prompt("Build it."), record("response_item", {"type": "message", "role": "assistant", "content": said})]
    records += [
        record("response_item", {"type": "function_call_output", "call_id": name, "output": output})
        for name, output in outputs.items()
    ]
    report = FileReport(path="")
    (thread,) = read(importer, write_lines(tmp_path / "rollout-2026-06-26T12-24-12-x.jsonl", records), report)
    results = [part for message in thread.messages for part in message.parts if isinstance(part, ToolResultPart)]
    assert [(part.text, part.is_error) for part in results] == [("no such file", True), ("done", False)]
    assert (thread.texts, report.unknown_types) == (["Build it.", "It failed.", "no such file", "done"], {})


def test_rolled_back_turn_is_superseded() -> None:
    (thread,) = read(importer, ROLLOUT)
    gone = [text for text in thread.texts if text.startswith("(")]
    assert gone[0] == "(Order a thousand.)"
    assert gone[-1] == "(Ordered.)"
    assert len(gone) == 4


def test_paginated_thread_is_one_conversation_of_several_files() -> None:
    report = FileReport(path="")
    assert read(importer, PAGE_1, report) == []
    assert PAGE_2.name in report.notes[0]
    (thread,) = read(importer, PAGE_2)
    assert thread.draft.source_id == THREAD
    spoken = [text for text in thread.texts if "paint" not in text and "green.tin" not in text]
    assert spoken == [
        "Paint the door green.",
        "It is green now.",
        "(Now the gate, in red.)",
        "(The gate is red.)",
        "The gate in blue, please.",
        "The gate is blue.",
    ]


def test_thread_keys_are_same_in_both_formats(tmp_path: Path) -> None:
    turn = "019f0000-0000-7000-8000-000000000111"
    lines = [
        record("session_meta", {"id": THREAD, "cli_version": "0.140.0"}),
        record("turn_context", {"turn_id": turn, "model": "gpt-5.6"}),
        prompt("Paint the door green."),
        item("assistant", "It is green now."),
    ]
    (old,) = read(importer, write_lines(tmp_path / f"rollout-2026-08-31T08-00-00-{THREAD}.jsonl", lines))
    (new,) = read(importer, PAGE_2)
    assert old.draft.source_id == new.draft.source_id
    by_text = dict(zip(new.texts, new.keys, strict=True))
    assert old.keys == [by_text["Paint the door green."], by_text["It is green now."]]


def test_call_that_later_file_of_thread_repeats_is_read_once(tmp_path: Path) -> None:
    child = "019f0000-0000-7000-8000-00000000000c"
    call = [
        record("response_item", {"type": "function_call", "call_id": "c1", "name": "shell", "arguments": "{}"}),
        record("response_item", {"type": "function_call_output", "call_id": "c1", "output": "green.tin"}),
    ]
    meta = {"id": THREAD, "history_mode": "paginated"}
    first = [record("session_meta", meta), prompt("Which tin?"), *call]
    base = {"history_base": {"thread_id": THREAD, "end_byte_offset": 10**6}}
    second = [record("session_meta", meta | base), *call, item("assistant", "The green one.")]
    write_lines(tmp_path / f"rollout-2026-09-01T08-00-00-{THREAD}.jsonl", first)
    (thread,) = read(importer, write_lines(tmp_path / f"rollout-2026-09-02T08-00-00-{THREAD}_{child}.jsonl", second))
    assert thread.prompts == ["Which tin?"]
    assert [key for key in thread.keys if key.endswith("c1")] == ["call:c1", "result:c1"]


def test_page_whose_base_is_missing_is_read_alone(tmp_path: Path) -> None:
    report = FileReport(path="")
    shutil.copy(PAGE_2, tmp_path)
    (thread,) = read(importer, tmp_path / PAGE_2.name, report)
    assert thread.prompts == ["The gate in blue, please."]
    assert "import it, too" in report.issues[0].reason


def test_pages_in_circle_end(tmp_path: Path) -> None:
    child = "019f0000-0000-7000-8000-00000000000c"
    for name, base in ((THREAD, child), (f"{THREAD}_{child}", THREAD)):
        meta = {
            "id": THREAD,
            "history_mode": "paginated",
            "history_base": {"thread_id": base, "end_byte_offset": 10**6},
        }
        lines = [record("session_meta", meta), item("user", f"I am {name[-4:]}."), item("assistant", "Yes.")]
        write_lines(tmp_path / f"rollout-2026-09-01T08-00-0{len(name) % 7}-{name}.jsonl", lines)
    conversations = [draft for path in sorted(tmp_path.iterdir()) for draft in read(importer, path)]
    assert len(conversations) == 1
    assert len(conversations[0].prompts) == 2


def test_legacy_rollouts_and_prompts_that_no_event_tells_of(tmp_path: Path) -> None:
    (legacy,) = read(importer, FIXTURES / "codex" / "legacy.jsonl")
    assert legacy.prompts == ["Which nails?"]
    lines = [prompt("One"), item("user", "One"), item("assistant", "1"), item("user", "Two"), item("assistant", "2")]
    (mixed,) = read(importer, write_lines(tmp_path / "a.jsonl", lines))
    assert mixed.prompts == ["One", "Two"]


def test_fork_leaves_out_what_it_repeats(tmp_path: Path) -> None:
    parent, fork = "019f0000-0000-7000-8000-0000000000aa", "019f0000-0000-7000-8000-0000000000bb"
    turn = [record("turn_context", {"turn_id": "t1"}), prompt("Old"), item("assistant", "Yes")]
    write_lines(tmp_path / f"rollout-1-{parent}.jsonl", [record("session_meta", {"id": parent}), *turn])
    meta = record("session_meta", {"id": fork, "forked_from_id": parent})
    new_turn = [record("turn_context", {"turn_id": "t2"}), prompt("New"), item("assistant", "No")]
    (read_fork,) = read(importer, write_lines(tmp_path / f"rollout-2-{fork}.jsonl", [meta, *turn, *new_turn]))
    assert read_fork.prompts == ["New"]
    assert read_fork.draft.parent_source_id == parent


def test_compressed_rollout(tmp_path: Path) -> None:
    data = ROLLOUT.read_bytes()
    path = tmp_path / f"{ROLLOUT.name}.zst"
    path.write_bytes(zstandard.compress(data))
    (detected,) = Walk().over([tmp_path])
    assert detected.importer is not None
    assert texts(path) == texts(ROLLOUT)
    path.write_bytes(zstandard.compress(data)[:-40])
    with pytest.raises(InvalidInput, match="cut off"):
        read(importer, path)


def texts(path: Path) -> list[str]:
    (thread,) = read(importer, path)
    return thread.texts


def test_compacted_history_is_not_parsed(tmp_path: Path) -> None:
    huge = '{"timestamp":"t","type":"compacted","payload":{"replacement_history":"' + "x" * (17 * 1024**2) + '"}}'
    report = FileReport(path="")
    lines = [record("session_meta", {"id": "s"}), prompt("Q"), item("assistant", "A"), huge]
    (thread,) = read(importer, write_lines(tmp_path / "a.jsonl", [*map(json.dumps, lines[:3]), huge]), report)
    assert thread.prompts == ["Q"]
    assert report.skipped == 0


def test_newer_codex_version_is_warning_if_something_was_passed_over(tmp_path: Path) -> None:
    report = FileReport(path="")
    meta = record("session_meta", {"id": "s", "cli_version": "0.200.1"})
    path = write_lines(tmp_path / "a.jsonl", [meta, prompt("Q"), item("assistant", "A"), record("new_kind", {})])
    read(importer, path, report)
    assert "Codex CLI 0.200.1, which is newer" in report.warnings[0]
    assert importer.sniff(Source(path)) == 95


def test_types_that_are_no_text_are_declined(tmp_path: Path) -> None:
    assert importer.sniff(Source(write_lines(tmp_path / "a.jsonl", [{"type": [1]}, {"type": {"a": 1}}]))) is None
