"""Django's PostgreSQL backend, which also runs the embedded server when `EMBEDDED_PATH` is set.

The first connection of a process joins the server (`convmemory.core.postgres.embedded`) and uses its socket. A database
that cannot be reached raises `DatabaseUnreachable`, which says what to do.

Each connection obeys `core/acting.py`: it logs in as the part of the program that uses it, and sends the server the
owner, and the member of a space, before the first statement for them. A connection returned to its pool no longer
carries an owner. On a Citus cluster `grouped.py` adds the search path.
"""

import os
import time
from collections.abc import Iterable
from contextlib import nullcontext
from dataclasses import dataclass, replace
from multiprocessing.util import Finalize
from pathlib import Path
from typing import Any

import psycopg
from django.db import DEFAULT_DB_ALIAS, connections
from django.db.backends.base.base import NO_DB_ALIAS
from django.db.backends.base.validation import BaseDatabaseValidation
from django.db.backends.postgresql import base
from django.db.backends.postgresql.client import DatabaseClient
from psycopg.pq import TransactionStatus

from convmemory.core import acting
from convmemory.core.acting import Login
from convmemory.core.errors import DatabaseUnavailable
from convmemory.core.measuring import Measurement, report
from convmemory.core.postgres import configuration, embedded, logins, server
from convmemory.core.postgres.failures import (
    ChangedInTransaction,
    DatabaseUnreachable,
    named_as_they_are,
    unreachable_message,
)
from convmemory.core.postgres.grouped import GroupedConnection
from convmemory.core.postgres.layout import Layout, layout_of, note_layout
from convmemory.core.postgres.validation import DatabaseValidation
from convmemory.core.processes import child_limits

CLOSE_POOLS_PRIORITY = embedded.LEAVE_PRIORITY + 5  # before this process leaves the embedded server

POOLS: dict[Login, dict[str, Any]] = {}
"""The pools of this process by log-in and alias; a forked child abandons its parent's."""

CONNECT_TIMEOUT_S = 10
MEASURED_WAIT_S = 0.1  # for a connection; shorter waits are usual, and the thread that stores counts waits, too
NO_ROLE = "none"


class EmbeddedDatabaseClient(DatabaseClient):
    """Finds the embedded server's socket and `psql` for `manage.py dbshell`; Django handles an external database."""

    @classmethod
    def settings_to_cmd_args_env(
        cls, settings_dict: dict[str, Any], parameters: Iterable[str]
    ) -> tuple[list[str], dict[str, str] | None]:
        if not (folder := settings_dict.get("EMBEDDED_PATH")):
            return super().settings_to_cmd_args_env(settings_dict, parameters)
        socket_dir = embedded.join(Path(folder), settings_dict.get("EMBEDDED_OPTIONS"))
        address = {"HOST": str(socket_dir), "PORT": configuration.PORT}
        arguments, environment = super().settings_to_cmd_args_env({**settings_dict, **address}, parameters)
        return [str(server.binary("psql")), *arguments[1:]], environment


def close_pools() -> None:
    """Close every pool of this process; the next query opens a new one."""
    for pools in list(POOLS.values()):
        while pools:
            pools.popitem()[1].close()


_inherited: list[object] = []


def _leave_pools_to_the_parent() -> None:
    """Abandon the pools in a forked child, which must not use its parent's sockets."""
    for pools in list(POOLS.values()):
        _inherited.extend(pools.values())  # kept: collecting a pool would wait for threads that a child does not have
        pools.clear()
    for wrapper in connections.all(initialized_only=True):
        if hasattr(wrapper.connection, "_pool"):
            _inherited.append(wrapper.connection)
            wrapper.connection = None


os.register_at_fork(after_in_child=_leave_pools_to_the_parent)


def _identity_statement(archive_id: int | None, person_id: int | None = None) -> str:
    return f"SET convmemory.owner = '{archive_id or ''}'; SET convmemory.person = '{person_id or ''}'"


@dataclass(frozen=True, slots=True)
class _SessionState:
    """The role of a connection's session and the statement that set it up; None if it has to be sent again."""

    role: str = NO_ROLE
    settings: str | None = _identity_statement(None)


FRESH_SESSION = _SessionState()


class DatabaseWrapper(base.DatabaseWrapper):
    """A connection to the embedded server or to the one in DATABASE_URL.

    `LOGINS` in its settings holds the parameters of each log-in that differs from the default one, which owns the
    schema. With `ASSUME_ROLES` the default log-in assumes the role of each instead, for tests inside one shared
    transaction.
    """

    client_class: type[DatabaseClient] = EmbeddedDatabaseClient
    validation_class: type[BaseDatabaseValidation] = DatabaseValidation

    def __init__(self, settings_dict: dict[str, Any], alias: str = DEFAULT_DB_ALIAS) -> None:
        super().__init__(settings_dict, alias)
        self._login = Login.SCHEMA
        self._groups: GroupedConnection | None = None
        self._session: _SessionState | None = FRESH_SESSION  # None: a rollback may have changed it

    @property
    def pool(self) -> Any:
        self._connection_pools = POOLS.setdefault(self._login, {})  # the parent class looks there
        return super().pool

    @property
    def embedded_path(self) -> Path | None:
        path = self.settings_dict.get("EMBEDDED_PATH")
        return Path(path) if path else None

    def get_connection_params(self) -> dict[str, Any]:
        params: dict[str, Any] = super().get_connection_params()
        params.update(self.settings_dict.get("LOGINS", {}).get(self._login, {}))
        if self.embedded_path:
            try:
                sockets = embedded.join(self.embedded_path, self.settings_dict.get("EMBEDDED_OPTIONS"))
            except DatabaseUnavailable as error:
                raise DatabaseUnreachable(str(error)) from error
            params.update(host=str(sockets), port=configuration.PORT)
        params.setdefault("connect_timeout", CONNECT_TIMEOUT_S)
        params["prepare_threshold"] = 0  # lets `PendingQuery` keep plans; other statements are sent as text
        return params

    @property
    def layout(self) -> Layout:
        """Return how owners are spread over groups in this connection's database."""
        self.ensure_connection()
        return layout_of(self.connection)

    def _configure_connection(self, connection: Any) -> bool:
        super()._configure_connection(connection)  # type: ignore[misc]  # of Django, not in its stubs
        if self.alias != NO_DB_ALIAS:
            note_layout(connection)
        return True  # Django then ends the transaction that the query above began

    def init_connection_state(self) -> None:
        super().init_connection_state()
        if self._groups and self._groups.in_transaction in self.execute_wrappers:  # of the connection before
            self.execute_wrappers.remove(self._groups.in_transaction)
        layout = layout_of(self.connection)
        self._groups = GroupedConnection(self, layout) if layout.groups and self.alias != NO_DB_ALIAS else None
        if self._groups:
            self.execute_wrappers.append(self._groups.in_transaction)

    def ensure_connection(self) -> None:
        """Connect as the current identity. Runs before each cursor and each transaction."""
        login = Login.SCHEMA if self.alias == NO_DB_ALIAS else acting.current().login
        if login not in self.settings_dict.get("LOGINS", {}):
            login = Login.SCHEMA
        if login != self._login:
            if self.connection is not None:
                self._refuse_in_transaction()
                self.close()
            self._login = login
        super().ensure_connection()
        if self.connection.autocommit:  # not at the end of a transaction: SET would begin another
            self._assume_role()

    def _assume_role(self) -> None:
        if not self.settings_dict.get("ASSUME_ROLES") or self.alias == NO_DB_ALIAS:
            return
        role = logins.ROLES.get(acting.current().login, NO_ROLE)
        if self._session is not None:
            if role == self._session.role:
                return
            self._refuse_in_transaction()
        with self.wrap_database_errors:
            self.connection.execute(f"SET ROLE {role}")
        self._session = replace(self._session, role=role) if self._session else _SessionState(role, settings=None)

    def create_cursor(self, name: str | None = None) -> Any:
        # After an error, the server accepts nothing but a rollback.
        if self.connection.pgconn.transaction_status != TransactionStatus.INERROR:
            self._assume_role()
            self.set_owner(acting.current())
        return super().create_cursor(name)

    def set_owner(self, who: acting.Identity) -> None:
        """Send the server whose rows the next statements may see, unless the session has it already.

        Uses SET rather than a query: a transaction whose isolation level is still to be set must not begin with a
        query.
        """
        settings, groups, begins = _identity_statement(who.archive_id, who.person_id), self._groups, False
        if groups:
            begins = groups.begins_transaction
            settings = f"{settings}; {groups.settings_of(who)}"  # may look up a group, which changes the session
        if begins or self._session is None or settings != self._session.settings:
            self.connection.execute(settings)
            self._session = replace(self._session or FRESH_SESSION, settings=settings)
            if groups and who.archive_id is not None:
                groups.send_to_nodes(who, begins=begins)

    def send_owner(self, archive_id: int) -> None:
        """Set the owner of the session for one look-up; `set_owner` sends everything again afterwards."""
        self.connection.execute(_identity_statement(archive_id))
        self._session = replace(self._session, settings=None) if self._session else None  # the role stays

    def _refuse_in_transaction(self) -> None:
        blocks: list[Any] = self.atomic_blocks
        if blocks and not blocks[0]._from_testcase:
            raise ChangedInTransaction("The identity cannot change inside a transaction.")

    def _commit(self) -> None:
        with named_as_they_are(self.connection) if self.connection and self._groups else nullcontext():
            super()._commit()  # type: ignore[misc]  # here and below: of Django, not in its stubs

    def _rollback(self) -> None:
        self._session = None
        super()._rollback()  # type: ignore[misc]

    def _savepoint_rollback(self, sid: str) -> None:
        self._session = None
        super()._savepoint_rollback(sid)  # type: ignore[misc]

    def is_usable(self) -> bool:
        """Return whether the connection may serve a further request: not after an error, if it came from a pool.

        A migration that changes the type of a column makes each kept plan that returns it fail for ever.
        """
        return not (self.pool and self.errors_occurred) and super().is_usable()

    def _close(self) -> None:
        if self.connection is not None and self.pool and self.errors_occurred:
            self.connection.close()
        elif self.connection is not None and self.pool and self._session != FRESH_SESSION:
            # Clear the owner of a connection before it returns to its pool, which discards closed connections.
            connection = self.connection
            try:
                connection.rollback()
                connection.autocommit = True
                setting_path = "; RESET search_path" if layout_of(connection).groups else ""
                connection.execute(f"{_identity_statement(None)}{setting_path}")
            except psycopg.Error:
                connection.close()
        self._session = FRESH_SESSION
        super()._close()  # type: ignore[misc]

    def get_new_connection(self, conn_params: dict[str, Any]) -> Any:
        self._session = FRESH_SESSION
        try:
            if self.pool and self.pool.closed:
                self._probe(conn_params)
                Finalize(None, close_pools, exitpriority=CLOSE_POOLS_PRIORITY)
            started, failed = time.monotonic(), True
            try:
                connection = super().get_new_connection(conn_params)
                failed = False
            finally:
                seconds = time.monotonic() - started
                if self.pool and seconds >= MEASURED_WAIT_S:
                    report(Measurement("pool_wait", self._login, seconds, failed=failed))
        except psycopg.OperationalError as error:
            connection = self._connect_again(conn_params, error)
        if self.embedded_path and child_limits.is_background():
            child_limits.push_back(connection.info.backend_pid)
        return connection

    def _probe(self, conn_params: dict[str, Any]) -> None:
        """Connect once without the pool: it fails at once with the reason, whereas a pool retries and then reports a
        timeout.
        """
        psycopg.connect(**conn_params).close()

    def _connect_again(self, conn_params: dict[str, Any], error: psycopg.OperationalError) -> Any:
        """Connect again if the embedded server was dead and was restarted; otherwise raise an error that says what to
        do.
        """
        try:
            if self.embedded_path and embedded.revive(self.embedded_path, self.settings_dict.get("EMBEDDED_OPTIONS")):
                return super().get_new_connection(conn_params)
            self._probe(conn_params)
        except psycopg.OperationalError as reason:
            raise DatabaseUnreachable(unreachable_message(conn_params, reason)) from reason
        raise error  # the server answers: all connections of the pool were in use
