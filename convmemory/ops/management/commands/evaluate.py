"""`manage.py evaluate own --user U [--against MODEL...]`: compare models on an archive, which stays as it is."""

import json
from argparse import ArgumentParser, ArgumentTypeError
from collections.abc import Sequence
from typing import Any

from convmemory.accounts.auditing import Action, record
from convmemory.accounts.callers import Caller, acting_as
from convmemory.accounts.users import archive_named
from convmemory.core.commands import ArchiveCommand
from convmemory.core.numbers import parse_number
from convmemory.ops.reembed import comparing

OWN = "own"
OF_OWN = "own --user [--against] [--turns] [--questions] [--seed] [--json]"


class Command(ArchiveCommand):
    help = "Compare models on a person's own archive. In a checkout, also measure search on evaluation sets."
    usages: Sequence[str] = (OF_OWN,)

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("dataset", choices=[OWN], help="questions made from a person's own turns")
        parser.add_argument("--json", action="store_true", help="print one JSON object")
        add_own_arguments(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        with acting_as(Caller.for_archive(archive_named(options["user"]).pk)) as caller:
            record(Action.READ, what="comparison of models", person_id=None, about_id=caller.archive_id)
            report = comparing.compare_on_own(
                caller,
                against=options["against"],
                turns=options["turns"],
                questions=options["questions"],
                seed=options["seed"],
                progress=self.stderr.write,
            )
        self.stdout.write(json.dumps(report) if options["json"] else "\n".join(comparing.lines_of(report)))


def add_own_arguments(parser: ArgumentParser) -> None:
    """Add the arguments of the comparison on an archive."""
    group = parser.add_argument_group("own: questions made from a person's own turns, which stay as they are")
    group.add_argument("--user", help='whose archive: a user, or "space 7"')
    group.add_argument("--against", nargs="+", default=[], help="models, named as for `reembed --model`")
    group.add_argument("--turns", type=count_argument, default=400, help="number of turns in the sample")
    group.add_argument("--questions", type=count_argument, default=150, help="questions of each kind, at most")
    group.add_argument("--seed", type=int, default=0, help="seed of the random sample")


def count_argument(text: str) -> int:
    """Return the number above 0 that an argument gives."""
    if (number := parse_number(text, minimum=1)) is None:
        raise ArgumentTypeError(f"{text} is no number above 0.")
    return number
