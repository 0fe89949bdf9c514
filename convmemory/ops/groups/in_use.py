"""Checks whether other connections use the database, for work that needs it alone."""

import time
from collections.abc import Sequence

import psycopg
from psycopg import sql

from convmemory.core.errors import InvalidInput
from convmemory.core.sql import load_sql

LEAVING_S = 5.0


def refuse_while_in_use(link: psycopg.Connection, *, own: Sequence[int] = ()) -> None:
    """Wait a moment for connections that are ending; `own` are processes of this program. Raises: InvalidInput."""
    known = [link.info.backend_pid, *own]
    statement = sql.SQL(load_sql("convmemory.ops.groups", "connections_of_others"))
    deadline = time.monotonic() + LEAVING_S
    while (row := link.execute(statement, [known]).fetchone()) and row[0] and time.monotonic() < deadline:
        time.sleep(0.1)
        link.execute(load_sql("convmemory.ops.groups", "forget_activity").encode())
    if row and row[0]:
        raise InvalidInput(
            f"{row[0]} connections use the database: stop `manage.py up`, web processes and workers, and other "
            "commands, first."
        )
