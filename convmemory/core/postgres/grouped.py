"""A connection to the coordinator of a cluster: search paths, and settings that reach the nodes.

`DatabaseWrapper` makes one of these only if its server has groups (`layout.py`). Reasons:
docs/adr/0072-owner-group-per-citus-node.md.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from django.db import transaction
from psycopg.pq import TransactionStatus

from convmemory.core import acting
from convmemory.core.acting import Login
from convmemory.core.postgres.layout import Layout
from convmemory.core.sql import load_sql

if TYPE_CHECKING:
    from convmemory.core.postgres.base import DatabaseWrapper


class GroupedConnection:
    """The groups of one connection's server, and the statements that lead it to a group's tables."""

    def __init__(self, wrapper: "DatabaseWrapper", layout: Layout) -> None:
        self._wrapper, self.layout = wrapper, layout

    def settings_of(self, who: acting.Identity) -> str:
        """Return the statement that sets the search path of an identity.

        Without a group, the application finds no tables of owners; other log-ins find the views over all groups.
        """
        if who.archive_id is not None:
            path = self.layout.path_to(self._group_of(who.archive_id))
        elif who.group is not None:
            path = self.layout.path_to(who.group)
        else:
            path = self.layout.home_path if who.login == Login.APP else self.layout.path_over_all
        return f"SET search_path = {path}"

    @property
    def begins_transaction(self) -> bool:
        """Return whether the next statement is the first one of a transaction of several.

        Nodes have to be sent the settings again then: each of their transactions starts without them.
        """
        link = self._wrapper.connection
        is_idle: bool = link.pgconn.transaction_status == TransactionStatus.IDLE
        return is_idle and not link.autocommit

    def send_to_nodes(self, who: acting.Identity, *, begins: bool) -> None:
        """Send the nodes the owner, and the role that a member has in a space at this moment.

        `SET LOCAL`, each by itself inside a transaction: nodes receive the text of such statements alone.
        """
        link = self._wrapper.connection
        if link.autocommit:
            return
        settings: dict[str, int | str | None] = {"owner": who.archive_id}
        if who.person_id is not None:
            row = link.execute(load_sql("convmemory.core.postgres", "role_in_space").encode()).fetchone()
            settings |= {"person": who.person_id, "role": row and row[0]}
        elif not begins:  # of the identity before, in this transaction
            settings |= {"person": None}
        for name, value in settings.items():
            link.execute(f"SET LOCAL convmemory.{name} = '{value or ''}'")

    def in_transaction(self, execute: Callable[..., Any], sql: Any, params: Any, many: bool, context: Any) -> Any:
        """Wrap each statement for an owner: a setting reaches nodes only within a transaction."""
        who, wrapper = acting.current(), self._wrapper
        if who.archive_id is None or not wrapper.connection.autocommit:
            return execute(sql, params, many, context)
        with transaction.atomic(using=wrapper.alias):
            wrapper.set_owner(who)
            return execute(sql, params, many, context)

    def _group_of(self, archive_id: int) -> int | None:
        owner_groups, wrapper = self.layout.owner_groups, self._wrapper
        if archive_id not in owner_groups:
            with self._outside_new_transactions():
                wrapper.send_owner(archive_id)  # the row that names the group is visible to its owner alone
                statement = load_sql("convmemory.core.postgres", "group_of_owner")
                row = wrapper.connection.execute(statement, [archive_id]).fetchone()
            if row is None:
                return None
            owner_groups[archive_id] = row[0]
        return owner_groups[archive_id]

    @contextmanager
    def _outside_new_transactions(self) -> Iterator[None]:
        """Keep a transaction that is about to begin from beginning inside the block."""
        link, is_new = self._wrapper.connection, self.begins_transaction
        if is_new:
            link.autocommit = True
        try:
            yield
        finally:
            if is_new:
                link.autocommit = False
