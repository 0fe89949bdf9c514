"""`manage.py capacity --users N --turns-per-user M`: compute the needs of an installation of that size."""

import json
from argparse import ArgumentParser
from dataclasses import asdict
from typing import Any

from django.core.management.base import CommandError

from convmemory.core.commands import ArchiveCommand
from convmemory.ops.capacity import MEASURED, Load, estimate, with_measured

GIB = 1024**3
OF_TURNS = "[--passages-per-turn] [--messages-per-turn] [--chars-per-turn] [--dimensions] [--no-late-interaction]"


class Command(ArchiveCommand):
    help = "Compute rows, bytes, hours of embedding and memory for a number of users (docs/scaling.md)."
    usages = (f"--users --turns-per-user {OF_TURNS} [--texts-per-second] [--measure] [--json]",)

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--users", type=int, required=True, help="number of users")
        parser.add_argument("--turns-per-user", type=int, required=True, help="turns of an average user")
        parser.add_argument("--passages-per-turn", type=float, default=4.0, help="default: 4")
        parser.add_argument("--messages-per-turn", type=float, default=2.0, help="default: 2")
        parser.add_argument("--chars-per-turn", type=int, default=1_000, help="text of all of a turn's messages")
        parser.add_argument("--dimensions", type=int, default=384, help="of the vectors (default: 384)")
        parser.add_argument("--no-late-interaction", action="store_true", help="without token vectors")
        parser.add_argument("--texts-per-second", type=float, default=520.0, help="of the embedding model")
        parser.add_argument("--measure", action="store_true", help="take bytes per row from this installation")
        parser.add_argument("--json", action="store_true", dest="as_json", help="print one JSON document")

    def handle(self, *args: Any, measure: bool, as_json: bool, **options: Any) -> None:
        names = ("users", "turns_per_user", "passages_per_turn", "messages_per_turn", "chars_per_turn", "dimensions")
        values = {name: options[name] for name in (*names, "texts_per_second")}
        for name, value in values.items():
            if value <= 0:
                raise CommandError(f"--{name.replace('_', '-')} {value} is not above 0.")
        without_tokens = {"token_dimensions": 0} if options["no_late_interaction"] else {}
        load = Load(**values, **without_tokens)
        result, measured = with_measured(load) if measure else (estimate(load, MEASURED), [])
        if as_json:
            self.stdout.write(json.dumps({**asdict(result), "total_bytes": result.total_bytes, "measured": measured}))
            return
        self.stdout.write(f"{load.users:,} users x {load.turns_per_user:,} turns = {load.turns:,} turns\n")
        self.stdout.write(f"{'table':<32}{'rows':>18}{'table GiB':>14}{'indexes GiB':>14}")
        for line in result.lines:
            sizes = f"{line.table_bytes / GIB:>14,.2f}{line.index_bytes / GIB:>14,.2f}"
            self.stdout.write(f"{line.table:<32}{line.rows:>18,}{sizes}")
        self.stdout.write(f"{'together':<32}{'':>18}{result.total_bytes / GIB:>14,.2f} GiB on disk")
        self.stdout.write(f"memory: {result.working_set_bytes / GIB:,.2f} GiB for all that a search can read")
        self.stdout.write(f"embedding: {result.embed_hours:,.1f} hours at {load.texts_per_second:g} texts a second")
        if measure:
            self.stdout.write(
                f"Bytes per row measured here: {', '.join(measured) or 'none, the tables are too small'}."
            )
