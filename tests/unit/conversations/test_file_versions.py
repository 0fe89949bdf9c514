"""The lines of a file after each edit, and which version wrote each of them."""

import pytest

from convmemory.conversations.messages.edits import Edit, Replacement
from convmemory.conversations.messages.file_versions import Version, aligned, versions_of


def wrote(content: str) -> Edit:
    return Edit("a", content=content)


def replaced(old: str, new: str, *, everywhere: bool = False) -> Edit:
    return Edit("a", (Replacement(old, new, everywhere),))


def shown(version: Version) -> str:
    """The lines with their versions: "1 text"; "- text" for one that no edit wrote, and "…" for a gap."""
    lines = ("…" if text is None else f"{'-' if number is None else number} {text}" for text, number in version.lines)
    return "\n".join(lines)


def test_lines_keep_the_version_that_wrote_them() -> None:
    edits = [wrote("one\ntwo\nthree"), replaced("two", "zwei\nzwo"), wrote("null\none\nzwei\nzwo\nfour")]
    first, second, third = versions_of(enumerate(edits))
    assert shown(first) == "0 one\n0 two\n0 three"
    assert shown(second) == "0 one\n1 zwei\n1 zwo\n0 three"
    assert shown(third) == "2 null\n0 one\n1 zwei\n1 zwo\n2 four"
    assert third.is_whole
    assert not third.was_changed_outside


def test_replacement_within_a_line_and_everywhere() -> None:
    (_, last) = versions_of(enumerate([wrote("a = x\nb\nc = x"), replaced("x", "y", everywhere=True)]))
    assert shown(last) == "1 a = y\n0 b\n1 c = y"


def test_edits_of_a_file_whose_beginning_is_not_archived_leave_gaps() -> None:
    edits = [replaced("def f():\n    pass", "def f():\n    return 1"), replaced("# end of it", "# the end"),
             replaced("    return 1\n\ndef g():", "    return 2\n\ndef g():")]  # fmt: skip
    first, second, third = versions_of(enumerate(edits))
    assert shown(first) == "…\n- def f():\n0     return 1\n…"
    assert shown(second) == "…\n- def f():\n0     return 1\n…\n1 # the end\n…"
    assert shown(third) == "…\n- def f():\n2     return 2\n- \n- def g():\n…\n1 # the end\n…"
    assert not any(version.was_changed_outside for version in (first, second, third))


def test_text_that_no_edit_wrote_says_that_the_file_was_changed_outside() -> None:
    edits = [
        wrote("import os\n\nfirst = 1\nlast = 2"),
        replaced("first = 1  # formatted\nlast = 2", "first = 1\nlast = 3"),
    ]
    _, second = versions_of(enumerate(edits))
    assert second.was_changed_outside
    assert shown(second) == "0 import os\n0 \n1 first = 1\n1 last = 3"
    _, unknown = versions_of(enumerate([wrote("one"), replaced("elsewhere", "else")]))
    assert unknown.was_changed_outside
    assert shown(unknown) == "0 one\n…\n1 else\n…"


def test_edits_of_one_version_are_one_and_deleted_and_unknown_ones_are_known_as_such() -> None:
    edits = [(0, wrote("a")), (0, replaced("a", "b")), (1, Edit("a", is_deleted=True)), (2, Edit("a"))]
    first, second, third = versions_of(edits)
    assert shown(first) == "0 b"
    assert second.is_deleted
    assert shown(second) == ""
    assert not third.is_whole


@pytest.mark.parametrize(
    ("before", "after", "matches"),
    [
        ("abc", "abc", [0, 1, 2]),
        ("", "ab", [None, None]),
        ("axbxc", "bxcxa", [2, 3, 4, None, None]),
        ("xxabxx", "xxbaxx", [0, 1, None, 2, 4, 5]),
        ("aaaa", "aa", [0, 1]),
        ("abcd", "axcxd", [0, None, 2, None, 3]),
        ("qxUxr", "sxUxt", [None, 1, 2, 3, None]),
        ("xqxU9", "12345xU6", [None, None, None, None, None, 2, 3, None]),
    ],
)
def test_lines_are_aligned_by_those_that_occur_once(before: str, after: str, matches: list[int | None]) -> None:
    result = aligned(list(before), list(after))
    assert [None if match is None else before[match] for match in result] == [
        None if match is None else before[match] for match in matches
    ]
    kept = [match for match in result if match is not None]
    assert kept == sorted(set(kept))
