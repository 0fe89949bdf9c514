"""The read replicas of DATABASE_REPLICA_URLS: whether each answers, follows its primary, and applies the policies."""

from collections.abc import Iterator
from dataclasses import dataclass

import psycopg
from django.db import connection
from django.template.defaultfilters import filesizeformat

from convmemory.core.config import config
from convmemory.core.postgres import groups, row_security
from convmemory.core.sql import load_sql
from convmemory.ops.doctor.findings import Area, Fact, Finding, Severity


@dataclass(frozen=True, slots=True)
class ReplicaState:
    """A replica's own report; `position` is None if it follows no primary."""

    name: str
    problem: str = ""
    position: int | None = None
    bypasses_row_security: bool = False


def facts() -> Iterator[Fact]:
    newest = _newest_position()
    for state in _states():
        behind = "not following" if state.position is None else f"{_size(newest - state.position)} behind"
        yield state.name, state.problem or behind


def check_replicas() -> Iterator[Finding]:
    newest, most = _newest_position(), config.database_replica_max_lag_mb * 1024**2
    for state in _states():
        if state.problem:
            yield Finding(
                "replicas.unreachable",
                Severity.WARNING,
                f"The replica {state.name} does not answer, so the primary serves all reads: {state.problem}",
                "Start it, or remove it from DATABASE_REPLICA_URLS.",
            )
        elif state.position is None:
            yield Finding(
                "replicas.not-following",
                Severity.WARNING,
                f"{state.name} of DATABASE_REPLICA_URLS is not a replica, or receives no log, and is not read from.",
                "Check its primary_conninfo and its log; docs/scaling.md has the commands that create a replica.",
            )
        elif newest - state.position > most:
            yield Finding(
                "replicas.lagging",
                Severity.WARNING,
                f"The replica {state.name} is {_size(newest - state.position)} behind and is not read from.",
                "Give it a faster disk or less load, or raise DATABASE_REPLICA_MAX_LAG_MB.",
            )
        if state.bypasses_row_security and row_security.has_own_logins():
            yield Finding(
                "replicas.login-bypasses-row-security",
                Severity.ERROR,
                f"The address of the replica {state.name} logs in as somebody whom no policy holds.",
                "Leave the user out of it, or use the role convmemory_app.",
            )


def _states() -> Iterator[ReplicaState]:
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


def _newest_position() -> int:
    with connection.cursor() as cursor:
        cursor.execute(load_sql("convmemory.core", "owner_position"), {"owner": None})
        return int(cursor.fetchone()[0])


def _size(count: int) -> str:
    return filesizeformat(max(0, count)).replace("\xa0", " ")


AREA = Area("replicas", facts, (check_replicas,))
