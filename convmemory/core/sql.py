"""Named SQL: what the ORM cannot say lives in `.sql` files, loaded by name.

A file holds one statement; its first line is a comment that says what it answers.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from importlib import resources
from typing import Any

from django.db import connection


@cache
def load_sql(package: str, name: str) -> str:
    """The statement in `<package>/sql/<name>.sql`."""
    return resources.files(package).joinpath("sql", f"{name}.sql").read_text(encoding="utf-8")


@contextmanager
def pipelined() -> Iterator[None]:
    """Statements asked in this block are only sent: PostgreSQL works on them while this process goes on.

    Rows that are read in the block wait for all statements before them. No transaction can begin or end in it.
    """
    connection.ensure_connection()
    with connection.connection.pipeline():
        yield


class Asked:
    """A statement that has been sent; its rows are waited for when they are read, once."""

    def __init__(self, statement: str, parameters: Mapping[str, Any]) -> None:
        self._cursor = connection.cursor()
        self._cursor.execute(statement, parameters)
        link = connection.connection.pgconn
        if link.pipeline_status:
            link.send_flush_request()  # or the rows would wait for those of the statements asked after it

    def rows(self) -> list[tuple[Any, ...]]:
        with self._cursor as cursor:
            return list(cursor.fetchall())
