"""Creates the schema of a group: tables like the existing ones, with their indexes, keys, policies and rights.

The tables are created from the catalogue, not by migrations, so that a group equals the others exactly; from then on
migrations change each group, see `manage.py migrate`. See docs/adr/0073-migrate-shared-tables-then-groups.md.
"""

from collections.abc import Callable, Mapping, Sequence

import psycopg
from psycopg import sql

from convmemory.core.sql import load_sql

MIGRATIONS = "django_migrations"
LAST_BEFORE_ROWS = 2  # of the steps of `table_definitions`
ROW_SECURITY = ("apply_policies", "grant_rights")

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
    _copy_migrations(link, schema=schema, source=source)
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


def make_tables_over_all(link: Link) -> None:
    """Create missing tables that represent those of all groups, and grant the rights to use them."""
    for step in ("make_tables_over_all", "grant_over_all"):
        run(link, load_sql("convmemory.core", step))


def _copy_migrations(link: Link, *, schema: str, source: str) -> None:
    target, origin = sql.Identifier(schema, MIGRATIONS), sql.Identifier(source, MIGRATIONS)
    link.execute(sql.SQL("CREATE TABLE {} (LIKE {} INCLUDING ALL)").format(target, origin))
    copying = sql.SQL(load_sql("convmemory.ops.groups", "copy_migrations"))
    link.execute(copying.format(target=target, source=origin))
