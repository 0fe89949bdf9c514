"""A connection whose owners are spread over groups: search paths, and settings that reach the nodes of a cluster.

`DatabaseWrapper` makes one of these only if its server has groups (`layout.py`). Reasons:
docs/adr/0072-schema-per-owner-group.md, docs/adr/0074-owner-group-per-citus-node.md.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from django.db import transaction
from psycopg.pq import TransactionStatus

from convmemory.core import acting
from convmemory.core.acting import Login
from convmemory.core.postgres.failures import named_as_they_are
from convmemory.core.postgres.layout import Layout
from convmemory.core.sql import load_sql

if TYPE_CHECKING:
    from convmemory.core.postgres.base import DatabaseWrapper


class GroupedConnection:
    """The groups of one connection's server, and the statements that lead it to a group's tables."""

    def __init__(self, wrapper: "DatabaseWrapper", layout: Layout) -> None:
        self._wrapper, self.layout = wrapper, layout

    def settings_of(self, who: acting.Identity) -> str:
        """Return the statement that sets the search path of an identity."""
        return f"SET search_path = {self._search_path(who)}"

    @property
    def must_repeat_settings(self) -> bool:
        """Return whether nodes have to be sent the settings again: each of their transactions starts without them."""
        return self.layout.has_nodes and self._begins_transaction()

    def repeat_on_nodes(self, statement: str) -> None:
        """Execute `SET LOCAL` by itself inside a transaction: nodes receive the text of the statement as it is."""
        if self.layout.has_nodes and not self._wrapper.connection.autocommit:
            self._wrapper.connection.execute(statement)

    def in_transaction(self, execute: Callable[..., Any], sql: Any, params: Any, many: bool, context: Any) -> Any:
        """Wrap each statement if groups lie on nodes: a setting reaches them only within a transaction."""
        who, wrapper = acting.current(), self._wrapper
        if who.owner_id is None or not wrapper.connection.autocommit:
            return execute(sql, params, many, context)
        with transaction.atomic(using=wrapper.alias):
            wrapper.set_owner(who)
            return execute(sql, params, many, context)

    @contextmanager
    def committing(self) -> Iterator[None]:
        """Raise IntegrityError in the block if a node found a constraint violated."""
        if not self.layout.has_nodes:
            yield
            return
        with named_as_they_are(self._wrapper.connection):
            yield

    def _begins_transaction(self) -> bool:
        """Return whether the next statement is the first one of a transaction of several."""
        link = self._wrapper.connection
        is_idle: bool = link.pgconn.transaction_status == TransactionStatus.IDLE
        return is_idle and not link.autocommit

    def _search_path(self, who: acting.Identity) -> str:
        """Without a group, the application finds no tables of owners; other log-ins find the views over all groups."""
        if who.group is not None:
            return self.layout.path_to(who.group)
        if who.group_owner is not None:
            return self.layout.path_to(self._group_of(who.group_owner))
        return self.layout.home_path if who.login == Login.APP else self.layout.path_over_all

    def _group_of(self, owner_id: int) -> int | None:
        known, wrapper = self.layout.known, self._wrapper
        if owner_id not in known:
            with self._outside_new_transactions():
                wrapper.send_owner(owner_id)  # the row that names the group is visible to its owner alone
                row = wrapper.connection.execute(load_sql("convmemory.core", "group_of_owner"), [owner_id]).fetchone()
            if row is None:
                return None
            known[owner_id] = row[0]
        return known[owner_id]

    @contextmanager
    def _outside_new_transactions(self) -> Iterator[None]:
        """Keep a transaction that is about to begin from beginning inside the block."""
        link, is_new = self._wrapper.connection, self._begins_transaction()
        if is_new:
            link.autocommit = True
        try:
            yield
        finally:
            if is_new:
                link.autocommit = False
