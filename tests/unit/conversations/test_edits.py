"""The exact texts that calls of several agents remove from files and add to them."""

from typing import Any

import pytest

from convmemory.conversations.messages.edits import Edit, Replacement, edits_in, edits_of, path_in_project
from convmemory.conversations.messages.parts import ToolCallPart, ToolResultPart

CODEX = (
    "*** Begin Patch\n*** Update File: a.py\n@@ def f\n x\n-old\n+new\n\n y\n@@\n-- z\n+- w\n"
    "*** Add File: d/b.py\n+one\n+two\n"
    "*** Delete File: c.py\n*** Update File: e.py\n*** Move to: f.py\n@@\n-p\n+q\n*** End Patch"
)
CODEX_EDITS = [
    Edit("a.py", (Replacement("x\nold\n\ny", "x\nnew\n\ny"), Replacement("- z", "- w"))),
    Edit("d/b.py", content="one\ntwo"),
    Edit("c.py", is_deleted=True),
    Edit("e.py", is_deleted=True),
    Edit("f.py", (Replacement("p", "q"),)),
]
UNIFIED = (
    "diff --git a/a.md b/a.md\nindex 1..2\n--- a/a.md\n+++ b/a.md\n@@ -1,3 +1,3 @@\n one\n--- two\n+++ zwei\n three\n"
    "--- /dev/null\n+++ b/new.md\n@@ -0,0 +1 @@\n+new\n--- a/old.md\n+++ /dev/null\n@@ -1 +0,0 @@\n-old\n"
)


@pytest.mark.parametrize(
    ("tool", "parameters", "edits"),
    [
        ("Edit", {"file_path": "/r/a.py", "old_string": "x", "new_string": "y", "replace_all": True},
         [Edit("/r/a.py", (Replacement("x", "y", is_everywhere=True),))]),
        ("Edit", {"file_path": "a", "old_string": "", "new_string": "whole"}, [Edit("a", content="whole")]),
        ("MultiEdit", {"file_path": "a", "edits": [{"old_string": "x", "new_string": "y"}, "damaged",
         {"old_string": "p", "new_string": ""}]}, [Edit("a", (Replacement("x", "y"), Replacement("p", "")))]),
        ("Write", {"file_path": "a", "content": "one\ntwo\n"}, [Edit("a", content="one\ntwo\n")]),
        ("mcp__files__write_file", {"path": "a", "content": "x"}, [Edit("a", content="x")]),
        ("replace", {"file_path": "a", "old_string": "x", "new_string": "y"}, [Edit("a", (Replacement("x", "y"),))]),
        ("write_file", {"file_path": "a", "content": "x"}, [Edit("a", content="x")]),
        ("edit", {"filePath": "a", "oldString": "x", "newString": "y"}, [Edit("a", (Replacement("x", "y"),))]),
        ("edit", {"path": "a", "oldText": "x", "newText": "y"}, [Edit("a", (Replacement("x", "y"),))]),
        ("create", {"path": "a", "file_text": "x"}, [Edit("a", content="x")]),
        ("replace_in_file", {"path": "a", "diff": "------- SEARCH\nx\n=======\ny\n+++++++ REPLACE"},
         [Edit("a", (Replacement("x", "y"),))]),
        ("Write", {"path": "menu.md"}, [Edit("menu.md")]),  # Cursor's transcripts leave out the text
        ("apply_patch", {"input": CODEX}, CODEX_EDITS),
        ("shell", {"command": ["bash", "-lc", f"apply_patch <<'EOF'\n{CODEX}\nEOF"]}, CODEX_EDITS),
        ("exec_command", {"cmd": "apply_patch <<E\n*** Add File: d/e.ts\n+x\nE"}, [Edit("d/e.ts", content="x")]),
        ("apply_patch", {"patch": UNIFIED}, [Edit("a.md", (Replacement("one\n-- two\nthree", "one\n++ zwei\nthree"),)),
         Edit("new.md", content="new"), Edit("old.md", is_deleted=True)]),
        ("str_replace_based_edit_tool", {"command": "view", "path": "c.py"}, []),
        ("Read", {"file_path": "a"}, []),
        ("Bash", {"command": "ls"}, []),
        ("Search", {"path": "a", "content": "not a file that is written"}, []),
        ("Edit", {"file_path": 3, "old_string": None}, []),
    ],
)  # fmt: skip
def test_edits_are_read_from_the_calls_of_each_agent(tool: str, parameters: dict[str, Any], edits: list[Edit]) -> None:
    assert edits_of(ToolCallPart("1", tool, parameters)) == edits


def test_refused_edits_are_left_out() -> None:
    calls = [ToolCallPart(id, "Write", {"file_path": id, "content": "x"}) for id in ("1", "2", "3")]
    results = [
        ToolResultPart("1", "File created"),
        ToolResultPart("2", "no", is_error=True),
        ToolResultPart("3", "<tool_use_error>File has not been read yet.</tool_use_error>"),
    ]
    found = list(edits_in([(7, calls), (8, results)]))
    assert [(message, index, edit.path) for message, index, edit in found] == [(7, 0, "1")]


@pytest.mark.parametrize(
    ("path", "folders", "relative"),
    [
        ("/home/ada/barn/src/a.py", ("", "/home/ada/barn"), "src/a.py"),
        ("/home/ada/barn", ("/home/ada/barn",), "/home/ada/barn"),
        ("/home/ada/barns/a.py", ("/home/ada/barn",), "/home/ada/barns/a.py"),
        ("/tmp/wt/barn-2/a.py", ("/tmp/wt/barn-2", "/home/ada/barn"), "a.py"),
        ("/home/ada/barn/.worktrees/x/a.py", ("", "/home/ada/barn"), "a.py"),
        (
            "/home/ada/barn/.claude/worktrees/x/b/a.py",
            ("/home/ada/barn/.claude/worktrees/x", "/home/ada/barn"),
            "b/a.py",
        ),
        (r"c:\Users\Ada\barn\src\a.py", ("", "C:/Users/ada/barn"), "src/a.py"),
        ("/mnt/c/Users/ada/barn/a.py", ("", r"C:\Users\ada\barn"), "a.py"),
        ("./src/../a.py", ("", "/home/ada/barn"), "a.py"),
        ("~/.zshrc", ("", "/home/ada/barn"), "~/.zshrc"),
        ("", ("", "/home/ada/barn"), ""),
    ],
)
def test_paths_are_seen_from_the_folder_of_the_project(path: str, folders: tuple[str, ...], relative: str) -> None:
    assert path_in_project(path, *folders) == relative
