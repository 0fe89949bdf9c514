"""`manage.py flush`, refused on a cluster.

It empties the shared tables alone: it would leave all owners' rows on the nodes, and new accounts, which are numbered
from 1 again, would own them.
"""

from typing import Any

from django.core.management.base import CommandError
from django.core.management.commands import flush
from django.db import DEFAULT_DB_ALIAS

from convmemory.core.postgres import groups


class Command(flush.Command):
    def handle(self, **options: Any) -> None:
        if options["database"] == DEFAULT_DB_ALIAS and groups.layout().groups:
            raise CommandError(
                "Owners are spread over nodes, whose tables this does not empty. Nothing was changed. To begin anew, "
                "create another database and run `manage.py migrate` there; `manage.py erase_user` deletes one person."
            )
        super().handle(**options)
