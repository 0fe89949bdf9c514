"""Records who has written, so that reads of an owner use a replica only once it has the owner's last write.

`DatabaseWrapper` makes one of these only if it has replicas (`replicas.py`). Reasons:
docs/adr/0067-read-replicas.md.
"""

import re
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from convmemory.core import acting
from convmemory.core.sql import load_sql

if TYPE_CHECKING:
    from convmemory.core.postgres.base import DatabaseWrapper

WRITES = re.compile(r"\b(?:INSERT|UPDATE|DELETE|MERGE|COPY)\b", re.IGNORECASE)
"""Statements of this program that write. `SELECT … FOR UPDATE` counts as well, which does no harm."""


class WriteRecorder:
    """The owners who wrote in one connection's transaction."""

    def __init__(self, wrapper: "DatabaseWrapper") -> None:
        self._wrapper = wrapper
        self._writers: set[int] = set()

    def record(self, execute: Callable[..., Any], sql: Any, params: Any, many: bool, context: Any) -> Any:
        """Wrap each statement: after its transaction, record once who wrote."""
        result = execute(sql, params, many, context)
        owner_id = acting.current().owner_id
        if (
            owner_id is not None
            and owner_id not in self._writers
            and sql != _record_statement()
            and not (isinstance(sql, str) and not WRITES.search(sql))
        ):
            self._writers.add(owner_id)
            self._wrapper.on_commit(partial(self._record_position, owner_id))
        return result

    def forget(self) -> None:
        """Forget the writers of a transaction or savepoint that was rolled back.

        An owner who also wrote before the savepoint stays noted: the transaction's own callback is still registered.
        """
        self._writers.clear()

    def _record_position(self, owner_id: int) -> None:
        self._writers.discard(owner_id)
        with acting.acting_for(owner_id), self._wrapper.cursor() as cursor:
            cursor.execute(_record_statement(), {"owner": owner_id})


def _record_statement() -> str:
    return load_sql("convmemory.core", "record_position")
