"""Titles from what people type first."""

import pytest

from convmemory.core.titles import commit_subject, is_beginning, plain_title, plan_title, says_something, title_from


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


@pytest.mark.parametrize(
    ("text", "title"),
    [
        ("Implement the following plan:\n\n# Plan: Bake rye in `oven.py`\n\n## Context\n", "Bake rye in oven.py"),
        ("# Task: Brainstorm a rye oven\n\nYou are a baker.", "Brainstorm a rye oven"),
        ("## Rye\ntwelve loaves", ""),  # one word names no plan
        ("# Bake the rye", ""),  # a heading over nothing is the question
        ("Why is my rye flat? I baked it as ever, for an hour, in the large oven.\n# Rye oven\nx", ""),
        ("fix the tests", ""),
        ("", ""),
    ],
)
def test_plan_is_titled_by_its_heading(text: str, title: str) -> None:
    assert plan_title(text, 80) == title


@pytest.mark.parametrize(
    ("script", "subject"),
    [
        ('git add . && git commit -m "Bake the rye" && git push', "Bake the rye"),
        ("git -C /srv/bakery commit -qam 'Bake \"dark\" rye'", 'Bake "dark" rye'),
        ('git commit -m "Bake \\"dark\\" rye"', 'Bake "dark" rye'),
        (
            "git commit -m \"$(cat <<'EOF'\nfix(oven): bake the rye\n\nCloses #40, see #41\nEOF\n)\"",
            "fix(oven): bake the rye (#40)",
        ),
        ("gh pr create --draft --repo a/b \\\n  --title 'Bake the rye (#3)' --body '#4'", "Bake the rye (#3)"),
        ('git commit -m "Release v1.2" && git commit -m "chore: bump rye" && git commit -m "Bake it"', "Bake it"),
        ('git commit -m "$MESSAGE now"', ""),
        ('git commit -m "wip"', ""),
        ("git commit --amend --no-edit", ""),
        ("git log --grep commit", ""),
    ],
)
def test_first_commit_or_pull_request_gives_its_subject(script: str, subject: str) -> None:
    assert commit_subject(script) == subject


def test_cut_question_is_its_beginning_and_another_title_is_not() -> None:
    assert is_beginning("Bake the rye: in\u2026", "## Bake **the** rye:\nin the oven")
    assert is_beginning("bake the rye", "bake the rye!")
    assert is_beginning("The oven", "/review the oven")
    assert not is_beginning("Bake", "Bake the rye")
    assert not is_beginning("Rye\u2026", "Bake the rye")
