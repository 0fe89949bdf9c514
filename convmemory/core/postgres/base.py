"""Django's PostgreSQL backend, which also runs the embedded server when `EMBEDDED_PATH` is set.

The first connection of a process joins the server (`convmemory.core.embedded`) and talks to its socket.
A database that cannot be reached raises `DatabaseUnreachable`, which says what to do. Pools of
connections are left behind in a forked child, which must not talk over its parent's sockets.
"""

import os
from multiprocessing.util import Finalize
from pathlib import Path
from typing import Any, ClassVar

import psycopg
from django.db import connections
from django.db.backends.base.validation import BaseDatabaseValidation
from django.db.backends.postgresql import base
from django.db.backends.postgresql.client import DatabaseClient
from django.db.utils import OperationalError

from convmemory.core import background, embedded
from convmemory.core.errors import DatabaseUnavailable
from convmemory.core.postgres import server
from convmemory.core.postgres.client import EmbeddedDatabaseClient
from convmemory.core.postgres.validation import DatabaseValidation

CONNECT_TIMEOUT_S = 10
CLOSE_POOLS_PRIORITY = embedded.LEAVE_PRIORITY + 5  # before the server is given up


class DatabaseUnreachable(DatabaseUnavailable, OperationalError):
    """The database did not accept a connection; the message says why and what to do."""


class DatabaseWrapper(base.DatabaseWrapper):
    """A connection to the embedded server or to the one that DATABASE_URL names."""

    client_class: type[DatabaseClient] = EmbeddedDatabaseClient
    validation_class: type[BaseDatabaseValidation] = DatabaseValidation
    _connection_pools: ClassVar[dict[str, Any]]  # one per alias, shared by the wrappers of all threads

    @property
    def embedded_path(self) -> Path | None:
        path = self.settings_dict.get("EMBEDDED_PATH")
        return Path(path) if path else None

    def get_connection_params(self) -> dict[str, Any]:
        params = super().get_connection_params()
        if self.embedded_path:
            params.update(host=str(self._join(self.embedded_path)), port=server.PORT)
        params.setdefault("connect_timeout", CONNECT_TIMEOUT_S)
        return params

    def _join(self, folder: Path) -> Path:
        try:
            return embedded.join(folder, self.settings_dict.get("EMBEDDED_OPTIONS"))
        except DatabaseUnavailable as error:
            raise DatabaseUnreachable(str(error)) from error

    def get_new_connection(self, conn_params: dict[str, Any]) -> Any:
        try:
            if self.pool and self.pool.closed:
                self._probe(conn_params)
                Finalize(None, close_pools, exitpriority=CLOSE_POOLS_PRIORITY)
            connection = super().get_new_connection(conn_params)
        except psycopg.OperationalError as error:
            connection = self._connect_again(conn_params, error)
        if self.embedded_path and background.is_background():
            background.push_back(connection.info.backend_pid)
        return connection

    def _probe(self, conn_params: dict[str, Any]) -> None:
        """Fails at once and with the reason, where a pool would keep trying and then say `timeout`."""
        psycopg.connect(**conn_params).close()

    def _connect_again(self, conn_params: dict[str, Any], error: psycopg.OperationalError) -> Any:
        """A second try after the embedded server was found dead and started again; else the clear message."""
        try:
            if self.embedded_path and embedded.revive(self.embedded_path, self.settings_dict.get("EMBEDDED_OPTIONS")):
                return super().get_new_connection(conn_params)
            self._probe(conn_params)
        except psycopg.OperationalError as reason:
            raise DatabaseUnreachable(unreachable_message(conn_params, reason)) from reason
        raise error  # it does answer: all connections of the pool were in use


def unreachable_message(conn_params: dict[str, Any], reason: psycopg.OperationalError) -> str:
    place = f"{conn_params.get('host', 'localhost')}:{conn_params.get('port', 5432)}/{conn_params.get('dbname', '')}"
    return (
        f"The database at {place} does not accept a connection: {str(reason).partition(chr(10))[0]}. "
        "Check DATABASE_URL (or leave it empty for the embedded PostgreSQL) and that the server runs."
    )


def close_pools() -> None:
    """Closes every pool of this process; the next query opens a new one."""
    pools = DatabaseWrapper._connection_pools
    while pools:
        pools.popitem()[1].close()


_inherited: list[object] = []


def _leave_pools_to_the_parent() -> None:
    pools = DatabaseWrapper._connection_pools
    _inherited.extend(pools.values())  # kept: collecting a pool would wait for threads that a child does not have
    pools.clear()
    for wrapper in connections.all(initialized_only=True):
        if hasattr(wrapper.connection, "_pool"):
            _inherited.append(wrapper.connection)
            wrapper.connection = None


os.register_at_fork(after_in_child=_leave_pools_to_the_parent)
