"""`manage.py flush`, refused if there are several groups of owners.

It empties the shared tables alone. Foreign keys from the groups' tables prevent that, but not if groups lie on nodes:
there it would leave all owners' rows, and new accounts, which are numbered from 1 again, would own them.
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
                "Owners are spread over groups, whose tables this does not empty. Nothing was changed. To begin anew, "
                "create another database and run `manage.py migrate` there; `manage.py erase_user` deletes one person."
            )
        super().handle(**options)
