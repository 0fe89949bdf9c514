"""Read replicas: chooses the server for a use case that only reads.

`may_use_replica` marks such a use case. It runs on the most advanced replica that has its owner's last write, and runs
again on the primary if that fails. The connection follows the choice (`core/postgres/base.py`), whatever the statement.
After each write of a person, the position of the log is recorded in a row that every process sees. Reasons:
docs/adr/0067-read-replicas.md.
"""

import logging
import random
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from functools import wraps
from threading import Lock
from time import monotonic
from typing import Any, ParamSpec, TypeVar

import psycopg
from django.db import Error, connection

from convmemory.core import acting
from convmemory.core.config import config
from convmemory.core.sql import load_sql

CHECKED_EVERY_S = 1.0
ASKED_AGAIN_S = 0.02  # if the known position is too old for the caller
CONNECT_TIMEOUT_S = 2
POOL_PATIENCE_S = 0.5  # for a connection; after it the primary answers
NEARLY_AS_FAR = 64 * 1024
"""Bytes of the log by which the replicas that share the reads may differ."""
NOT_ITS_FAULT = frozenset({"25006", "40001"})
"""SQLSTATEs: a write on a read-only server; a conflict with rows that the log removed."""

P = ParamSpec("P")
T = TypeVar("T")

logger = logging.getLogger(__name__)

_in_use: ContextVar[str | None] = ContextVar("replica", default=None)  # "" is the primary, None no choice yet


def replica_in_use() -> str:
    """Return the name of the replica that answers in this context, "" for the primary."""
    return _in_use.get() or ""


class Replica:
    """The last known position of one replica. Thread-safe."""

    def __init__(self, parameters: Mapping[str, Any]) -> None:
        self._parameters = {**parameters, "connect_timeout": CONNECT_TIMEOUT_S, "autocommit": True}
        self._lock = Lock()
        self._position: int | None = None
        self._asked_at = float("-inf")

    def position(self, *, at_least: int) -> int | None:
        """Return the replica's position, in bytes of the log; None if it does not answer or no longer follows its
        primary.

        A position that is large enough may be a second old. While one thread queries the replica, others use the last
        answer.
        """
        is_short = self._position is not None and self._position < at_least
        is_old = monotonic() - self._asked_at > (ASKED_AGAIN_S if is_short else CHECKED_EVERY_S)
        if is_old and self._lock.acquire(blocking=False):
            try:
                self._position = self._ask()
                self._asked_at = monotonic()
            finally:
                self._lock.release()
        return self._position

    def doubt(self) -> None:
        """Exclude a replica that failed until its position has been queried again."""
        self._position, self._asked_at = None, monotonic()

    def _ask(self) -> int | None:
        try:
            with psycopg.connect(**self._parameters) as link:
                row = link.execute(load_sql("convmemory.core", "replica_position").encode()).fetchone()
        except psycopg.Error as error:
            if self._position is not None:
                logger.warning("A replica does not answer: %s", str(error).partition("\n")[0])
            return None
        return None if row is None or row[0] is None else int(row[0])


_replicas: dict[str, Replica] = {}


def replica_named(name: str) -> Replica:
    """Return this process's record of the replica with that name."""
    if name not in _replicas:
        _replicas.setdefault(name, Replica(connection.replica_parameters(name)))  # type: ignore[attr-defined]
    return _replicas[name]


def may_use_replica(function: Callable[P, T]) -> Callable[P, T]:
    """Decorate a use case that only reads rows of its caller, and may run twice."""

    @wraps(function)
    def run(*args: P.args, **kwargs: P.kwargs) -> T:
        if not (name := _replica_for_caller()):
            return function(*args, **kwargs)
        try:
            with _reading_from(name):
                return function(*args, **kwargs)
        except (Error, psycopg.Error) as error:
            cause = error if isinstance(error, psycopg.Error) else error.__cause__
            if (cause.sqlstate if isinstance(cause, psycopg.Error) else None) not in NOT_ITS_FAULT:
                replica_named(name).doubt()
                logger.warning("The replica %s failed, the primary answers: %s", name, type(error).__name__)
        with _reading_from(""):
            return function(*args, **kwargs)

    return run


@contextmanager
def _reading_from(name: str) -> Iterator[None]:
    token = _in_use.set(name)
    try:
        yield
    finally:
        _in_use.reset(token)


def _replica_for_caller() -> str:
    """Return the name of a replica, or "" for the primary.

    It is the primary in a transaction, for work on behalf of no one person, and inside a use case that has chosen
    already.
    """
    who, names = acting.current(), connection.settings_dict.get("REPLICAS")
    if not names or _in_use.get() is not None or who.owner_id is None or connection.in_atomic_block:
        return ""
    return _furthest(names, who.owner_id)


def _furthest(names: Mapping[str, Any], owner_id: int) -> str:
    with connection.cursor() as cursor:
        cursor.execute(load_sql("convmemory.core", "owner_position"), {"owner": owner_id})
        newest, written = cursor.fetchone()
    needed = max(written, newest - config.database_replica_max_lag_mb * 1024**2)
    found = {name: replica_named(name).position(at_least=needed) for name in names}
    usable = {name: position for name, position in found.items() if position is not None and position >= needed}
    first = max(usable.values(), default=0)
    return random.choice([name for name, place in usable.items() if place >= first - NEARLY_AS_FAR] or [""])  # noqa: S311
