"""Where a session stopped, from its last messages: outcome, open steps, changed files and the failing command."""

from collections.abc import Mapping, Sequence
from typing import Any

from convmemory.conversations.left_off import Stop, stop_of
from convmemory.conversations.messages.outcomes import Spoken, outcome_of
from convmemory.conversations.messages.parts import Part, TextPart, ToolCallPart, ToolResultPart


def said(role: str, *parts: Part | str) -> tuple[str, list[Part]]:
    return role, [TextPart(part) if isinstance(part, str) else part for part in parts]


def call(id: str, name: str, given: Mapping[str, Any]) -> ToolCallPart:
    return ToolCallPart(id, name, given)


def stopped(messages: Sequence[tuple[str, list[Part]]], folder: str = "") -> Stop:
    return stop_of(messages, [outcome_of(Spoken(role, tuple(parts)) for role, parts in messages)], folder)


def test_session_of_claude_code_stops_with_open_steps_and_failing_command() -> None:
    todos = [("Write the test", "completed"), ("Fix the lock", "in_progress"), ("Release", "pending")]
    listed = [{"content": content, "status": status} for content, status in todos]
    stop = stopped(
        [
            said("user", "Fix the deadlock of the billing job."),
            said("assistant", "I look.", call("1", "TodoWrite", {"todos": listed})),
            said("assistant", call("2", "Edit", {"file_path": "/srv/bill/app/lock.py", "old_string": "a"})),
            said(
                "assistant", call("3", "Bash", {"command": "pytest -q"}), call("4", "Bash", {"command": "ruff check"})
            ),
            said("tool", ToolResultPart("3", "1 failed", is_error=True), ToolResultPart("4", "ok")),
            said("assistant", "Work so far:\n\nThe lock is taken in one order now, but one test still fails."),
        ],
        "/srv/bill",
    )
    assert stop == Stop(
        "Fix the deadlock of the billing job.",
        "The lock is taken in one order now, but one test still fails.",
        ("Fix the lock", "Release"),
        ("app/lock.py",),
        "pytest -q",
    )


def test_command_that_passed_later_and_steps_that_are_done_are_not_shown() -> None:
    plan = [{"step": "Fix it", "status": "completed"}]
    patch = "*** Begin Patch\n*** Update File: a.py\n@@\n-x\n*** Add File: b.py\n+y\n*** End Patch"
    ran = {"command": ["bash", "-lc", "make test"]}
    stop = stopped(
        [
            said("assistant", call("1", "shell", ran), call("2", "apply_patch", {"input": patch})),
            said("tool", ToolResultPart("1", "Process exited with code 2\nboom")),
            said("assistant", call("3", "shell", ran), call("4", "update_plan", {"plan": plan})),
            said("tool", ToolResultPart("3", "Process exited with code 0\nok")),
        ]
    )
    assert stop == Stop(changed_files=("a.py", "b.py"))


def test_damaged_calls_and_empty_session_stop_with_nothing() -> None:
    odd: list[Mapping[str, Any]] = [
        {"todos": "x", "command": 5, "path": None}, {"todos": [1]}, {"command": []}, {"plan": [{"status": "open"}]},
    ]  # fmt: skip
    assert stopped([said("assistant", *(call("1", "todo_edit", given) for given in odd))]) == stop_of([], []) == Stop()
    boxes = {"todos": "- [x] one\n- [ ] two"}
    assert stopped([said("assistant", call("1", "update_todo", boxes))]).open_steps == ("two",)
