"""Copies of a whole database on its own server, for tests that must not change the original.

No other connection may use a database while it is copied. The log-in that owns the tables makes the copies: it has to
be a superuser, as on the embedded server, or to have the right CREATEDB.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
from django.db import connection, connections
from psycopg import sql

from convmemory.core.acting import schema_owner
from convmemory.core.postgres.base import close_pools
from search.postings import cached as postings
from search.vectors import blocks


@contextmanager
def database_copy(*, name: str, source: str = "") -> Iterator[None]:
    """Create a copy, `name`, of `source` for the block, by default of the database in use; replace a leftover one."""
    with schema_owner():
        connection.ensure_connection()
        place = {**connection.get_connection_params(), "dbname": "postgres", "autocommit": True}
    _disconnect()
    copying = sql.SQL("CREATE DATABASE {} TEMPLATE {}").format(
        sql.Identifier(name), sql.Identifier(source or connection.settings_dict["NAME"])
    )
    dropping = sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name))
    with psycopg.connect(**place) as admin:
        admin.execute(dropping)
        admin.execute(copying)
    try:
        yield
    finally:
        _disconnect()
        with psycopg.connect(**place) as admin:
            admin.execute(dropping)


@contextmanager
def database_in_use(name: str) -> Iterator[None]:
    """Direct all work in the block to the database of that name."""
    values = connection.settings_dict
    before = values["NAME"]
    _disconnect()
    values["NAME"] = name
    try:
        yield
    finally:
        _disconnect()
        values["NAME"] = before


def _disconnect() -> None:
    connections.close_all()
    close_pools()
    for cache in (blocks.CACHE, postings.CACHE):
        cache._entries.clear()  # another database has other rows under the same numbers
