"""Named SQL: what the ORM cannot say lives in `.sql` files, loaded by name.

A file holds one statement; its first line is a comment that says what it answers.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from functools import cache
from importlib import resources
from typing import Any

from django.db import connection, transaction
from django.db.backends.postgresql.base import ServerBindingCursor
from psycopg.pq import Format


@cache
def load_sql(package: str, name: str) -> str:
    """The statement in `<package>/sql/<name>.sql`."""
    return resources.files(package).joinpath("sql", f"{name}.sql").read_text(encoding="utf-8")


@contextmanager
def pipelined() -> Iterator[None]:
    """Only send the queries made in this block: PostgreSQL works on them while this process goes on.

    No transaction can begin or end in it. If groups of owners lie on nodes, the block is one transaction.
    """
    with transaction.atomic() if connection.layout.has_nodes else nullcontext():  # type: ignore[attr-defined]
        connection.cursor().close()  # by which the server knows whom it works for, whatever fails in the pipeline
        with connection.connection.pipeline():
            yield


class _PlannedAnewCursor(ServerBindingCursor):
    def execute(self, query: Any, params: Any = None) -> Any:
        return super().execute(query, params, prepare=False)  # type: ignore[misc]  # of psycopg, not in Django's stubs


class _PlannedOnceCursor(ServerBindingCursor):
    def execute(self, query: Any, params: Any = None) -> Any:
        return super().execute(query, params, prepare=True)  # type: ignore[misc]


class PendingQuery:
    """A query that has been sent; reading its rows, which is possible once, waits for them.

    Values arrive in binary form: bytes and arrays cost a fraction of what they cost as text. In a pipeline, reading
    waits for every statement sent so far. With `keeps_plan` the connection plans the statement once and not for each
    search: where one plan is best whatever the values are.
    """

    def __init__(self, statement: str, parameters: Mapping[str, Any], *, keeps_plan: bool = False) -> None:
        self._cursor = connection.cursor()
        is_planned_once = keeps_plan and not connection.queries_logged  # the log needs the text that was sent
        kind = _PlannedOnceCursor if is_planned_once else _PlannedAnewCursor
        self._cursor.cursor = kind(connection.connection)  # type: ignore[call-arg]  # the usual one gets text
        self._cursor.cursor.format = Format.BINARY
        self._cursor.execute(statement, {name: _as_sent(value) for name, value in parameters.items()})

    def rows(self) -> list[tuple[Any, ...]]:
        with self._cursor as cursor:
            return list(cursor.fetchall())


def _as_sent(value: Any) -> Any:
    """A list of integers, or of booleans, as the text of an array: psycopg would convert it item by item, at many times
    the cost."""
    if isinstance(value, list) and {type(item) for item in value} in ({int}, {bool}):
        return f"{{{str(value)[1:-1]}}}"
    return value


def execute_without_nested_loops(statement: str, parameters: Mapping[str, Any]) -> None:
    """Run a statement that joins rows written by this transaction, using only hash and merge joins.

    PostgreSQL assumes that there are few such rows until it has analysed the table, and a nested loop over them is
    quadratic.
    """
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL enable_nestloop = off")
        cursor.execute(statement, parameters)
        cursor.execute("SET LOCAL enable_nestloop = on")
