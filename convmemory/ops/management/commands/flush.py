"""`manage.py flush`, which asks on a terminal or not at all, and is refused on a cluster.

It empties the shared tables alone: it would leave all owners' rows on the nodes, and new accounts, which are numbered
from 1 again, would own them.
"""

import sys
from typing import Any

from django.core.management.base import CommandError
from django.core.management.commands import flush
from django.db import DEFAULT_DB_ALIAS, connections

from convmemory.core.postgres import groups
from convmemory.core.program import COMMAND
from convmemory.ops.privacy.restoring import rows_of_people


class Command(flush.Command):
    def handle(self, **options: Any) -> None:
        if options["database"] == DEFAULT_DB_ALIAS and groups.layout().groups:
            raise CommandError(
                "Owners are spread over nodes, whose tables this does not empty. Nothing was changed. To begin anew, "
                f"create another database and run `{COMMAND} migrate` there; `{COMMAND} erase_user` deletes one person."
            )
        if options["interactive"]:
            with connections[options["database"]].cursor() as cursor:
                for table, count in rows_of_people(cursor).items():
                    self.stderr.write(f"{table:<40} {count:>10} rows")
            if not sys.stdin.isatty():
                raise CommandError(
                    "Nothing was deleted. There is no terminal to ask on: --noinput empties all tables without asking."
                )
        super().handle(**options)
