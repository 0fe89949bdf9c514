"""Usages of a command: which words are a call, and what a refusal names."""

import pytest

from convmemory.core.usages import go_together, is_call, refuse

USAGES = (
    "[--model] [--workers] [--batch]",
    "[--model] --dry-run",
    "--prune [--yes | --dry-run]",
    "set --data [--messages [--budget]]",
    "set --data --silence [--sizes [--count]]",
)


@pytest.mark.parametrize(
    "words",
    [
        set(),
        {"--model", "--workers", "--batch"},
        {"--model", "--dry-run"},
        {"--prune"},
        {"--prune", "--dry-run"},
        {"set", "--data", "--messages", "--budget"},
    ],
)
def test_words_of_one_usage_are_a_call(words: set[str]) -> None:
    assert refuse(USAGES, words) == ""


@pytest.mark.parametrize(
    ("words", "refusal"),
    [
        ({"--batch", "--dry-run"}, "--batch and --dry-run do not go together: leave one of them out."),
        ({"--prune", "--yes", "--dry-run"}, "--dry-run and --yes do not go together: leave one of them out."),
        ({"--yes"}, "--yes goes only with --prune: add that, or leave --yes out."),
        ({"set"}, "SET goes only with --data: add that, or leave SET out."),
        ({"set", "--prune"}, "--prune and SET do not go together: leave one of them out."),
        (
            {"set", "--data", "--budget"},
            "--budget goes only with --messages: add that, or leave --budget out.",
        ),
        (
            {"set", "--data", "--count"},
            "--count goes only with --silence and --sizes: add that, or leave --count out.",
        ),
    ],
)
def test_refusal_names_options_and_what_to_do(words: set[str], refusal: str) -> None:
    assert refuse(USAGES, words) == refusal


def test_alternatives_and_words_of_different_usages_do_not_go_together() -> None:
    assert go_together(USAGES, "--prune", "--dry-run")
    assert not go_together(USAGES, "--yes", "--dry-run")
    assert not go_together(USAGES, "--messages", "--silence")
    assert not is_call("--prune [--yes | --dry-run]", {"--yes", "--dry-run"}, is_part=True)
