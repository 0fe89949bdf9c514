"""Django's PostgreSQL backend, which also runs the embedded server when `EMBEDDED_PATH` is set.

The first connection of a process joins the server (`convmemory.core.embedded`) and uses its socket. A database that
cannot be reached raises `DatabaseUnreachable`, which says what to do.

Each connection obeys `core/acting.py`: it logs in as the part of the program that uses it, and before the first
statement for an owner it tells the server that owner and, with several owner groups, the group (`layout.py`); if groups
lie on other servers, these are told the owner in each transaction. A connection returned to its pool no longer carries
an owner.
"""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from multiprocessing.util import Finalize
from pathlib import Path
from typing import Any

import psycopg
from django.db import DEFAULT_DB_ALIAS, transaction
from django.db.backends.base.base import NO_DB_ALIAS
from django.db.backends.base.validation import BaseDatabaseValidation
from django.db.backends.postgresql import base
from django.db.backends.postgresql.client import DatabaseClient
from psycopg.pq import TransactionStatus

from convmemory.core import acting, background, embedded, logins, replicas
from convmemory.core.acting import Login
from convmemory.core.errors import DatabaseUnavailable
from convmemory.core.postgres import configuration
from convmemory.core.postgres.client import EmbeddedDatabaseClient
from convmemory.core.postgres.commits import named_as_they_are
from convmemory.core.postgres.failures import ChangedInTransaction, DatabaseUnreachable, unreachable_message
from convmemory.core.postgres.layout import ONE_GROUP, Layout, layout_of, note_layout
from convmemory.core.postgres.pools import CLOSE_POOLS_PRIORITY, POOLS, Place, close_pools
from convmemory.core.postgres.validation import DatabaseValidation
from convmemory.core.sql import load_sql

CONNECT_TIMEOUT_S = 10
OWNER_SETTING = "convmemory.owner"
NO_ROLE = "none"
WRITES = re.compile(r"\b(?:INSERT|UPDATE|DELETE|MERGE|COPY)\b", re.IGNORECASE)
"""In statements of this program: some that only lock rows are taken for writing, which does no harm."""


@dataclass(frozen=True, slots=True)
class _SessionState:
    """What is set in a connection's session: the role; the owner, empty for none, None if uncertain; the search path,
    empty for the server's own.
    """

    role: str = NO_ROLE
    owner: str | None = ""
    path: str = ""


FRESH_SESSION = _SessionState()


class DatabaseWrapper(base.DatabaseWrapper):
    """A connection to the embedded server or to the one in DATABASE_URL.

    `LOGINS` in its settings holds the parameters of each log-in that differs from the default one, which owns the
    schema. With `ASSUME_ROLES` the default log-in assumes the role of each instead, for tests inside one shared
    transaction. `REPLICAS` holds the parameters of read replicas by name, see `core/replicas.py`.
    """

    client_class: type[DatabaseClient] = EmbeddedDatabaseClient
    validation_class: type[BaseDatabaseValidation] = DatabaseValidation

    def __init__(self, settings_dict: dict[str, Any], alias: str = DEFAULT_DB_ALIAS) -> None:
        super().__init__(settings_dict, alias)
        self._place = Place()
        self._writers: set[int] = set()
        if settings_dict.get("REPLICAS"):
            self.execute_wrappers.append(self._record_writes)
        self._session: _SessionState | None = FRESH_SESSION  # None: a rollback may have changed it

    @property
    def pool(self) -> Any:
        self._connection_pools = POOLS.setdefault(self._place, {})  # the parent class looks there
        found = super().pool
        if found and self._place.replica:
            found.timeout = replicas.POOL_PATIENCE_S
        return found

    @property
    def embedded_path(self) -> Path | None:
        path = self.settings_dict.get("EMBEDDED_PATH")
        return Path(path) if path else None

    def get_connection_params(self) -> dict[str, Any]:
        return self._parameters_of(self._place)

    def replica_parameters(self, name: str) -> dict[str, Any]:
        """The parameters with which the application logs in to a replica."""
        return self._parameters_of(self._place_of(Login.APP, name))

    def _parameters_of(self, place: Place) -> dict[str, Any]:
        params: dict[str, Any] = super().get_connection_params()
        params.update(self.settings_dict.get("LOGINS", {}).get(place.login, {}))
        if self.embedded_path:
            params.update(host=str(self._join(self.embedded_path)), port=configuration.PORT)
        params.setdefault("connect_timeout", CONNECT_TIMEOUT_S)
        params["prepare_threshold"] = 0  # lets `PendingQuery` keep plans; other statements are sent as text
        if place.replica:
            params |= {**self.settings_dict["REPLICAS"][place.replica], "connect_timeout": replicas.CONNECT_TIMEOUT_S}
        return params

    @property
    def layout(self) -> Layout:
        """How owners are spread over groups in this connection's database."""
        self.ensure_connection()
        return layout_of(self.connection)

    def _configure_connection(self, connection: Any) -> bool:
        super()._configure_connection(connection)  # type: ignore[misc]  # of Django, not in its stubs
        if self.alias != NO_DB_ALIAS:
            note_layout(connection)
        return True  # where a transaction has begun, it ends

    def init_connection_state(self) -> None:
        super().init_connection_state()
        if layout_of(self.connection).has_nodes and self._in_transaction not in self.execute_wrappers:
            self.execute_wrappers.append(self._in_transaction)

    # --- as whom ------------------------------------------------------------------------------------

    def ensure_connection(self) -> None:
        """Runs before each cursor and each transaction, so that a transaction begins with the current identity."""
        wanted = self._wanted_place()
        if wanted != self._place:
            if self.connection is not None:
                self._refuse_in_transaction()
                self.close()
            self._place = wanted
        super().ensure_connection()
        if self.connection.autocommit:  # not while a transaction ends: that would begin another
            self._assume_role()

    def _wanted_place(self) -> Place:
        if self.alias == NO_DB_ALIAS:
            return Place()
        who = acting.current()
        return self._place_of(who.login, replicas.replica_in_use() if who.owner_id is not None else "")

    def _place_of(self, login: Login, replica: str) -> Place:
        return Place(login if login in self.settings_dict.get("LOGINS", {}) else Login.SCHEMA, replica)

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
        self._session = replace(self._session, role=role) if self._session else _SessionState(role, owner=None)

    def create_cursor(self, name: str | None = None) -> Any:
        if self.connection.pgconn.transaction_status != TransactionStatus.INERROR:  # it takes a rollback, and no more
            self._assume_role()
            self._set_owner(acting.current())
        return super().create_cursor(name)

    def _set_owner(self, who: acting.Identity) -> None:
        """Uses SET rather than a query: a transaction whose isolation level is still to be set must not begin with a
        query."""
        session, owner = self._session, str(who.owner_id or "")
        found = layout_of(self.connection) if self.alias != NO_DB_ALIAS else ONE_GROUP
        tells_nodes = found.has_nodes and self._begins_transaction()
        path = self._search_path(who, found) if found.groups else ""
        if session is None or tells_nodes or (owner, path) != (session.owner, session.path):
            setting_path = f"; SET search_path = {path}" if path else ""
            self.connection.execute(f"SET {OWNER_SETTING} = '{owner}'{setting_path}")
            self._session = replace(session or FRESH_SESSION, owner=owner, path=path)
            if found.has_nodes and owner and not self.connection.autocommit:
                self.connection.execute(
                    f"SET LOCAL {OWNER_SETTING} = '{owner}'"
                )  # by itself: nodes get the text as it is

    def _in_transaction(self, execute: Callable[..., Any], sql: Any, params: Any, many: bool, context: Any) -> Any:
        """Wraps each statement if groups lie on nodes: a setting reaches them only within a transaction."""
        who = acting.current()
        if who.owner_id is None or not self.connection.autocommit:
            return execute(sql, params, many, context)
        with transaction.atomic(using=self.alias):
            self._set_owner(who)
            return execute(sql, params, many, context)

    def _begins_transaction(self) -> bool:
        """Whether the next statement is the first one of a transaction of several."""
        is_idle: bool = self.connection.pgconn.transaction_status == TransactionStatus.IDLE
        return is_idle and not self.connection.autocommit

    def _search_path(self, who: acting.Identity, found: Layout) -> str:
        """Without a group, the application finds no tables of owners, and other log-ins find the tables over all
        groups."""
        if who.group is not None:
            return found.path_to(who.group)
        if who.neighbour is not None:
            return found.path_to(self._group_of(who.neighbour, found))
        return found.home_path if who.login == Login.APP else found.path_over_all

    def _group_of(self, owner_id: int, found: Layout) -> int | None:
        if owner_id not in found.known:
            with self._outside_new_transactions():
                self.connection.execute(f"SET {OWNER_SETTING} = '{owner_id}'")  # whose place in a group only they see
                self._session = None
                row = self.connection.execute(load_sql("convmemory.core", "group_of_owner"), [owner_id]).fetchone()
            if row is None:
                return None
            found.known[owner_id] = row[0]
        return found.known[owner_id]

    @contextmanager
    def _outside_new_transactions(self) -> Iterator[None]:
        """A transaction that has not begun yet does not begin inside the block."""
        link, is_new = self.connection, self._begins_transaction()
        if is_new:
            link.autocommit = True
        try:
            yield
        finally:
            if is_new:
                link.autocommit = False

    def _refuse_in_transaction(self) -> None:
        blocks: list[Any] = self.atomic_blocks
        if blocks and not blocks[0]._from_testcase:
            raise ChangedInTransaction("A transaction ends as whom it began: change before it, or after.")

    # --- who has written --------------------------------------------------------------------------------

    def _record_writes(self, execute: Callable[..., Any], sql: Any, params: Any, many: bool, context: Any) -> Any:
        """Wraps each statement if there are replicas: after the transaction, records once who wrote."""
        result = execute(sql, params, many, context)
        owner_id = acting.current().owner_id
        if owner_id is not None and owner_id not in self._writers and _may_write(sql):
            self._writers.add(owner_id)
            self.on_commit(partial(self._record_writer, owner_id))
        return result

    def _record_writer(self, owner_id: int) -> None:
        self._writers.discard(owner_id)
        with acting.acting_for(owner_id), self.cursor() as cursor:
            cursor.execute(_note(), {"owner": owner_id})

    def _commit(self) -> None:
        if not (self.connection and layout_of(self.connection).has_nodes):
            super()._commit()  # type: ignore[misc]
            return
        with named_as_they_are(self.connection):
            super()._commit()  # type: ignore[misc]

    def _rollback(self) -> None:
        self._writers.clear()
        self._session = None
        super()._rollback()  # type: ignore[misc]  # here and below: of Django, not in its stubs

    def _savepoint_rollback(self, sid: str) -> None:
        self._writers.clear()  # of whom nothing is left to be noted; what still stands is noted all the same
        self._session = None
        super()._savepoint_rollback(sid)  # type: ignore[misc]

    def _close(self) -> None:
        if self.connection is not None and self.pool and self._session != FRESH_SESSION:
            _forget_owner(self.connection)
        self._writers.clear()
        self._session = FRESH_SESSION
        super()._close()  # type: ignore[misc]

    # --- connecting -----------------------------------------------------------------------------------

    def _join(self, folder: Path) -> Path:
        try:
            return embedded.join(folder, self.settings_dict.get("EMBEDDED_OPTIONS"))
        except DatabaseUnavailable as error:
            raise DatabaseUnreachable(str(error)) from error

    def get_new_connection(self, conn_params: dict[str, Any]) -> Any:
        self._session = FRESH_SESSION
        try:
            if self.pool and self.pool.closed:
                self._probe(conn_params)
                Finalize(None, close_pools, exitpriority=CLOSE_POOLS_PRIORITY)
            connection = super().get_new_connection(conn_params)
        except psycopg.OperationalError as error:
            connection = self._connect_again(conn_params, error)
        if self.embedded_path and not self._place.replica and background.is_background():
            background.push_back(connection.info.backend_pid)
        return connection

    def _probe(self, conn_params: dict[str, Any]) -> None:
        """Fails at once and with the reason, whereas a pool would keep trying and then report a timeout."""
        psycopg.connect(**conn_params).close()

    def _revive(self) -> bool:
        folder = None if self._place.replica else self.embedded_path
        return bool(folder and embedded.revive(folder, self.settings_dict.get("EMBEDDED_OPTIONS")))

    def _connect_again(self, conn_params: dict[str, Any], error: psycopg.OperationalError) -> Any:
        """Try a second time if the embedded server was dead and was restarted; otherwise raise the clear message."""
        try:
            if self._revive():
                return super().get_new_connection(conn_params)
            self._probe(conn_params)
        except psycopg.OperationalError as reason:
            raise DatabaseUnreachable(unreachable_message(conn_params, reason)) from reason
        raise error  # it does answer: all connections of the pool were in use


def _may_write(statement: Any) -> bool:
    return statement != _note() and not (isinstance(statement, str) and not WRITES.search(statement))


def _note() -> str:
    return load_sql("convmemory.core", "record_position")


def _forget_owner(connection: psycopg.Connection) -> None:
    """Clears the owner of a connection before it returns to its pool, which discards closed connections."""
    try:
        connection.rollback()
        connection.autocommit = True
        setting_path = "; RESET search_path" if layout_of(connection).groups else ""
        connection.execute(f"SET {OWNER_SETTING} = ''{setting_path}")
    except psycopg.Error:
        connection.close()
