"""`manage.py sync --user U`: import new and changed conversations of the coding agents on this machine.

Lists them and asks before the first import; names the sessions that Claude Code is about to delete.
"""

import os
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.template.defaultfilters import filesizeformat

from convmemory.accounts.callers import Caller, acting_as
from convmemory.accounts.users import user_named
from convmemory.conversations.importing.syncing import (
    SyncReport,
    has_synced,
    holdings,
    import_undoably,
    soon_deleted,
    sync_places,
)
from convmemory.core.commands import ArchiveCommand
from convmemory.push.account import Account
from convmemory.push.rules import Rules
from convmemory.push.stores import existing_stores

SHOWN = 10


class Command(ArchiveCommand):
    help = "Import what the coding agents of this machine have written since the last time (docs/keeping-current.md)."
    usages = ("--user [--home] [--yes | --list]",)

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--user", required=True, help="the user who will own the conversations")
        parser.add_argument(
            "--home", type=Path, default=Path.home(), help="home folder of the agents' user (default: your own)"
        )
        parser.add_argument("--yes", action="store_true", help="do not ask before the first import")
        parser.add_argument("--list", action="store_true", help="only list what there is")

    def handle(self, *args: Any, **options: Any) -> None:
        caller = Caller.of(user_named(options["user"]))
        stores = existing_stores(home=options["home"])
        holdings_here = holdings(stores)
        for holding in holdings_here:
            size = filesizeformat(holding.size)
            self.stdout.write(f"{holding.store.agent:<16}{holding.files:>7} files {size:>12}  {holding.store.path}")
        if not holdings_here:
            self.stdout.write("No coding agent has left conversations on this machine.")
        rules = Rules.of(Account(options["home"]))
        if rules.stop:
            self.stdout.write(f"Nothing is imported: {rules.stop}.")
        if options["list"] or not holdings_here or rules.stop:
            return
        if not has_synced(caller):
            first = f"This is the first import: the conversations listed above become those of {options['user']}."
            self.confirm([first], refusal="Nothing was imported.", is_agreed=options["yes"])
        report = SyncReport()
        with acting_as(caller):
            import_undoably(
                caller=caller,
                name=f"sync of {', '.join(sorted({store.agent for store in stores}))}",
                run=lambda on_stored: (
                    sync_places(caller=caller, stores=stores, rules=rules, on_stored=on_stored, report=report).imported
                ),
            )
        self._print(report)
        soon = soon_deleted(claude=Path(os.environ.get("CLAUDE_CONFIG_DIR") or options["home"] / ".claude"))
        if soon:
            self.stdout.write(f"Claude Code deletes {len(soon)} sessions within a week; they are imported now:")
            for path in soon[:SHOWN]:
                self.stdout.write(f"  {path}")

    def _print(self, report: SyncReport) -> None:
        total = report.imported.total
        kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(report.counts.items()))
        self.stdout.write(f"Files: {kinds or 'none'}.")
        self.stdout.write(
            f"{total('conversations')} conversations, {total('added')} messages new, {total('updated')} updated, "
            f"{total('hidden_keys')} keys hidden."
        )
        for file in report.imported.files:
            for line in (*file.errors, *file.warnings):
                self.stdout.write(f"{file.path}: {line}")
        for problem in report.problems:
            self.stdout.write(problem)
