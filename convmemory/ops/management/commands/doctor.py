"""`manage.py doctor`: show the settings in force, and findings with their remedies.

Exit code 0: nothing to do, 1: warnings, 2: errors.
"""

import json
import sys
from argparse import ArgumentParser
from typing import Any

from convmemory.core.commands import ArchiveCommand
from convmemory.ops.doctor.examining import Report, examine, fix
from convmemory.ops.doctor.findings import plural


class Command(ArchiveCommand):
    help = "Examine the installation: each finding comes with its remedy. Exit code: 0 fine, 1 warnings, 2 errors."
    usages = ("[--fix] [--json | --quiet]",)

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--json", action="store_true", dest="as_json", help="print one JSON document")
        parser.add_argument("--fix", action="store_true", help="repair what can be repaired without losing anything")
        parser.add_argument("--quiet", action="store_true", help="print only findings")

    def handle(self, *args: Any, as_json: bool, quiet: bool, **options: Any) -> None:
        report = examine()
        done: list[str] = []
        if options["fix"]:
            done = list(fix(report))
            report = examine()
        if as_json:
            self.stdout.write(json.dumps(as_document(report, done), ensure_ascii=False, indent=1))
        else:
            for area, facts in report.facts.items():
                if facts and not quiet:
                    width = max(len(name) for name, _ in facts)
                    self.stdout.write(self.style.MIGRATE_HEADING(area))
                    self.stdout.write("\n".join(f"  {name:<{width}}  {value}" for name, value in facts))
            for line in done:
                self.stdout.write(self.style.SUCCESS(f"fixed    {line}"))
            for finding in report.findings:
                style = (self.style.NOTICE, self.style.WARNING, self.style.ERROR)[finding.severity]
                self.stdout.write(style(f"{finding.severity.name.lower():<8} {finding.id}"))
                self.stdout.write(f"         {finding.message}\n         → {finding.remedy}")
            self.stdout.write("" if quiet else f"\n{plural(len(report.findings), 'finding')}.")
        if report.exit_code:
            sys.exit(report.exit_code)


def as_document(report: Report, done: list[str]) -> dict[str, Any]:
    """Return the report as JSON values."""
    return {
        "facts": {area: dict(facts) for area, facts in report.facts.items()},
        "fixed": done,
        "findings": [
            {
                "id": finding.id,
                "severity": finding.severity.name.lower(),
                "message": finding.message,
                "remedy": finding.remedy,
                "fixable": finding.fix is not None,
            }
            for finding in report.findings
        ],
    }
