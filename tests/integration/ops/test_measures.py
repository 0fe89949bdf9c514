"""Counts of what processes do: added up in memory, stored by the hour and in all."""

from datetime import timedelta

import pytest
from django.db import connection
from django.utils import timezone

from convmemory.accounts.callers import Caller
from convmemory.core.measuring import Measurement, report, timed
from convmemory.ops.models import Measure
from convmemory.ops.observability import measures
from search.adapters.conversations import index_conversation
from search.searching import SearchQuery, search
from tests.factories import exchange, make_conversation, make_user

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("from_noon_on")]


@pytest.fixture(autouse=True)
def nothing_pending() -> None:
    measures.flush()
    Measure.objects.all().delete()


def test_two_flushes_add_up_in_hour_and_ever() -> None:
    for seconds, failed in ((0.004, False), (0.03, True), (200.0, False)):
        report(Measurement("search", "hybrid", seconds, items=2, failed=failed))
        measures.flush()
    (ever,) = measures.totals()
    (hour,) = measures.hourly("search", since=timezone.now() - timedelta(hours=2))
    for row in (ever, hour):
        assert (row.count, row.items, row.failures, round(row.seconds, 3)) == (3, 6, 1, 200.034)
        assert row.buckets == [1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]
    assert Measure.objects.count() == 2


def test_search_and_its_indexing_are_counted_without_word_of_query() -> None:
    owner = make_user()
    conversation = make_conversation(owner, exchange(("where is the zebrafish lab?", "In Lima.")))
    index_conversation(conversation_id=conversation.pk)
    search(caller=Caller.of(owner), query=SearchQuery(text="zebrafish lab"))
    measures.flush()
    found = {(row.name, row.label): row for row in measures.totals()}
    assert found["search", "hybrid"].items == 1
    assert found["embedding", "passages"].items == 2
    assert "zebrafish" not in str([vars(row) for row in found.values()])


def test_block_that_raises_is_counted_as_failed() -> None:
    with pytest.raises(ZeroDivisionError), timed("search", label="hybrid"):
        raise ZeroDivisionError
    measures.flush()
    assert measures.totals()[0].failures == 1


def test_measurements_survive_failed_flush() -> None:
    report(Measurement("search", "hybrid", 0.1))
    with connection.execute_wrapper(_refuse):
        measures.flush()
    assert measures.totals() == []
    measures.flush()
    assert measures.totals()[0].count == 1


def _refuse(execute: object, sql: str, params: object, many: bool, context: object) -> object:
    from django.db import OperationalError

    raise OperationalError("gone")


def test_old_hours_go_and_totals_stay() -> None:
    report(Measurement("task", "search.tasks.index", 1.0))
    measures.flush()
    Measure.objects.exclude(hour=None).update(hour=timezone.now() - timedelta(days=measures.KEPT_DAYS + 1))
    assert measures.prune() == 1
    assert measures.totals()[0].count == 1


def test_quantiles_are_interpolated_within_their_bucket() -> None:
    buckets = [0] * 14
    assert measures.quantile_s(buckets, 0.5) is None
    buckets[4] = 10  # from 0.05 to 0.1 s
    assert measures.quantile_s(buckets, 0.5) == pytest.approx(0.075)
    buckets[13] = 90
    assert measures.quantile_s(buckets, 0.99) == measures.BOUNDS_S[-1]
