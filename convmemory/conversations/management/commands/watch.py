"""`manage.py watch --user U`: run `sync` whenever an agent writes, until Ctrl-C.

Checks every few seconds for folders that disappear or that an agent creates later.
"""

import threading
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import CommandError

from convmemory.accounts.callers import Caller, acting_as
from convmemory.accounts.users import user_named
from convmemory.conversations.importing.syncing import SyncReport, has_synced
from convmemory.conversations.importing.watching import watch_stores
from convmemory.core.commands import ArchiveCommand
from convmemory.core.program import COMMAND
from convmemory.push.account import Account
from convmemory.push.rules import Rules
from convmemory.push.stores import known_stores


class Command(ArchiveCommand):
    help = "Keep the conversations of this machine's coding agents current, until Ctrl-C."
    usages = ("--user [--home] [--yes]",)

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--user", required=True, help="the user who will own the conversations")
        parser.add_argument(
            "--home", type=Path, default=Path.home(), help="home folder of the agents' user (default: your own)"
        )
        parser.add_argument("--yes", action="store_true", help="start even if `sync` has never run")

    def handle(self, *args: Any, **options: Any) -> None:
        caller = Caller.of(user_named(options["user"]))
        if not has_synced(caller) and not options["yes"]:
            raise CommandError(f"Nothing was imported before: run `{COMMAND} sync` first, which says what there is.")
        account = Account(options["home"])
        stop = Rules.of(account).stop
        self.stdout.write(f"Watching; Ctrl-C ends it.{f' Nothing is imported now: {stop}.' if stop else ''}")
        stores = known_stores(home=options["home"])
        with acting_as(caller):
            watch_stores(
                caller=caller, stores=stores, stop=threading.Event(), on_synced=self._print,
                rules=lambda: Rules.of(account),
            )  # fmt: skip

    def _print(self, report: SyncReport) -> None:
        added, updated = report.imported.total("added"), report.imported.total("updated")
        if added or updated:
            self.stdout.write(f"{added} messages new, {updated} updated")
        for file in report.imported.files:
            for error in file.errors:
                self.stderr.write(f"{file.path}: {error}")
        for problem in report.problems:
            self.stderr.write(problem)
