"""Rows that all tests of a file read: stored once, while each test's transaction takes back what that test changes."""

from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import pytest
from django.db import connection, transaction
from pytest_django import DjangoDbBlocker

from tests.support.run_database import empty_tables

T = TypeVar("T")


def stored_for_file(store: Callable[[], T]) -> Any:
    """Return a fixture that commits what `store` writes, gives all tests of a file its result, and empties the tables.

    As in the transaction of a test, the identity may change and nothing runs after the commit. No test of the file may
    commit, which would empty the tables, or change attributes of the result.
    """

    @pytest.fixture(scope="module")
    def stored(django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> Iterator[T]:
        with django_db_blocker.unblock():
            block = transaction.atomic()
            block._from_testcase = True  # type: ignore[attr-defined]  # of Django, not in its stubs
            with block:
                rows = store()
                connection.run_on_commit.clear()
        yield rows
        with django_db_blocker.unblock():
            empty_tables()

    return stored
