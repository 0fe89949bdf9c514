"""Copies of the test's database, whose owners may be spread over groups as on a cluster.

A copy that stands for a coordinator has what this program asks Citus for; the groups stay in it as ordinary schemas.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from typing import Any

import pytest
from django.db import connection, connections
from django.test import TransactionTestCase

from convmemory.core.acting import schema_owner
from convmemory.ops.groups import links
from convmemory.ops.groups.distributing import distribute
from tests.support import copies
from tests.support.copies import database_in_use

GROUPS = 8
LIKE_CITUS = (
    "SET allow_system_table_mods = on",
    "CREATE TABLE pg_catalog.pg_dist_schema (schemaid oid)",
    """
    CREATE TABLE pg_catalog.pg_dist_object AS
    SELECT 'pg_ts_config'::regclass::oid AS classid, oid AS objid FROM pg_ts_config
    """,
    """
    CREATE FUNCTION pg_catalog.run_command_on_workers(command text)
    RETURNS TABLE (nodename text, nodeport int, success bool, result text) LANGUAGE sql
    AS 'SELECT NULL::text, NULL::int, NULL::bool, NULL::text WHERE false'
    """,
    """
    CREATE FUNCTION pg_catalog.run_command_on_placements(place regclass, command text)
    RETURNS TABLE (nodename text, nodeport int, success bool, result text) LANGUAGE plpgsql AS $body$
    BEGIN
        EXECUTE format(command, place) INTO result;
        RETURN QUERY
        SELECT 'node', 5432, true, result
        FROM pg_dist_schema AS d INNER JOIN pg_class AS c ON c.relnamespace = d.schemaid
        WHERE c.oid = place;
    END
    $body$
    """,
    """
    CREATE FUNCTION pg_catalog.citus_schema_distribute(place regnamespace) RETURNS void LANGUAGE sql
    AS 'INSERT INTO pg_catalog.pg_dist_schema VALUES (place)'
    """,
    """
    CREATE FUNCTION pg_catalog.truncate_local_data_after_distributing_table(place regclass) RETURNS void LANGUAGE sql
    AS 'SELECT'
    """,
)
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
            make_coordinator()
            distribute(groups=groups)
        yield


@contextmanager
def copies_alone() -> Iterator[None]:
    """For tests that work in copies alone: no table is emptied behind them, because each copy goes as a whole."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(TransactionTestCase, "_fixture_teardown", lambda self: None)
        patch.setattr(links, "LEAVING_S", LEAVING_S)
        yield


def make_coordinator() -> None:
    """Let the database in use look like the coordinator of a Citus cluster, whose nodes take everything."""
    with schema_owner(), connection.cursor() as cursor:
        for statement in LIKE_CITUS:
            cursor.execute(statement)
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
