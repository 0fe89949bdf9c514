"""What a turn came to: its conclusion, the files that it changed, the commands that passed and failed."""

from typing import Any

import pytest

from convmemory.conversations.messages.outcomes import (
    Outcome,
    Spoken,
    call_line,
    changed_files,
    end_of,
    has_failed,
    outcome_of,
)
from convmemory.conversations.messages.parts import TextPart, ToolCallPart, ToolResultPart


def call(number: str, name: str, **values: Any) -> Spoken:
    return Spoken("assistant", (ToolCallPart(number, name, values),))


def result(number: str, text: str, *, is_error: bool = False) -> Spoken:
    return Spoken("tool", (ToolResultPart(number, text, is_error=is_error),))


def test_outcome_has_last_text_changed_files_and_last_commands() -> None:
    turn = [
        Spoken("user", (TextPart("Update Go everywhere."),)),
        Spoken("assistant", (TextPart("I'll search for Go version specifications in the project."),)),
        call("1", "Bash", command="go version"),
        result("1", "go1.25.5"),
        call("2", "Edit", file_path="mise.toml", old_string="1.25.5", new_string="1.25.6"),
        result("2", "ok"),
        call("3", "shell", command=["bash", "-lc", "cd /srv/barn && mise run lint"]),
        result("3", "no such task\nProcess exited with code 1"),
        call("4", "apply_patch", input="*** Begin Patch\n*** Update File: go.mod\n@@\n"),
        result("4", "Success"),
        call("5", "Bash", command="mise run test"),
        result("5", "ok 12 tests\nProcess exited with code 0"),
        Spoken(
            "assistant", (TextPart("Updated Go to 1.25.6 in `mise.toml` and `go.mod`. Would you like me to push?"),)
        ),
    ]
    found = outcome_of(turn)
    assert found == Outcome(
        "Updated Go to 1.25.6 in `mise.toml` and `go.mod`.", ("mise.toml", "go.mod"), "mise run test", "mise run lint"
    )
    assert Outcome.from_json(found.to_json()) == found
    assert Outcome.from_json(None) == Outcome()


@pytest.mark.parametrize(
    ("texts", "conclusion"),
    [
        (["Let me look.", "Great! The port is 9714."], "The port is 9714."),
        (["The cause is the stale hook in .git/hooks.", "Done."], "The cause is the stale hook in .git/hooks."),
        (["## Summary\n\n- **Root cause:** Biome\n\n```\ncode\n```\nFixed it."], "Root cause: Biome Fixed it."),
        (["**Moved** `src/**/*.py` to app/__init__.py."], "Moved `src/**/*.py` to app/__init__.py."),
        (["The size is **at most** `2**63` now, for all rows."], "The size is at most `2**63` now, for all rows."),
        (["Done."], "Done."),
        (
            ['The only strategy that is left is:\n\n```json\n"strategy": "manual"\n```\n\nIt makes no commits.'],
            'The only strategy that is left is: `"strategy": "manual"` It makes no commits.',
        ),
        (
            [
                "Let me look at the workers.",
                "`bucket` calls `hash()`. I'll use crc32.",
                "All three workers agree now; I pushed it.",
            ],
            "All three workers agree now; I pushed it. `bucket` calls `hash()`. I'll use crc32.",
        ),
        (
            ["I compared:\n\n| way | time |\n|---|---|\n| dump | 14 h |\n\nLink mode, 5 minutes."],
            "Link mode, 5 minutes.",
        ),
        (
            ["The pages differ.\n\n| port | 80 |\n\n## Final answer\n\nThe memo is on 9714.\n"],
            "The memo is on 9714. The pages differ.",
        ),
        ([], ""),
    ],
)
def test_conclusion_leaves_out_announcements_headings_of_markup_and_code(texts: list[str], conclusion: str) -> None:
    assert outcome_of([Spoken("assistant", (TextPart(text),)) for text in texts]).conclusion == conclusion


@pytest.mark.parametrize(
    ("name", "values", "files"),
    [
        ("Edit", {"file_path": "a.py"}, ["a.py"]),
        ("write_file", {"path": "b.md", "content": "x"}, ["b.md"]),
        ("str_replace_based_edit_tool", {"command": "view", "path": "c.py"}, []),
        ("Read", {"file_path": "a.py"}, []),
        ("exec_command", {"cmd": "apply_patch <<E\n*** Add File: d/e.ts\n+x\nE"}, ["d/e.ts"]),
        ("todo_write", {"todos": []}, []),
    ],
)
def test_changed_files_are_those_of_edits(name: str, values: dict[str, Any], files: list[str]) -> None:
    assert list(changed_files(ToolCallPart("1", name, values))) == files


@pytest.mark.parametrize(
    ("text", "failed"),
    [
        ("Wall time: 0.1 s\nProcess exited with code 0\nOutput:\nexit", False),
        ('{"stdout": "", "exitCode": 2}', True),
        ('{"output": {"returncode": 0, "stderr": ""}}', False),
        ("Error: (none)\nExit Code: 0", False),
        ("Command exited with code 2", True),
        ("an error is mentioned", False),
    ],
)
def test_exit_code_decides_whether_command_failed(text: str, failed: bool) -> None:
    assert has_failed(ToolResultPart("1", text)) is failed


def test_call_is_one_line_with_its_end() -> None:
    test = ToolCallPart("1", "Bash", {"command": "mise run test\n"})
    assert call_line(test, end_of(ToolResultPart("1", "line\n" * 100))) == "Bash mise run test: ok"
    passed = ToolResultPart("1", "Process exited with code 0\nOutput:\n12 passed\n  in 2 s\n")
    assert call_line(test, end_of(passed)) == "Bash mise run test: ok, 12 passed in 2 s"
    failed = end_of(ToolResultPart("1", "E1\nassert 1 == 2\n", is_error=True))
    assert call_line(test, failed) == "Bash mise run test: failed, assert 1 == 2"
    assert call_line(ToolCallPart("2", "Edit", {"file_path": "app.yaml"}), "ok") == "Edit app.yaml"
    assert call_line(ToolCallPart("3", "Grep", {"pattern": "port"}), None) == "Grep port"


def test_command_that_fails_at_last_is_none_that_passed() -> None:
    test, lint = (
        ToolCallPart("1", "Bash", {"command": "make test"}),
        ToolCallPart("2", "Bash", {"command": "make lint"}),
    )

    def ran(*ends: tuple[ToolCallPart, bool]) -> tuple[str, str]:
        messages = [
            spoken
            for call, is_error in ends
            for spoken in (
                Spoken("assistant", (call,)), Spoken("tool", (ToolResultPart(call.id, "done", is_error=is_error),))
            )
        ]  # fmt: skip
        outcome = outcome_of(messages)
        return outcome.passed, outcome.failed

    assert ran((test, True), (test, False)) == ("make test", "make test")
    assert ran((test, False), (test, True)) == ("", "make test")
    assert ran((test, True), (lint, False)) == ("make lint", "make test")
