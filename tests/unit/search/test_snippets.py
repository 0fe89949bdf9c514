"""Passages as lists of hits show them: without markup, with the words of the query marked."""

from collections.abc import Sequence

import pytest

from search.pages.snippets import Piece, mark_words, show_marks, without_markup


def marked(pieces: Sequence[Piece]) -> list[str]:
    return [piece.text for piece in pieces if piece.is_match]


def shown(pieces: Sequence[Piece]) -> str:
    return "".join(piece.text for piece in pieces)


def test_words_of_query_are_marked_whole() -> None:
    text = "The deadlock: deadlocks happen in C++ (sometimes)"
    assert marked(mark_words(text, "why did the DEADLOCK happen?")) == ["deadlock", "happen"]
    assert shown(mark_words(text, "deadlock c++ (")) == text
    assert mark_words("", "x") == ()
    assert marked(mark_words(text, "the is a")) == []


def test_passages_read_without_markup_and_keep_their_marks() -> None:
    text = "- **bold** and `code` in snake__case"
    pieces = show_marks(text, [(4, 8), (16, 20)])
    assert shown(pieces) == "bold and code in snake__case"
    assert marked(pieces) == ["bold", "code"]
    assert show_marks("2 * 3 = 6", []) == (Piece("2 * 3 = 6", is_match=False),)
    assert show_marks("", []) == ()


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("`src/__init__.py` and __main__.py", "src/__init__.py and __main__.py"),
        ("**Ran** `rm src/**/*_test.py`, not **/*.py", "Ran rm src/**/*_test.py, not **/*.py"),
        ("`2**n` is **2**10**, x**2 + 1", "2**n is 2**10, x**2 + 1"),
        ("`f(**options)` and f(*args, **kwargs)", "f(**options) and f(*args, **kwargs)"),
        ("(**Note**) **a) first** 中文**粗体**中文", "(Note) a) first 中文粗体中文"),
        ("*only* on *two words, `x*`*: 2 * 3, *args, a*b*c", "only on two words, x*: 2 * 3, *args, a*b*c"),
        ("rm *.py src/*.ts and *log files* in f(*rest)", "rm *.py src/*.ts and log files in f(*rest)"),
        ("``a ` b`` and a lone ` of **two**", "a  b and a lone  of two"),
    ],
)
def test_names_and_commands_are_not_markup(text: str, plain: str) -> None:
    assert without_markup(text) == plain


def test_snippets_read_without_table_bars_rules_fences_and_colour_codes() -> None:
    table = "| city | people |\n|------|-------:|\n| Lima | 10 million |"
    assert shown(show_marks(table, [])).split() == ["city", "·", "people", "Lima", "·", "10", "million"]
    assert marked(show_marks(table, [(38, 42)])) == ["Lima"]
    coloured = "\x1b[31mFAILED\x1b[0m tests/test_pay.py"
    assert shown(show_marks(coloured, [(5, 11)])) == "FAILED tests/test_pay.py"
    assert shown(show_marks("```python\nprint(1)\n```", [])).strip() == "print(1)"
    assert shown(show_marks("if a | b: c = a||b", [])) == "if a | b: c = a||b"


def test_quoted_phrase_is_what_is_marked() -> None:
    text = "raise lock_timeout, since a lock without a timeout waits"
    assert marked(mark_words(text, '"lock_timeout" for a lock')) == ["lock_timeout"]
    assert marked(mark_words("no such setting, but a lock", '"lock_timeout" lock')) == ["lock"]


@pytest.mark.parametrize(
    ("text", "query", "found"),
    [
        ("lower deadlock_timeout? No: set lock_timeout.", '"lock_timeout"', ["lock_timeout"]),
        ("deadlock_timeout of the lock", '"lock_timeout" lock', ["lock"]),
        ("lock_timeouts, my_lock_timeout_s, lock_timeout=3", '"lock_timeout"', ["lock_timeout"] * 2),
        ("run it with -v, not with --verbose", '"-v"', ["-v"]),
        ("Größen und Größe", "größe", ["Größe"]),
        ("このlock_timeoutは三秒です", '"lock_timeout"', ["lock_timeout"]),
        ("明日の締め切りはいつですか", '"締め切り"', ["締め切り"]),
    ],
)
def test_marks_end_where_words_do_but_in_scripts_without_spaces(text: str, query: str, found: list[str]) -> None:
    assert marked(mark_words(text, query)) == found
