"""The base of the program's commands, which refuses options that do not go together and asks before it deletes; and
a type of arguments.
"""

import errno
import sys
from argparse import SUPPRESS, Action, ArgumentParser, ArgumentTypeError, _SubParsersAction
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser, DjangoHelpFormatter
from django.utils.timezone import is_naive, make_aware

from convmemory.core.config import config
from convmemory.core.errors import ConvMemoryError
from convmemory.core.files.private_files import mount_of
from convmemory.core.usages import WORD, refuse, words_of

OF_EVERY_COMMAND = {*DjangoHelpFormatter.show_last, "--help"}
SHOWN_CHOICES = 6
WRONG_CALL = 2
"""The exit code of argparse for a call that it refuses."""


class ArchiveCommand(BaseCommand):
    """A command with declared usages, which prints errors of the program as its own.

    It does not run Django's checks first: they load every page and the API, which takes half a second.
    `manage.py check`, `migrate` and `doctor` run what concerns an installation.
    """

    requires_system_checks: list[str] = []
    usages: Sequence[str] = ()
    """Its options and arguments, as `core/usages.py` describes; a call that is none of them is refused."""
    _actions: Sequence[Action] = ()
    _defaults: Mapping[str, Any] = {}

    def create_parser(self, prog_name: str, subcommand: str, **kwargs: Any) -> CommandParser:
        """Return the parser, whose result has the options of the call alone: `execute` adds the defaults."""
        parser = super().create_parser(prog_name, subcommand, **kwargs)
        self._actions = list(own_actions(parser))
        options = [action for action in self._actions if action.option_strings]
        self._defaults = {action.dest: action.default for action in options}
        for action in options:
            action.default = SUPPRESS
        parser.usage = "\n       ".join(f"{parser.prog} {usage}".rstrip() for usage in self.shown_usages())
        return parser

    def execute(self, *args: Any, **options: Any) -> str | None:
        """Run the command. Raises: CommandError for options that do not go together, and for errors of the program."""
        if refusal := refuse(self.usages, self.words_of_call(options)):
            raise CommandError(refusal, returncode=WRONG_CALL)
        try:
            return super().execute(*args, **{**self._defaults, **options})
        except ConvMemoryError as error:
            raise CommandError(str(error)) from error
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                raise
            disk = mount_of(Path(error.filename or config.var_dir))
            raise CommandError(f"The disk is full: free space on {disk} and run the command again.") from error

    def words_of_call(self, options: dict[str, Any]) -> set[str]:
        """Return the options, arguments and values of a call that usages name."""
        named, words = words_of(self.usages), set()
        for action in self._actions:
            if action.option_strings:
                words |= {name_of(action)} if action.dest in options else set()
            elif (value := options.get(action.dest)) not in (None, []):
                one = value[0] if isinstance(value, list) and len(value) == 1 else value
                words.add(one if action.choices and isinstance(one, str) and one in named else name_of(action))
        return words

    def shown_usages(self) -> list[str]:
        """Return the usages with the values of options, as `--help` and docs/commands.md show them."""
        shown = {name_of(action): shown_action(action) for action in self._actions}
        return [WORD.sub(lambda word: shown.get(word[0], word[0]), usage) for usage in self.usages]

    def confirm(self, lines: Iterable[str], *, refusal: str, is_agreed: bool, answer: str = "yes") -> None:
        """Print what is about to happen, and ask unless `is_agreed`, as --yes says.

        Raises: CommandError, beginning with `refusal`: for another answer, and without a terminal.
        """
        for line in lines:
            self.stderr.write(line)
        if is_agreed:
            return
        if not (sys.stdin.isatty() and self.stderr.isatty()):
            raise CommandError(f"{refusal} There is no terminal to ask on: --yes agrees to the lines above.")
        self.stderr.write(f"Type {answer} to agree: ", ending="")
        self.stderr.flush()
        try:
            is_agreed = sys.stdin.readline().strip() == answer
        except KeyboardInterrupt:
            self.stderr.write("")
        if not is_agreed:
            raise CommandError(refusal)


def own_actions(parser: ArgumentParser) -> Iterator[Action]:
    """Yield the options and arguments that the command itself declares, also those of its subcommands."""
    for action in parser._actions:
        if not OF_EVERY_COMMAND & set(action.option_strings):
            yield action
        if isinstance(action, _SubParsersAction):
            for each in action.choices.values():
                yield from own_actions(each)


def name_of(action: Action) -> str:
    """Return the word of usages for an option or an argument."""
    return action.option_strings[-1] if action.option_strings else action.dest


def shown_action(action: Action) -> str:
    """Return an option or an argument with its value: `--limit N`, `--recall off|ask|auto`, `PATH...`."""
    choices = [str(choice) for choice in action.choices or () if choice] if action.option_strings else []
    kind = {int: "N", float: "N", moment: "TIME"}.get(action.type) if callable(action.type) else None
    value = str(action.metavar or kind or action.dest.upper().rpartition("_")[2])
    if 1 < len(choices) <= SHOWN_CHOICES:
        value = "|".join(choices)
    if action.nargs in ("+", "*"):
        value = f"{value}..."
    return " ".join([*action.option_strings[-1:], *([] if action.nargs == 0 else [value])])


def moment(text: str) -> datetime:
    """Return the time that an argument names, in the server's zone unless it names its own."""
    try:
        parsed = datetime.fromisoformat(text)
    except ValueError:
        raise ArgumentTypeError(f"{text!r} is no time: write it as 2026-03-01 or 2026-03-01T09:00.") from None
    return make_aware(parsed) if is_naive(parsed) else parsed
