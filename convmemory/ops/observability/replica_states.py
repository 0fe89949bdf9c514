"""Asks each replica of DATABASE_REPLICA_URLS for its position in the primary's log, for the doctor and the metrics."""

from collections.abc import Iterator
from dataclasses import dataclass

import psycopg
from django.db import connection

from convmemory.core.postgres import groups
from convmemory.core.sql import load_sql


@dataclass(frozen=True, slots=True)
class ReplicaState:
    """A replica's own report; `position` is None if it follows no primary."""

    name: str
    problem: str = ""
    position: int | None = None
    bypasses_row_security: bool = False


def replica_states() -> Iterator[ReplicaState]:
    """Connect to each replica in turn and yield its state."""
    for name in connection.settings_dict["REPLICAS"]:
        try:
            with psycopg.connect(**connection.replica_parameters(name)) as link:  # type: ignore[attr-defined]
                position = link.execute(load_sql("convmemory.core", "replica_position").encode()).fetchone()
                above = link.execute(
                    load_sql("convmemory.core", "bypasses_row_security").encode(), [groups.schemas()]
                ).fetchone()
        except psycopg.Error as error:
            yield ReplicaState(name, problem=str(error).partition("\n")[0])
        else:
            yield ReplicaState(name, position=position and position[0], bypasses_row_security=bool(above and above[0]))


def newest_position() -> int:
    """Return the position of the primary's log, in bytes since it began."""
    with connection.cursor() as cursor:
        cursor.execute(load_sql("convmemory.core", "owner_position"), {"owner": None})
        return int(cursor.fetchone()[0])
