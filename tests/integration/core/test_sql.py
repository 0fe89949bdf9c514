"""Statements that are sent before their rows are needed."""

import pytest
from django.db import DataError, connection

from convmemory.core.sql import PendingQuery, pipelined

pytestmark = pytest.mark.django_db(transaction=True)


def test_rows_are_those_of_their_statement_in_whatever_order_they_are_read() -> None:
    with pipelined():
        numbers = PendingQuery("SELECT array_agg(n) FROM generate_series(1, %(last)s) AS n", {"last": 3})
        data = PendingQuery("SELECT %(text)s::text, %(data)s::bytea, NULL", {"text": "né", "data": b"\x00\xff"})
        assert data.rows() == [("né", b"\x00\xff", None)]
        assert numbers.rows() == [([1, 2, 3],)]
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1")
        assert cursor.fetchone() == (1,)


def test_without_a_pipeline_it_is_an_ordinary_statement() -> None:
    assert PendingQuery("SELECT %(n)s::int + 1", {"n": 1}).rows() == [(2,)]


def test_a_statement_that_fails_raises_where_it_is_read_and_leaves_the_connection_usable() -> None:
    with pytest.raises(DataError), pipelined():
        PendingQuery("SELECT 1 / %(n)s::int", {"n": 0}).rows()
    assert PendingQuery("SELECT %(n)s::int", {"n": 5}).rows() == [(5,)]


@pytest.mark.parametrize("numbers", [[], [7], [3, -1, 2**62]])
def test_numbers_are_sent_as_an_array(numbers: list[int]) -> None:
    statement = "SELECT %(numbers)s::bigint[], 2::smallint = ANY(%(kinds)s)"
    assert PendingQuery(statement, {"numbers": numbers, "kinds": [1, 2]}).rows() == [(numbers, True)]


def test_other_lists_are_sent_as_they_are() -> None:
    statement = "SELECT %(flags)s::boolean[], %(texts)s::text[]"
    parameters = {"flags": [True, False], "texts": ['{"a"', "b,c"]}
    assert PendingQuery(statement, parameters).rows() == [([True, False], ['{"a"', "b,c"])]
