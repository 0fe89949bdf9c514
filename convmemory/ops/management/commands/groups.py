"""`manage.py groups`: list the groups of owners, their sizes and their defects."""

import json
from argparse import ArgumentParser
from dataclasses import asdict
from typing import Any

from django.core.management.base import CommandError

from convmemory.core.commands import ArchiveCommand
from convmemory.core.program import COMMAND
from convmemory.ops.groups.sizes import group_reports

MIB = 1024**2


class Command(ArchiveCommand):
    help = "List the groups of owners with their owners, passages, bytes, problems and nodes."
    usages = ("[--json]",)

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--json", action="store_true", help="as JSON")

    def handle(self, *args: Any, **options: Any) -> None:
        reports = group_reports()
        if options["json"]:
            self.stdout.write(json.dumps([asdict(report) for report in reports], indent=1))
        elif not reports:
            self.stdout.write(
                f"All owners are on this server. `{COMMAND} distribute --groups N` spreads them over nodes."
            )
        else:
            self.stdout.write(f"{'group':>5}  {'owners':>9}  {'passages':>12}  {'MiB':>10}")
        for report in [] if options["json"] else reports:
            counts = f"{report.number:>5}  {report.owners:>9,}  {report.passages:>12,}  {report.size / MIB:>10,.1f}"
            counts = f"{counts}  {report.node}".rstrip()
            self.stdout.write("\n      ! ".join([counts, *report.problems]))
        if any(report.problems for report in reports):
            raise CommandError("Not every group is well.")
