"""Operations for migrations that bring databases of commit 7f45b3b to the tables of their app's `0001_initial`.

An app's `0001_initial` replaces all its migrations of before. Django runs it in a new database, notes it where all of
these are applied (from commit 7276cda7 on), and runs the upgrade where only some are. Upgrades change tables by SQL and
take the models from `0001_initial`, so that the models are written down once. See docs/adr/0080.
"""

from collections.abc import Sequence
from importlib.util import find_spec
from typing import Any

from django.core.management import CommandError
from django.db.migrations import CreateModel, Migration, RunPython, SeparateDatabaseAndState
from django.db.migrations.operations.base import Operation
from django.db.migrations.recorder import MigrationRecorder

MADE_BETWEEN = (
    "This database was made by a version between two that can be upgraded: {app}.{name} is applied, {last} is not. "
    "Run `manage.py migrate` of commit 7276cda7 first, then this one."
)


def upgrade(initial: type[Migration], *, last: str, operations: Sequence[Operation]) -> list[Operation]:
    """Return the operations, enclosed in a check that `last` was the newest migration and a note of all later ones.

    The note lets Django regard `initial` as applied. Raises: CommandError, in a database of a commit in between.
    """
    replaced = [
        (app, name)
        for app, name in initial.replaces
        if name > last and find_spec(f"{initial.__module__.rpartition('.')[0]}.{name}") is None
    ]

    def refuse_commits_between(apps: Any, schema_editor: Any) -> None:
        applied = MigrationRecorder(schema_editor.connection).applied_migrations()
        if found := [key for key in replaced if key in applied]:
            app, name = found[-1]
            raise CommandError(MADE_BETWEEN.format(app=app, name=name, last=initial.replaces[-1][1]))

    def note_replaced(apps: Any, schema_editor: Any) -> None:
        recorder = MigrationRecorder(schema_editor.connection)
        for app, name in replaced:
            recorder.record_applied(app, name)

    return [RunPython(refuse_commits_between), *operations, RunPython(note_replaced)]


def create_tables(initial: type[Migration], *models: str) -> list[CreateModel]:
    """Return the operations of `initial` that create the tables of these models."""
    found = [operation for operation in initial.operations if isinstance(operation, CreateModel)]
    return [operation for operation in found if operation.name in models]


def know_models(initial: type[Migration], *models: str) -> SeparateDatabaseAndState:
    """Return an operation that makes these models known to later ones: their tables are in the database."""
    return SeparateDatabaseAndState(state_operations=create_tables(initial, *models))
