"""Named SQL: what the ORM cannot express is in one `queries.sql` a package, loaded by name.

A line `-- name: hits` begins a statement; the line after it is a comment that says what the statement answers.
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from functools import cache, cached_property
from importlib import resources
from typing import Any

from django.db import DEFAULT_DB_ALIAS, connection, connections, transaction
from django.db.backends.postgresql.base import ServerBindingCursor
from psycopg.pq import Format

Query = tuple[str, Mapping[str, Any]]
"""A statement with its parameters."""
FILE = "queries.sql"
BEGINS = "-- name: "


@cache
def load_sql(package: str, name: str) -> str:
    """Return a statement of the package's `queries.sql`. Raises: LookupError if it has none of this name."""
    try:
        return statements_of(package)[name]
    except KeyError:
        raise LookupError(f"{package}/{FILE} has no statement {name}.") from None


@cache
def statements_of(package: str) -> Mapping[str, str]:
    """Return all statements of the package's `queries.sql` by name."""
    return split_statements(resources.files(package).joinpath(FILE).read_text(encoding="utf-8"))


def split_statements(text: str) -> Mapping[str, str]:
    """Return the statements of a file by name, each with its comment.

    Raises: ValueError if a name comes twice, a statement has no comment, or there is text before the first name.
    """
    before, *parts = f"\n{text}".split(f"\n{BEGINS}")
    if before.strip():
        raise ValueError(f"A statement must follow a line such as `{BEGINS}hits`: {before.strip()[:60]!r}.")
    statements: dict[str, str] = {}
    for part in parts:
        name, _, statement = part.partition("\n")
        if not name.isidentifier() or name in statements:
            raise ValueError(f"{name!r} is no name, or comes twice.")
        if not statement.startswith("-- "):
            raise ValueError(f"The statement {name} has no comment that says what it answers.")
        statements[name] = statement.rstrip() + "\n"
    return statements


@contextmanager
def pipelined() -> Iterator[None]:
    """Send the queries of the block without waiting: PostgreSQL works on them while this process continues.

    No transaction can begin or end in it. On a cluster the block is one transaction.
    """
    with transaction.atomic() if connection.layout.groups else nullcontext():  # type: ignore[attr-defined]
        connection.cursor().close()  # sets the owner first: a pipeline skips statements after an error
        # The pipeline itself raises psycopg's errors, as when the connection is lost.
        with connection.wrap_database_errors, connection.connection.pipeline():
            yield


class _PlannedAnewCursor(ServerBindingCursor):
    def execute(self, query: Any, params: Any = None) -> Any:
        return super().execute(query, params, prepare=False)  # type: ignore[misc]  # of psycopg, not in Django's stubs


class _PlannedOnceCursor(ServerBindingCursor):
    def execute(self, query: Any, params: Any = None) -> Any:
        return super().execute(query, params, prepare=True)  # type: ignore[misc]


class PendingQuery:
    """A query that has been sent; reading its rows, which is possible once, waits for them.

    Values arrive in binary form: bytes and arrays cost a fraction of their text form. In a pipeline, reading waits for
    every statement sent so far. With `keeps_plan` the connection plans the statement once instead of for each search,
    for statements whose best plan does not depend on the values.
    """

    def __init__(self, statement: str, parameters: Mapping[str, Any], *, keeps_plan: bool = False) -> None:
        database = connections[DEFAULT_DB_ALIAS]  # `connection` looks it up at each access
        self._cursor = database.cursor()
        is_planned_once = keeps_plan and not database.queries_logged  # the log needs the text that was sent
        kind = _PlannedOnceCursor if is_planned_once else _PlannedAnewCursor
        self._cursor.cursor = kind(database.connection)  # type: ignore[call-arg]  # the usual one gets text
        self._cursor.cursor.format = Format.BINARY
        self._cursor.execute(
            statement,
            {
                name: f"{{{str(value)[1:-1]}}}"
                if isinstance(value, list) and {type(item) for item in value} in ({int}, {bool})
                else value
                for name, value in parameters.items()
            },
        )

    def rows(self) -> list[tuple[Any, ...]]:
        with self._cursor as cursor:
            return list(cursor.fetchall())


class PendingQueries(PendingQuery):
    """Several queries that have been sent as one statement, which plans them once; parameters of one name are equal."""

    def __init__(self, *queries: Query) -> None:
        array = load_sql("convmemory.core", "rows_as_array")
        arrays = ", ".join(array.replace("{statement}", statement) for statement, _ in queries)
        parameters = {name: value for _, of_query in queries for name, value in of_query.items()}
        assert all(parameters[name] == value for _, of_query in queries for name, value in of_query.items())
        super().__init__(
            load_sql("convmemory.core", "together").replace("{arrays}", arrays), parameters, keeps_plan=True
        )

    @cached_property
    def of_each(self) -> tuple[list[tuple[Any, ...]], ...]:
        """Return the rows of each query; waits for them the first time."""
        (arrays,) = self.rows()
        return arrays


def in_columns(query: Query, count: int) -> Query:
    """Return the query for the columns of a query, `count` of them, each as an array: `rows_of_columns` reads it.

    An array is read several times as fast as so many records of `PendingQueries`.
    """
    statement, parameters = query
    names = [f"column_{number}" for number in range(count)]
    text = load_sql("convmemory.core", "columns_as_arrays").replace("{columns}", ", ".join(names))
    arrays = ", ".join(f"array_agg({name})" for name in names)
    return text.replace("{arrays}", arrays).replace("{statement}", statement), parameters


def rows_of_columns(rows: Iterable[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Return the rows of a query whose columns were read as arrays, which are None without any."""
    return [row for columns in rows if columns[0] is not None for row in zip(*columns, strict=True)]


def execute_without_nested_loops(statement: str, parameters: Mapping[str, Any]) -> None:
    """Run a statement that joins rows written by this transaction, using only hash and merge joins.

    PostgreSQL assumes that there are few such rows until it has analysed the table, and a nested loop over them is
    quadratic.
    """
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL enable_nestloop = off")
        cursor.execute(statement, parameters)
        cursor.execute("SET LOCAL enable_nestloop = on")
