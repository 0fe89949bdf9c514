import hashlib
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from convmemory.conversations.importers import claude_prompts
from convmemory.conversations.importers.claude_code import ClaudeCodeImporter
from tests.unit.importers.helpers import (
    FIXTURES,
    Read,
    assistant_line,
    queue_line,
    queued_command_line,
    read,
    user_line,
    write_lines,
)

importer = ClaudeCodeImporter()


def read_lines(path: Path, *lines: dict[str, Any]) -> Read:
    (conversation,) = read(importer, write_lines(path / "s.jsonl", lines))
    return conversation


def queue_key(text: str, number: int = 0) -> str:
    return f"queue:{hashlib.sha1(text.encode()).hexdigest()[:16]}:{number}"


START = (user_line("u1", "begin"), assistant_line("a1", "working"))
END = assistant_line("a9", "done")


def test_fixture_holds_each_prompt_once_at_its_place() -> None:
    (conversation,) = read(importer, FIXTURES / "claude-code" / "0c5e2b7a-9f64-4d0d-b6a3-1d2e3f4a5b6c.jsonl")
    assert conversation.prompts == [
        "Water the seedlings at six.",
        "make it seven on Sundays",
        "and the basil?",
        "the mint too",
    ]
    assert [message.role for message in conversation.messages] == [
        *("user", "assistant", "user", "tool", "assistant", "assistant", "user", "assistant", "user", "assistant"),
    ]


def test_prompt_that_is_only_in_queue_is_imported_where_it_stands(tmp_path: Path) -> None:
    conversation = read_lines(tmp_path, *START, queue_line("enqueue", "also this"), queue_line("remove"), END)
    assert conversation.keys == ["u1", "a1", queue_key("also this"), "a9"]


def test_dequeued_prompt_keeps_its_queue_key_at_its_new_place(tmp_path: Path) -> None:
    queued = (*START, queue_line("enqueue", "also this"), assistant_line("a2", "still working"))
    before = read_lines(tmp_path, *queued)
    after = read_lines(tmp_path, *queued, queue_line("dequeue"), user_line("u2", "also this"), END)
    assert before.keys == ["u1", "a1", queue_key("also this"), "a2"]
    assert after.keys == ["u1", "a1", "a2", queue_key("also this"), "a9"]


def test_queued_prompt_has_time_at_which_it_was_written(tmp_path: Path) -> None:
    queued = (*START, {**queue_line("enqueue", "also this"), "timestamp": "2026-02-03T09:00:00Z"})
    before = read_lines(tmp_path, *queued)
    after = read_lines(tmp_path, *queued, queue_line("dequeue"), user_line("u2", "also this"), END)
    times = [
        conversation.messages[conversation.keys.index(queue_key("also this"))].created_at
        for conversation in (before, after)
    ]
    assert times == [datetime(2026, 2, 3, 9, tzinfo=UTC)] * 2


def test_two_prompts_that_come_back_joined_stay_two_messages(tmp_path: Path) -> None:
    lines = (*START, queue_line("enqueue", "first\nthing"), queue_line("enqueue", "second"))
    conversation = read_lines(tmp_path, *lines, user_line("u2", "first\nthing\nsecond\nand more"), END)
    assert conversation.keys[2:] == [queue_key("first\nthing"), queue_key("second"), "u2:2", "a9"]
    assert conversation.prompts == ["begin", "first\nthing", "second", "and more"]
    assert conversation.turns == 2


def test_queued_prompt_returns_only_as_whole_line(tmp_path: Path) -> None:
    lines = (*START, queue_line("enqueue", "stop"), queue_line("remove"))
    conversation = read_lines(tmp_path, *lines, user_line("u2", "please stop the pump"), END)
    assert conversation.prompts == ["begin", "stop", "please stop the pump"]


def test_later_prompt_with_same_text_is_another_one(tmp_path: Path) -> None:
    lines = (*START, queue_line("enqueue", "yes"), queue_line("remove"), END)
    conversation = read_lines(
        tmp_path, *lines, user_line("u2", "something else"), assistant_line("a3", "ok"), user_line("u3", "yes")
    )
    assert conversation.keys == ["u1", "a1", queue_key("yes"), "a9", "u2", "a3", "u3"]


def test_same_text_queued_twice_is_two_prompts(tmp_path: Path) -> None:
    lines = (*START, queue_line("enqueue", "continue"), queue_line("remove"))
    conversation = read_lines(tmp_path, *lines, END, queue_line("enqueue", "continue"), user_line("u2", "continue"))
    assert conversation.keys == ["u1", "a1", queue_key("continue"), "a9", queue_key("continue", 1)]


def test_prompts_returned_to_editor_are_not_imported(tmp_path: Path) -> None:
    lines = (queue_line("enqueue", "first"), queue_line("enqueue", "second"))
    named = read_lines(tmp_path, *START, *lines, queue_line("popAll", "first"), queue_line("popAll", "second"), END)
    joined = read_lines(tmp_path, *START, *lines, queue_line("popAll", "first\nsecond"), END)
    unnamed = read_lines(tmp_path, *START, *lines, queue_line("popAll"), END)
    assert named.prompts == joined.prompts == unnamed.prompts == ["begin"]


def test_prompt_typed_again_after_it_went_back_is_line_of_its_own(tmp_path: Path) -> None:
    lines = (*START, queue_line("enqueue", "first"), queue_line("popAll", "first"))
    conversation = read_lines(tmp_path, *lines, user_line("u2", "first"), END)
    assert conversation.keys == ["u1", "a1", "u2", "a9"]


def test_notifications_bare_commands_and_blanks_in_queue_are_no_prompts(tmp_path: Path) -> None:
    texts = ("<task-notification>\n<task-id>1</task-id>", "/compact", "  ", "")
    conversation = read_lines(tmp_path, *START, *(queue_line("enqueue", text) for text in texts), END)
    assert conversation.prompts == ["begin"]
    path_like = read_lines(tmp_path, *START, queue_line("enqueue", "/etc/hosts is wrong"), END)
    assert path_like.prompts == ["begin", "/etc/hosts is wrong"]


def test_queued_command_is_prompt_with_or_without_queue_entry(tmp_path: Path) -> None:
    alone = read_lines(tmp_path, *START, queued_command_line("q1", "the mint", origin={"kind": "human"}), END)
    assert alone.keys == ["u1", "a1", "q1", "a9"]
    lines = (*START, queue_line("enqueue", "the mint"), queue_line("remove"), assistant_line("a2", "x"))
    both = read_lines(tmp_path, *lines, queued_command_line("q1", [{"type": "text", "text": "the mint"}]), END)
    assert both.keys == ["u1", "a1", "a2", queue_key("the mint"), "a9"]


def test_queued_command_that_comes_back_as_user_line_is_one_prompt(tmp_path: Path) -> None:
    lines = (*START, queued_command_line("q1", "the mint"), assistant_line("a2", "x"))
    conversation = read_lines(tmp_path, *lines, user_line("u2", "the mint"), END)
    assert conversation.keys == ["u1", "a1", "a2", "q1", "a9"]


def test_queued_commands_of_harness_are_no_prompts(tmp_path: Path) -> None:
    conversation = read_lines(
        tmp_path,
        *START,
        queued_command_line("q1", "x", commandMode="task-notification"),
        queued_command_line("q2", "x", origin={"kind": "task-notification"}),
        queued_command_line("q3", "<task-notification>x</task-notification>"),
        queued_command_line("q4", "x", isMeta=True),
        END,
    )
    assert conversation.prompts == ["begin"]


def test_images_of_queued_command_are_attachments(tmp_path: Path) -> None:
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}}
    conversation = read_lines(
        tmp_path, *START, queued_command_line("q1", [image, {"type": "text", "text": "see"}]), END
    )
    assert [part.type for part in conversation.messages[2].parts] == ["text", "attachment"]


def test_queued_slash_command_that_comes_back_is_one_prompt(tmp_path: Path) -> None:
    names = "<command-message>plan</command-message>\n<command-name>/plan</command-name>"
    command = f"{names}\n<command-args>a pond</command-args>"
    conversation = read_lines(tmp_path, *START, queue_line("enqueue", "/plan a pond"), user_line("u2", command), END)
    assert conversation.prompts == ["begin", "/plan a pond"]


def test_every_state_of_growing_session_has_each_prompt_once(tmp_path: Path) -> None:
    lines = (
        *START,
        queue_line("enqueue", "one"),
        queue_line("enqueue", "two"),
        queue_line("remove"),
        assistant_line("a2", "x"),
        queue_line("dequeue"),
        user_line("u2", "two"),
        queue_line("enqueue", "one"),
        queue_line("remove"),
        queued_command_line("q1", "one"),
        END,
    )
    seen: set[str] = set()
    for count in range(1, len(lines) + 1):
        conversation = read_lines(tmp_path, *lines[:count])
        assert len(conversation.prompts) == len(
            set(conversation.keys) & {"u1", *(key for key in conversation.keys if "queue" in key)}
        )
        assert seen <= set(conversation.keys)  # nothing that was imported loses its key
        seen |= set(conversation.keys)
    assert conversation.prompts == ["begin", "one", "two", "one"]


def test_queued_prompts_over_max_open_are_all_imported(tmp_path: Path) -> None:
    count = claude_prompts.MAX_OPEN_ENTRIES + 50
    lines = [queue_line("enqueue", f"prompt {number}") for number in range(count)]
    conversation = read_lines(tmp_path, *START, *lines, END)
    assert len(conversation.prompts) == count + 1
