"""Every option of every command is honoured, or refused together with those that it does not go with."""

import argparse
from argparse import Action
from collections.abc import Iterator, Sequence
from contextlib import suppress
from io import StringIO
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command, load_command_class

from convmemory.core.commands import ArchiveCommand, name_of, own_actions
from convmemory.core.usages import WORD, go_together, is_call, words_of
from convmemory.ops.management.commands import evaluate
from tests.support.commands import OF_DJANGO, all_commands, documented, own_commands

ROOT = Path(__file__).resolve().parents[2]
COMMANDS = own_commands() | {"evaluate of the program": evaluate.Command()}
COMMANDS["evaluate of the program"].create_parser("manage.py", "evaluate")
VALUES = ("1", "0.5", "2026-01-31", "x")


def words_by_action(command: ArchiveCommand) -> dict[str, Action]:
    """Return the words of a command's usages, each with its option or argument."""
    actions: dict[str, Action] = {}
    for action in command._actions:
        words = {name_of(action), *(str(each) for each in action.choices or () if not action.option_strings)}
        actions |= dict.fromkeys(words & words_of(command.usages), action)
    return actions


@pytest.mark.parametrize("name", COMMANDS)
def test_every_option_is_in_usages_and_every_word_of_them_is_one(name: str) -> None:
    command = COMMANDS[name]
    words = words_of(command.usages)
    assert command.usages, f"{name}: declare which options go together"
    undecided = [
        name_of(action)
        for action in command._actions
        if name_of(action) not in words and not (action.choices and {str(each) for each in action.choices} <= words)
    ]
    assert not undecided, f"{name}: say in `usages` with which options these go"
    assert words == set(words_by_action(command)), f"{name}: the usages name what is no option"


@pytest.mark.parametrize("name", [name for name in COMMANDS if name != "scim_token"])
def test_two_options_are_taken_together_or_refused_by_name(name: str) -> None:
    command = COMMANDS[name]
    actions = words_by_action(command)
    for one, other in combinations(sorted(actions), 2):
        if actions[one].dest == actions[other].dest:
            continue  # two values of one argument
        if go_together(command.usages, one, other):
            words = next(calls_with(command.usages, one, other))
            assert command.words_of_call(parsed(command, words)) == set(words)
        else:
            chosen = {actions[one].dest, actions[other].dest}
            required = [each for each in command._actions if each.required and each.dest not in chosen]
            with pytest.raises(CommandError, match="do not go together: leave one of them out") as refusal:
                command.execute(**parsed(command, [one, other, *map(name_of, required)]))
            assert refusal.value.returncode == 2


def test_usages_of_subcommands_are_those_of_their_parsers() -> None:
    command = COMMANDS["scim_token"]
    [choices] = [action.choices for action in command._actions if isinstance(action, argparse._SubParsersAction)]
    declared = {WORD.findall(usage)[0]: set(WORD.findall(usage)[1:]) for usage in command.usages}
    assert declared == {word: {name_of(action) for action in own_actions(parser)} for word, parser in choices.items()}


def test_commands_of_django_get_no_options_of_ours() -> None:
    for name, original in OF_DJANGO.items():
        ours, theirs = (
            {action.dest for action in command.create_parser("manage.py", name)._actions}
            for command in (load_command_class(all_commands()[name], name), original())
        )
        assert ours == theirs


@pytest.mark.parametrize(
    ("call", "refusal"),
    [
        ("reembed --prune --model x", "--model and --prune do not go together: leave one of them out."),
        ("reembed --yes", "--yes goes only with --cancel or --prune: add that, or leave --yes out."),
        ("reembed --dry-run --batch", "--batch and --dry-run do not go together"),
        ("backup monday.zip --keep 14", "--keep and PATH do not go together"),
        ("backup --to there --every 24", "--every goes only with --yes"),
        ("models --into there", "--into goes only with --get"),
        ("doctor --json --quiet", "--json and --quiet do not go together"),
        ("create_api_key ada --writes-spaces", "--writes-spaces goes only with --all-spaces or --space"),
        ("export_conversations f --user ada --conversation 1 --project p", "--conversation and --project do not"),
        ("import_conversations f --user ada --preview --json", "--json and --preview do not go together"),
        ("evaluate own", "Add --user."),
    ],
)
def test_options_that_were_ignored_are_refused(call: str, refusal: str) -> None:
    with pytest.raises(CommandError, match=refusal):
        call_command(*call.split(), stdout=StringIO(), stderr=StringIO())


def test_page_of_commands_is_made_from_declarations() -> None:
    page = (ROOT / "docs" / "commands.md").read_text(encoding="utf-8")
    assert documented(page) == page, "run `make commands`"


def calls_with(usages: Sequence[str], one: str, other: str) -> Iterator[list[str]]:
    """Yield calls that have both words, those with the fewest words first."""
    for count in range(8):
        for usage in usages:
            words = WORD.findall(usage)
            for more in combinations([word for word in words if word not in (one, other)], count):
                if is_call(usage, {one, other, *more}):
                    yield [one, other, *more]


def parsed(command: ArchiveCommand, words: Sequence[str]) -> dict[str, Any]:
    """Return what `manage.py` passes to the command for these words, each with a value that it takes."""
    actions = words_by_action(command)
    arguments: list[str] = []
    options: list[str] = []
    for word in words:
        action = actions[word]
        if action.option_strings:
            options += [word] if action.nargs == 0 else [word, value_of(action, actions)]
        else:
            arguments.append(word if word != action.dest else value_of(action, actions))
    return vars(command.create_parser("manage.py", "command").parse_args([*arguments, *options]))


def value_of(action: Action, actions: dict[str, Action]) -> str:
    """Return a value that an option or argument takes, and that is no word of a usage."""
    if action.choices:
        return next(str(choice) for choice in action.choices if choice and choice not in actions)
    for value in VALUES:
        with suppress(argparse.ArgumentTypeError, ValueError):
            if callable(action.type):
                action.type(value)
            return value
    raise AssertionError(f"{action.dest} takes none of {VALUES}")
