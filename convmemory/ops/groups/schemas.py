"""Makes the schema of a group, and changes the tables of all groups.

The tables are created from the catalogue, not by migrations, so that a group equals the others exactly; from then on
migrations change each group, see `manage.py migrate`. See docs/adr/0072-owner-group-per-citus-node.md.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

import psycopg
from django.db import connection, transaction
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.recorder import MigrationRecorder
from psycopg import sql

from convmemory.core import acting
from convmemory.core.postgres import groups
from convmemory.core.sql import load_sql

MIGRATIONS = "django_migrations"
LAST_BEFORE_ROWS = 2  # of the steps of `table_definitions`
ROW_SECURITY = ("apply_policies", "grant_rights")
OVER_ALL = ("make_views_over_all", "grant_over_all")

Link = psycopg.Connection


def run(link: Link, statement: str, values: Sequence[object] | Mapping[str, object] | None = None) -> None:
    link.execute(statement.encode(), values)


def make_group(
    link: Link, *, schema: str, tables: Sequence[str], source: str, home_path: str, fill: Callable[[], None]
) -> None:
    """Create `schema` with tables like those in the schema `source`; `fill` copies rows before there are indexes.

    Call it inside a transaction of `link`, whose search path is another afterwards.
    """
    identifier = sql.Identifier(schema)
    link.execute(sql.SQL("CREATE SCHEMA {}").format(identifier))
    choose_path(link, f'"{source}", {home_path}')
    parameters = {"tables": list(tables)}
    steps = link.execute(load_sql("convmemory.ops.groups", "table_definitions").encode(), parameters).fetchall()
    choose_path(link, f'"{schema}", {home_path}')
    for step, statement in steps:
        if step <= LAST_BEFORE_ROWS:
            run(link, statement)
    fill()
    for step, statement in steps:
        if step > LAST_BEFORE_ROWS:
            run(link, statement)
    target, origin = sql.Identifier(schema, MIGRATIONS), sql.Identifier(source, MIGRATIONS)
    link.execute(sql.SQL("CREATE TABLE {} (LIKE {} INCLUDING ALL)").format(target, origin))
    copying = sql.SQL(load_sql("convmemory.ops.groups", "copy_migrations"))
    link.execute(copying.format(target=target, source=origin))
    for step in ROW_SECURITY:
        run(link, load_sql("convmemory.core", step))
    run(link, "SET CONSTRAINTS ALL IMMEDIATE")
    for table in tables:
        link.execute(sql.SQL("ANALYZE {}").format(sql.Identifier(schema, table)))


def choose_path(link: Link, path: str) -> None:
    run(link, load_sql("convmemory.core", "choose_path"), [path])


def columns_of(link: Link, table: str) -> sql.Composed:
    """The columns of a table on the search path, as they are listed in statements."""
    rows = link.execute(load_sql("convmemory.ops.groups", "stored_columns").encode(), [table]).fetchall()
    return sql.SQL(", ").join(sql.Identifier(name) for (name,) in rows)


def make_views_over_all(link: Link) -> None:
    """Create missing views that read the rows of all groups, and grant the right to use them."""
    for step in OVER_ALL:
        run(link, load_sql("convmemory.core.postgres", step))


def is_up_to_date() -> bool:
    """Return whether the shared tables and all groups have all migrations."""
    loader = MigrationLoader(connection, ignore_no_migrations=True)
    migrations = set(loader.disk_migrations or ())
    return not any(migrations - applied for applied in _applied(groups.layout().groups))


def groups_behind(numbers: Sequence[int]) -> list[int]:
    """Return those of these groups that lack a migration which the shared tables have."""
    shared, *others = _applied(numbers)
    return [number for number, seen in zip(numbers, others, strict=True) if shared - seen]


@contextmanager
def without_views_over_all() -> Iterator[None]:
    """Drop the views over all groups for the block, and recreate them afterwards: they depend on the groups' columns.

    If the run is killed in between they are missing: work that needs them fails, and the next run creates them.
    """
    _run("drop_views_over_all")
    yield
    make_missing_views_over_all()


def make_missing_views_over_all() -> None:
    """Create missing views over all groups; existing ones stay as they are."""
    with transaction.atomic():
        for step in OVER_ALL:
            _run(step)


def _applied(numbers: Sequence[int]) -> list[set[tuple[str, str]]]:
    applied = []
    for number in (acting.NO_GROUP, *numbers):
        with acting.in_group(number):
            applied.append(set(MigrationRecorder(connection).applied_migrations()))
    return applied


def _run(step: str) -> None:
    with acting.in_group(acting.NO_GROUP), acting.schema_owner(), connection.cursor() as cursor:
        cursor.execute(load_sql("convmemory.core.postgres", step))
