"""`manage.py audit [--since TIME] [--follow]`: print the audit log as JSON lines."""

import json
import time
from argparse import ArgumentParser
from datetime import datetime
from typing import Any

from convmemory.accounts.auditing import entries
from convmemory.core.commands import ArchiveCommand, moment

POLL_S = 1.0


class Command(ArchiveCommand):
    help = (
        "Print the audit log, oldest first, a line of JSON for each entry; `times` of an act that can be repeated "
        "grows until its hour ends (docs/adr/0103-audit-log.md)."
    )
    usages = ("[--since] [--follow]",)

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--since", type=moment, metavar="TIME", help="entries from this time on")
        parser.add_argument("--follow", action="store_true", help="print new entries as they come, until Ctrl-C")

    def handle(self, *args: Any, since: datetime | None, follow: bool, **options: Any) -> None:
        last = 0
        while True:
            for entry in entries(since=since, after=last):
                last = entry["id"]
                self.stdout.write(json.dumps(entry))
            if not follow:
                return
            self.stdout.flush()
            time.sleep(POLL_S)
