"""Connections of the tables' owner that Django does not manage, for work on the schemas themselves."""

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
from django.db import connection, connections
from psycopg import sql

from convmemory.core.acting import schema_owner
from convmemory.core.postgres.pools import close_pools

LOCK_TIMEOUT = "30s"


@contextmanager
def own_link() -> Iterator[psycopg.Connection]:
    """Open a connection with autocommit and the server's search path; Django's connections are closed before."""
    with schema_owner():
        connection.ensure_connection()
        parameters = connection.get_connection_params()
    connections.close_all()
    close_pools()
    with psycopg.connect(**{**parameters, "autocommit": True}) as link:
        link.execute(sql.SQL("SET lock_timeout = {}").format(sql.Literal(LOCK_TIMEOUT)))
        yield link
