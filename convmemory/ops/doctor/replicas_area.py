"""The read replicas of DATABASE_REPLICA_URLS: whether each answers, follows its primary, and applies the policies."""

from collections.abc import Iterator

from django.template.defaultfilters import filesizeformat

from convmemory.core.config import config
from convmemory.core.postgres import row_security
from convmemory.ops.doctor.findings import Area, Fact, Finding, Severity
from convmemory.ops.observability.replica_states import newest_position, replica_states


def facts() -> Iterator[Fact]:
    newest = newest_position()
    for state in replica_states():
        behind = "not following" if state.position is None else f"{_size(newest - state.position)} behind"
        yield state.name, state.problem or behind


def check_replicas() -> Iterator[Finding]:
    newest, most = newest_position(), config.database_replica_max_lag_mb * 1024**2
    for state in replica_states():
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


def _size(count: int) -> str:
    return filesizeformat(max(0, count)).replace("\xa0", " ")


AREA = Area("replicas", facts, (check_replicas,))
