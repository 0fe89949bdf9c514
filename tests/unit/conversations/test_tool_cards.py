"""Cards of tool calls: one line without JSON for the tools of all agents, and lists of to-dos."""

from typing import Any

import pytest

from convmemory.conversations.messages.parts import ToolCallPart, tool_call_text
from convmemory.conversations.pages.part_views import view_part
from convmemory.conversations.pages.tool_cards import Todo, card_line, plain_value, todos_of
from search.pages.snippets import show_marks

TODOS = [
    {"content": "Fix the fence", "status": "completed", "activeForm": "Fixing"},
    {"content": "Oil the gate", "status": "in_progress"},
]
CALLS: list[tuple[str, dict[str, Any], str]] = [
    ("Bash", {"command": "pytest -q tests/unit", "description": "Run tests"}, "pytest -q tests/unit"),
    ("exec_command", {"cmd": "rg -n fence", "workdir": "/src"}, "rg -n fence"),
    ("shell", {"command": ["bash", "-lc", "ls"]}, "bash -lc ls"),
    ("run_shell_command", {"command": "make"}, "make"),
    ("write_stdin", {"session_id": 3, "chars": "yes"}, "yes"),
    ("Read", {"file_path": "a.py", "offset": 20, "limit": 50}, "a.py:20-69"),
    ("read_file", {"absolute_path": "/a.py"}, "/a.py"),
    ("list_dir", {"dir_path": "/src"}, "/src"),
    ("Grep", {"pattern": "fence", "path": "src", "-n": True}, "fence · src"),
    ("Glob", {"pattern": "**/*.py"}, "**/*.py"),
    ("search_file_content", {"pattern": "gate"}, "gate"),
    ("WebSearch", {"query": "oak fence"}, "oak fence"),
    ("WebFetch", {"url": "https://example.org", "prompt": "Summarise"}, "https://example.org"),
    ("Task", {"description": "Look around", "prompt": "Read all", "subagent_type": "explore"}, "Look around"),
    ("TaskCreate", {"subject": "Paint", "description": "All of it"}, "Paint"),
    ("TaskUpdate", {"taskId": "3", "status": "completed"}, "3 · completed"),
    ("TodoWrite", {"todos": TODOS}, "1 of 2 done: Oil the gate"),
    ("update_plan", {"plan": [{"step": "Look", "status": "pending"}]}, "0 of 1 done"),
    ("write_todos", {"todos": [{"description": "Look", "status": "completed"}]}, "1 of 1 done"),
    ("ExitPlanMode", {"plan": "# Plan\nPaint."}, "# Plan Paint."),
    ("Skill", {"skill": "gardening"}, "gardening"),
    ("AskUserQuestion", {"questions": [{"question": "Oak?", "options": [{"label": "Yes"}]}]}, "Oak? · Yes"),
    ("TaskOutput", {"task_id": "b1", "block": True}, "b1 · True"),
]


@pytest.mark.parametrize(("tool", "parameters", "line"), CALLS)
def test_call_is_shown_in_one_line_without_json(tool: str, parameters: dict[str, Any], line: str) -> None:
    assert card_line(parameters, 120) == line
    view = view_part(ToolCallPart("c", tool, parameters), 0, tools={})
    shown = " ".join([view.gist, *(field.text for field in view.fields)])
    indexed = "".join(
        piece.text for piece in show_marks(tool_call_text(ToolCallPart("c", tool, parameters)), (), is_call=True)
    )
    assert indexed.startswith(f"{tool} · ")
    for text in (shown, indexed):
        assert not {'{"', '":', "[{", "}]"} & {text[at : at + 2] for at in range(len(text))}, text


def test_to_dos_are_a_checklist() -> None:
    assert todos_of({"todos": TODOS}) == (Todo("Fix the fence", "done"), Todo("Oil the gate", "active"))
    assert todos_of({"todos": "none"}) == todos_of({"items": [{"name": "x"}]}) == ()
    view = view_part(ToolCallPart("c", "TodoWrite", {"todos": TODOS}), 0, tools={})
    assert [todo.state for todo in view.todos] == ["done", "active"]


def test_nested_values_are_indented_lists_and_depth_is_bounded() -> None:
    deep: Any = "end"
    for _ in range(500):
        deep = [deep]
    assert plain_value({"a": [1, {"b": "c"}]}) == "a:\n  - 1\n  -\n    b: c"
    assert "end" in plain_value(deep)
    assert card_line({"deep": deep}, 120) == ""


def test_marks_of_a_call_stay_where_they_are() -> None:
    text = "Bash command:pytest -q description:Run tests"
    at = text.index("pytest")
    pieces = show_marks(text, [(at, at + 6)], is_call=True)
    assert [piece.text for piece in pieces] == ["Bash · ", "pytest", " -q · Run tests"]
    assert [piece.is_match for piece in pieces] == [False, True, False]
