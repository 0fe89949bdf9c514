"""Connections for work on the schemas themselves, and whether others use the database."""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import psycopg
from django.db import connection, connections
from psycopg import sql

from convmemory.core.acting import schema_owner
from convmemory.core.errors import InvalidInput
from convmemory.core.postgres.base import close_pools
from convmemory.core.program import COMMAND
from convmemory.core.sql import load_sql

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


LEAVING_S = 5.0


def refuse_while_in_use(link: psycopg.Connection, *, backend_pids: Sequence[int] = ()) -> None:
    """Wait a moment for connections that are ending; `backend_pids` are those of this program. Raises: InvalidInput."""
    ours = [link.info.backend_pid, *backend_pids]
    statement = sql.SQL(load_sql("convmemory.ops.groups", "connections_of_others"))
    deadline = time.monotonic() + LEAVING_S
    while (row := link.execute(statement, [ours]).fetchone()) and row[0] and time.monotonic() < deadline:
        time.sleep(0.1)
        link.execute(load_sql("convmemory.ops.groups", "forget_activity").encode())
    if row and row[0]:
        raise InvalidInput(
            f"{row[0]} connections use the database: stop `{COMMAND} up`, web processes and workers, and other "
            "commands, first."
        )
