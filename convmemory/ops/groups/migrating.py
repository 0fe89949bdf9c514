"""Helps `manage.py migrate` change the tables of several groups of owners."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from django.db import connection, transaction
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.recorder import MigrationRecorder

from convmemory.core import acting, groups
from convmemory.core.sql import load_sql


def is_up_to_date() -> bool:
    """Return whether the shared tables and all groups have all migrations."""
    loader = MigrationLoader(connection, ignore_no_migrations=True)
    wanted = set(loader.disk_migrations or ())
    return not any(wanted - applied for applied in _applied(groups.layout().groups))


def groups_behind(numbers: Sequence[int]) -> list[int]:
    """Return those of these groups that lack a migration which the shared tables have."""
    shared, *others = _applied(numbers)
    return [number for number, seen in zip(numbers, others, strict=True) if shared - seen]


@contextmanager
def without_tables_over_all() -> Iterator[None]:
    """Drop the tables over all groups for the block, and recreate them afterwards: they depend on the groups' columns.

    If the run is killed in between they are missing: work that needs them fails, and the next run creates them.
    """
    _run("drop_tables_over_all")
    yield
    make_missing_tables_over_all()


def make_missing_tables_over_all() -> None:
    """Create missing tables over all groups; existing ones stay as they are."""
    with transaction.atomic():
        for step in ("share_sequences", "make_tables_over_all", "grant_over_all"):
            _run(step)


def _applied(numbers: Sequence[int]) -> list[set[tuple[str, str]]]:
    found = []
    for number in (acting.NO_GROUP, *numbers):
        with acting.in_group(number):
            found.append(set(MigrationRecorder(connection).applied_migrations()))
    return found


def _run(step: str) -> None:
    with acting.in_group(acting.NO_GROUP), acting.schema_owner(), connection.cursor() as cursor:
        cursor.execute(load_sql("convmemory.core", step))
