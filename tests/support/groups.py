"""Copies of the test's database, whose owners may be spread over groups."""

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from typing import Any

import psycopg
import pytest
from django.db import connection, connections
from psycopg import sql

from convmemory.core.acting import schema_owner
from convmemory.ops.groups.distributing import distribute
from convmemory.ops.groups.migrating import without_tables_over_all

GROUPS = 8
_numbers = count(1)


@contextmanager
def database_copy(source: str = "") -> Iterator[str]:
    """The name of a copy of a database, by default of the one in use; it is gone behind the block."""
    place = _administration()
    source = source or connection.settings_dict["NAME"]
    _, _, process = source.rpartition("_")  # by which the copies that a killed run leaves are known
    copy = f"test_copy_{next(_numbers)}_{process}"
    dropping = sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(copy))
    with psycopg.connect(**place) as admin:
        admin.execute(dropping)
        admin.execute(sql.SQL("CREATE DATABASE {} TEMPLATE {}").format(sql.Identifier(copy), sql.Identifier(source)))
    try:
        yield copy
    finally:
        connections.close_all()
        with psycopg.connect(**place) as admin:
            admin.execute(dropping)


@contextmanager
def database_in_use(name: str) -> Iterator[None]:
    """In the block everything goes to the database of that name."""
    values = connection.settings_dict
    before = values["NAME"]
    connections.close_all()
    values["NAME"] = name
    try:
        yield
    finally:
        connections.close_all()
        values["NAME"] = before


@contextmanager
def spread_database(groups: int = GROUPS) -> Iterator[None]:
    """In the block everything goes to a copy with that many groups, which is gone behind it."""
    with database_copy() as name, database_in_use(name):
        distribute(groups=groups)
        yield


def as_coordinator() -> None:
    """From now on the database looks as if the groups, which stay where they are, lay on nodes."""
    with schema_owner(), connection.cursor() as cursor:
        cursor.execute("SET allow_system_table_mods = on")
        cursor.execute("CREATE TABLE pg_catalog.pg_dist_schema (schemaid oid)")
    connections.close_all()
    with without_tables_over_all():
        pass
    connections.close_all()


class Statements(list[str]):
    """What goes to the server beside the statements of cursors, and whether a transaction is open then."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        super().__init__()
        connection.ensure_connection()
        execute = connection.connection.execute

        def noting(statement: str, *args: Any) -> Any:
            self.append(f"{statement} {'alone' if connection.connection.autocommit else 'in a transaction'}")
            return execute(statement, *args)

        monkeypatch.setattr(connection.connection, "execute", noting)


def _administration() -> dict[str, Any]:
    """How the server's own database is reached, while nothing is connected to another."""
    connection.ensure_connection()
    place = {**connection.get_connection_params(), "dbname": "postgres", "autocommit": True}
    connections.close_all()
    return place
