"""What changes of tables need where owners are spread over groups: see `manage.py migrate`."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from django.db import connection, transaction
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.recorder import MigrationRecorder

from convmemory.core import acting, groups
from convmemory.core.sql import load_sql


def is_up_to_date() -> bool:
    """Whether the shared tables and every group have seen all migrations."""
    loader = MigrationLoader(connection, ignore_no_migrations=True)
    wanted = set(loader.disk_migrations or ())
    return not any(wanted - applied for applied in _applied(groups.layout().groups))


def groups_behind(numbers: Sequence[int]) -> list[int]:
    """Those of these groups that have not seen every migration which the shared tables have seen."""
    shared, *others = _applied(numbers)
    return [number for number, seen in zip(numbers, others, strict=True) if shared - seen]


@contextmanager
def without_tables_over_all() -> Iterator[None]:
    """The tables over all groups are gone in the block, and made anew behind it: they bind the groups' columns.

    Killed in between they are missing, upon which whatever asks for them fails, and the next run makes them.
    """
    _run("drop_tables_over_all")
    yield
    make_missing_tables_over_all()


def make_missing_tables_over_all() -> None:
    """Tables over all groups that are there stay as they are."""
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
