"""Tool calls that edit files, of several agents, as lines put in and taken out."""

from typing import Any

import pytest

from convmemory.conversations.pages.diffs import Diff, DiffLine, diff_of, difference

PATCH = "*** Begin Patch\n*** Update File: a.py\n@@\n-old\n+new\n same\n*** End Patch"


def shown(diff: Diff | None) -> str:
    assert diff is not None
    return "\n".join(line.sign + line.text for line in diff.lines)


def test_only_lines_that_differ_are_shown_with_their_neighbours() -> None:
    before = "\n".join(f"line {number}" for number in range(20))
    diff = diff_of(
        "Edit",
        {"file_path": "/a.py", "old_string": before, "new_string": before.replace("line 10", "line ten\nmore")},
    )
    assert shown(diff) == (" line 7\n line 8\n line 9\n-line 10\n+line ten\n+more\n line 11\n line 12\n line 13")
    assert diff is not None
    assert (diff.path, diff.added, diff.removed) == ("/a.py", 2, 1)


@pytest.mark.parametrize(
    ("tool", "parameters", "text"),
    [
        ("str_replace_editor", {"path": "a", "old_str": "x", "new_str": "y"}, "-x\n+y"),
        ("edit", {"filePath": "a", "oldString": "x", "newString": ""}, "-x"),
        ("MultiEdit", {"file_path": "a", "edits": [{"old_string": "x", "new_string": "y"}, {"old_string": "p",
         "new_string": "q"}, "damaged"]}, "-x\n+y\n-p\n+q"),
        ("Write", {"file_path": "a", "content": "one\ntwo"}, "+one\n+two"),
        ("apply_patch", {"input": PATCH},
         "*** Begin Patch\n*** Update File: a.py\n@@\n-old\n+new\n same\n*** End Patch"),
        ("edit", {"path": "a", "oldText": "x", "newText": "y"}, "-x\n+y"),
        ("replace_in_file", {"path": "a", "diff": "------- SEARCH\nx\n=======\ny\n+++++++ REPLACE"}, "-x\n+y"),
        ("edit_file", {"path": "a", "diff": "<<<<<<< SEARCH\nx\nz\n=======\nz\n>>>>>>> REPLACE\n"}, "-x\n z"),
        ("shell", {"command": ["bash", "-lc", f"apply_patch <<'EOF'\n{PATCH}\nEOF"]},
         "*** Begin Patch\n*** Update File: a.py\n@@\n-old\n+new\n same\n*** End Patch"),
        ("shell", {"command": ["apply_patch", PATCH]},
         "*** Begin Patch\n*** Update File: a.py\n@@\n-old\n+new\n same\n*** End Patch"),
    ],
)  # fmt: skip
def test_edits_are_known_by_their_parameters(tool: str, parameters: dict[str, Any], text: str) -> None:
    assert shown(diff_of(tool, parameters)) == text


@pytest.mark.parametrize(
    ("tool", "parameters"),
    [
        ("Bash", {"command": "ls"}),
        ("Read", {"file_path": "a"}),
        ("Edit", {"old_string": "same", "new_string": 3}),
        ("Search", {"path": "a", "content": "not a file that is written"}),
        ("x", {"edits": "text"}),
    ],
)
def test_other_calls_are_no_edits(tool: str, parameters: dict[str, Any]) -> None:
    assert diff_of(tool, parameters) is None


def test_lines_that_passage_says_are_marked() -> None:
    diff = diff_of("Edit", {"file_path": "a", "old_string": "wait(3)", "new_string": "wait(5)\nretry()"})
    assert diff
    marked = diff.marking("new_string:wait(5)\nret")
    assert marked
    assert [line.text for line in marked.lines if line.mark == "first"] == ["wait(5)"]
    assert diff.marking("another passage") is None


def test_long_diff_is_cut() -> None:
    diff = Diff("a", (DiffLine("added", "x" * 9), DiffLine("added", "y" * 9), DiffLine("removed", "z" * 9)))
    cut, left_out = diff.cut(15)
    assert [line.text for line in cut.lines] == ["x" * 9, "y" * 5]
    assert left_out == 4 + 9
    assert diff.cut(100) == (diff, 0)


def test_difference_of_two_versions_has_removed_lines_before_added_ones_and_marks_what_is_left_out() -> None:
    before = [*map(str, range(20)), None, "end"]
    after = [*map(str, range(10)), "ten", *map(str, range(11, 20)), None, "the end", "more"]
    lines = [line.sign + line.text for line in difference(before, after)]
    assert lines == [
        "…", " 7", " 8", " 9", "-10", "+ten", " 11", " 12", " 13", "…", " 18", " 19", " …", "-end", "+the end", "+more",
    ]  # fmt: skip
    assert list(difference(before, before)) == []
