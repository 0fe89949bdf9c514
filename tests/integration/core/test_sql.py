"""Statements that are sent before their rows are needed."""

import pytest
from django.db import DataError, NotSupportedError, OperationalError, close_old_connections, connection, transaction

from convmemory.core.acting import acting_for, schema_owner
from convmemory.core.sql import PendingQuery, pipelined
from tests.support.own_logins import own_logins

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


def test_pending_query_works_without_pipeline() -> None:
    assert PendingQuery("SELECT %(n)s::int + 1", {"n": 1}).rows() == [(2,)]


def test_statement_that_fails_raises_where_it_is_read_and_leaves_connection_usable() -> None:
    with pytest.raises(DataError), pipelined():
        PendingQuery("SELECT 1 / %(n)s::int", {"n": 0}).rows()
    assert PendingQuery("SELECT %(n)s::int", {"n": 5}).rows() == [(5,)]


def test_connection_lost_in_pipeline_is_error_of_django_also_without_reading() -> None:
    with pytest.raises(OperationalError), pipelined():
        PendingQuery("SELECT pg_terminate_backend(pg_backend_pid())", {})
    connection.close()
    with pytest.raises(OperationalError), pipelined():
        PendingQuery("SELECT pg_terminate_backend(pg_backend_pid())", {}).rows()
    connection.close()
    assert PendingQuery("SELECT %(n)s::int", {"n": 5}).rows() == [(5,)]


def test_connection_whose_plan_a_migration_made_outdated_is_not_reused() -> None:
    def notes() -> list[str]:
        return [row[0] for row in PendingQuery("SELECT said FROM note", {}, keeps_plan=True).rows()]

    def as_owner(statement: str) -> None:
        with schema_owner(), connection.cursor() as cursor:
            cursor.execute(statement)

    with own_logins():
        as_owner("CREATE TABLE note (said varchar(40)); GRANT SELECT ON note TO convmemory_app")
        try:
            assert notes() == []
            as_owner("ALTER TABLE note ALTER said TYPE varchar(60)")
            with pytest.raises(NotSupportedError):
                notes()
            close_old_connections()  # as a request does at its end
            assert notes() == []
        finally:
            as_owner("DROP TABLE note")


@pytest.mark.parametrize("numbers", [[], [7], [3, -1, 2**62]])
def test_numbers_are_sent_as_array(numbers: list[int]) -> None:
    statement = "SELECT %(numbers)s::bigint[], 2::smallint = ANY(%(kinds)s)"
    assert PendingQuery(statement, {"numbers": numbers, "kinds": [1, 2]}).rows() == [(numbers, True)]


def test_other_lists_are_sent_as_they_are() -> None:
    statement = "SELECT %(flags)s::boolean[], %(texts)s::text[]"
    parameters = {"flags": [True, False], "texts": ['{"a"', "b,c"]}
    assert PendingQuery(statement, parameters).rows() == [([True, False], ['{"a"', "b,c"])]


def kept_plans() -> list[str]:
    with connection.cursor() as cursor:
        cursor.execute("SELECT statement FROM pg_prepared_statements")
        return [row[0] for row in cursor.fetchall()]


def test_plan_is_kept_where_that_is_asked_for_and_serves_other_values_and_people() -> None:
    for number in range(3):
        with acting_for(number + 1), pipelined():
            once = PendingQuery(
                "SELECT current_setting('convmemory.owner'), %(n)s::int", {"n": number}, keeps_plan=True
            )
            anew = PendingQuery("SELECT %(n)s::int + 7", {"n": number})
            assert anew.rows() == [(number + 7,)]
            assert once.rows() == [(str(number + 1), number)]
        assert [statement for statement in kept_plans() if "+ 7" in statement] == []
        assert len([statement for statement in kept_plans() if "convmemory.owner" in statement]) == 1


def test_kept_plan_follows_its_table() -> None:
    statement = "SELECT count(*) FROM auth_user WHERE username = %(name)s"
    assert PendingQuery(statement, {"name": "nobody"}, keeps_plan=True).rows() == [(0,)]
    with schema_owner(), connection.cursor() as cursor:
        cursor.execute("CREATE INDEX of_a_test ON auth_user (username, id)")
        cursor.execute("DROP INDEX of_a_test")
    with pytest.raises(DataError), transaction.atomic():
        PendingQuery("SELECT 1 / %(n)s::int", {"n": 0}, keeps_plan=True).rows()
    assert PendingQuery(statement, {"name": "nobody"}, keeps_plan=True).rows() == [(0,)]
