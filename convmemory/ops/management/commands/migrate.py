"""`manage.py migrate`, also on a cluster: the shared tables first, then those of each group.

Each group records its own migrations, so that a killed run resumes.
"""

from contextlib import nullcontext
from typing import Any

from django.core.management.base import CommandError
from django.core.management.commands import migrate
from django.db import DEFAULT_DB_ALIAS
from django.db.utils import ProgrammingError

from convmemory.core import acting
from convmemory.core.postgres import groups
from convmemory.core.upgrading import refuse_other_database
from convmemory.ops.groups.schemas import (
    is_up_to_date,
    make_missing_views_over_all,
    without_views_over_all,
)


class Command(migrate.Command):
    def handle(self, *args: Any, **options: Any) -> None:
        refuse_other_database(options["database"])
        try:
            self._migrate_all(*args, **options)
        except ProgrammingError as error:
            if "permission denied to create extension" not in str(error):
                raise
            raise CommandError(
                "The database user may not create the extension pgvector. "
                "As a superuser run in this database: CREATE EXTENSION vector"
            ) from error

    def _migrate_all(self, *args: Any, **options: Any) -> None:
        numbers = groups.layout().groups if options["database"] == DEFAULT_DB_ALIAS else ()
        changes_nothing = options["plan"] or options["check_unapplied"]
        if not numbers:
            super().handle(*args, **options)
            return
        if is_up_to_date() and options["app_label"] is None:
            with acting.in_group(acting.NO_GROUP):
                super().handle(*args, **options)
            if not changes_nothing:
                make_missing_views_over_all()  # if a run was killed after the last migration
            return
        with nullcontext() if changes_nothing else without_views_over_all():
            with acting.in_group(acting.NO_GROUP):
                super().handle(*args, **options)
            for number in numbers:
                if options["verbosity"] >= 1:
                    self.stdout.write(self.style.MIGRATE_HEADING(f"Group {number}:"))
                with acting.in_group(number):
                    super().handle(*args, **options)
