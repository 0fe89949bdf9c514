"""Copies of the test's database, whose owners may be spread over groups."""

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from typing import Any

import psycopg
from django.db import connection, connections
from psycopg import sql

from convmemory.ops.groups.distributing import distribute

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


def _administration() -> dict[str, Any]:
    """How the server's own database is reached, while nothing is connected to another."""
    connection.ensure_connection()
    place = {**connection.get_connection_params(), "dbname": "postgres", "autocommit": True}
    connections.close_all()
    return place
