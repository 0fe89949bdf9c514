"""Titles from what people type first."""

import pytest

from convmemory.core.titles import plain_title, says_something, title_from


@pytest.mark.parametrize(
    ("text", "title"),
    [
        ("why is my sourdough flat?", "why is my sourdough flat?"),
        ("## Fix the **oven** in `kitchen.py`", "Fix the oven in kitchen.py"),
        ("```\ntraceback\n```\nwhat does this mean?", "traceback what does this mean?"),
        ("see [the recipe](https://bread.example/rye) first", "see the recipe first"),
        ("/review the dough handling", "The dough handling"),
        ("[Plan mode] bake twelve loaves", "Bake twelve loaves"),
        ("Hi Claude, how long does rye rise?", "How long does rye rise?"),
        ("hi how long does rye rise?", "How long does rye rise?"),
        ("Hello world in Rust", "Hello world in Rust"),
        ("2 * 3 * x, snake_case_name and __init__.py", "2 * 3 * x, snake_case_name and __init__.py"),
        ("> quoted\n- first\n1. second", "quoted first second"),
        ("/usr/bin/env is missing", "/usr/bin/env is missing"),
    ],
)
def test_title_has_no_markdown_command_mode_or_greeting(text: str, title: str) -> None:
    assert plain_title(text, 80) == title


@pytest.mark.parametrize(
    "text", ["", "hi", "Hello!", "/compact", "plan mode", "42", "ok", "**Hey there!**", "```\n```"]
)
def test_opening_alone_says_nothing(text: str) -> None:
    assert not says_something(text)


def test_title_comes_from_first_question_that_says_something() -> None:
    assert title_from(["hi", "/compact", "which flour for rye?"], 80) == "which flour for rye?"
    assert title_from(["hi", "ok"], 80) == "hi"
    assert title_from(["x" * 5_000], 80) == "x" * 79 + "…"
    assert title_from([], 80) == ""
