"""Copies of the test's database, whose owners may be spread over groups."""

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from typing import Any

import pytest
from django.db import connection, connections
from django.test import TransactionTestCase

from benchmarks import copies
from benchmarks.copies import database_in_use
from convmemory.core.acting import schema_owner
from convmemory.ops.groups import links
from convmemory.ops.groups.distributing import distribute
from convmemory.ops.groups.schemas import without_tables_over_all

GROUPS = 8
LEAVING_S = 60.0  # on a busy machine a connection that was closed may end late
_numbers = count(1)


@contextmanager
def database_copy(source: str = "") -> Iterator[str]:
    """The name of a copy of a database, by default of the one in use; it is gone behind the block."""
    source = source or connection.settings_dict["NAME"]
    _, _, process = source.rpartition("_")  # by which the copies that a killed run leaves are known
    name = f"test_copy_{next(_numbers)}_{process}"
    with copies.database_copy(name=name, source=source):
        yield name


@contextmanager
def spread_database(groups: int = GROUPS) -> Iterator[None]:
    """In the block everything goes to a copy with that many groups, which is gone behind it."""
    with database_copy() as name, database_in_use(name):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(links, "LEAVING_S", LEAVING_S)
            distribute(groups=groups)
        yield


@contextmanager
def copies_alone() -> Iterator[None]:
    """For tests that work in copies alone: no table is emptied behind them, because each copy goes as a whole."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(TransactionTestCase, "_fixture_teardown", lambda self: None)
        patch.setattr(links, "LEAVING_S", LEAVING_S)
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
    """The statements that are sent outside of cursors, each with whether a transaction is open."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        super().__init__()
        connection.ensure_connection()
        execute = connection.connection.execute

        def noting(statement: str, *args: Any) -> Any:
            self.append(f"{statement} {'alone' if connection.connection.autocommit else 'in a transaction'}")
            return execute(statement, *args)

        monkeypatch.setattr(connection.connection, "execute", noting)
