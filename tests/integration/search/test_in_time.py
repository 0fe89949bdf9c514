"""Time expressions in queries, over stored turns: days, events, the first and the latest, and who may see them."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Any

import numpy as np
import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from pytest_django import DjangoDbBlocker

from convmemory.accounts.callers import Caller
from convmemory.conversations.messages import ingest
from convmemory.conversations.messages.drafts import ConversationDraft
from convmemory.tools.registry import run_tool
from memory.recall import RecallQuery, recall
from search.adapters.conversations import index_conversation
from search.models import Source
from search.pipeline import LONG_CHARS, rank_items
from search.query_text import QueryText
from search.ranking.in_time import MISSING, local_days, read_moments
from search.ranking.time_names import name_of_time
from search.retrieval.candidates import Feature, item_keys
from search.retrieval.prepared import PreparedQuery
from search.searching import SearchQuery, SearchResults, search
from tests.factories import exchange, make_user
from tests.support.run_database import empty_tables

pytestmark = pytest.mark.django_db

TODAY = date(2026, 11, 18)
LAUNCH = (date(2026, 9, 12), "the launch of Harbour is today", "Congratulations to all who built Harbour!")
OTHERS = (
    ("how long do I boil an egg", "Seven minutes."),
    ("which knife for bread", "A serrated one."),
    ("why does the build fail", "The certificate of the proxy has expired."),
    ("write a limerick about a cat", "There once was a cat in the hall."),
    ("what is a monad", "A monoid in the category of endofunctors."),
)


def talk(owner: User, day: date, question: str, answer: str) -> int:
    """A conversation of one turn on a day; its id."""
    when = datetime(day.year, day.month, day.day, 12, tzinfo=UTC)
    draft = ConversationDraft(messages=exchange((question, answer)), created_at=when)
    conversation = ingest.create_conversation(caller=Caller.of(owner), draft=draft)
    index_conversation(conversation_id=conversation.pk)
    return conversation.pk


@dataclass(frozen=True, slots=True)
class Archive:
    """Talks of one person that differ in little but their days, by the names of their months, among others."""

    owner: User
    retros: dict[str, int]


def make_archive(*more: tuple[date, str, str]) -> Archive:
    owner = make_user()
    for number, (question, answer) in enumerate(OTHERS):
        talk(owner, date(2026, 7, 1 + number), question, answer)
    days = {"august": date(2026, 8, 28), "september": date(2026, 9, 25), "october": date(2026, 10, 30)}
    retros = {name: talk(owner, days[name], "summarise our retro", f"The team talked about {name}.") for name in days}
    for day, question, answer in more:
        talk(owner, day, question, answer)
    return Archive(owner, retros)


@pytest.fixture(scope="module")
def archives(django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> Iterator[tuple[Archive, Archive]]:
    """Indexed once for all tests here: one archive without the launch of Harbour, and one with it."""
    with django_db_blocker.unblock():
        archives = make_archive(), make_archive(LAUNCH)
        yield archives
        empty_tables()  # no test's transaction takes back the space and the tickets of what was to be indexed


@pytest.fixture
def owner(archives: tuple[Archive, Archive]) -> User:
    return archives[0].owner


@pytest.fixture
def retros(archives: tuple[Archive, Archive]) -> dict[str, int]:
    return archives[0].retros


def find(owner: Any, text: str, **values: Any) -> SearchResults:
    return search(caller=Caller.of(owner), query=SearchQuery(text=text, today=TODAY, **values))


def first(found: SearchResults) -> int:
    return found.hits[0].object_id


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("last month", "october"), ("two months ago", "september"), ("in August", "august"), ("last summer", "august"),
        ("the first time", "august"), ("the last time", "october"), ("latest", "october"), ("earliest", "august"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("mode", ["hybrid", "semantic", "full_text"])
def test_turns_of_time_come_first(owner: User, retros: dict[str, int], words: str, expected: str, mode: str) -> None:
    assert first(find(owner, f"our retro {words}", mode=mode)) == retros[expected]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("two weeks before the launch of Harbour", {"august"}),
        ("seven weeks after the launch of Harbour", {"october"}),
        ("before the launch of Harbour", {"august"}), ("after the launch of Harbour", {"september", "october"}),
    ],
)  # fmt: skip
def test_event_in_query_is_dated_before_search(
    archives: tuple[Archive, Archive], words: str, expected: set[str]
) -> None:
    launched = archives[1]
    found = find(launched.owner, f"what did the retro say {words}")
    names = {conversation_id: name for name, conversation_id in launched.retros.items()}
    assert next(names[hit.object_id] for hit in found.hits if hit.object_id in names) in expected
    assert found.time is not None
    assert "2026" in name_of_time(found.time)


def test_event_of_another_owner_is_not_used(owner: User) -> None:
    labels = {find(owner, "the retro before the launch of Harbour").time for _ in range(2)}
    assert all(label is None or "12 Sep" not in name_of_time(label) for label in labels)


def test_without_word_of_time_day_does_not_matter(owner: User) -> None:
    found = find(owner, "our retro of august")
    assert find(owner, "what the team talked about").time is None
    assert found.hits


def test_timeless_query_treats_time_expressions_as_words(owner: User) -> None:
    read, plain = find(owner, "our retro last month"), find(owner, "our retro last month", is_timeless=True)
    assert read.notes == ("Read “last month” as October 2026.",)
    assert (plain.notes, plain.time) == ((), None)


def test_cursor_belongs_to_one_reading(owner: User) -> None:
    query = SearchQuery(text="our retro last month", today=TODAY, limit=1)
    cursor = search(caller=Caller.of(owner), query=query).next_cursor
    assert cursor
    assert search(caller=Caller.of(owner), query=query, cursor=cursor).hits
    assert query.identity != SearchQuery(text="our retro last month", limit=1, is_timeless=True).identity


def test_period_without_turns_keeps_order(owner: User) -> None:
    query = "the retro of september in March 2020"
    assert [hit.object_id for hit in find(owner, query).hits] == [
        hit.object_id for hit in find(owner, query, is_timeless=True).hits
    ]


def test_tools_and_recall_parse_time_expressions() -> None:
    owner = make_user()
    talk(owner, date(2020, 1, 1), "summarise our retro", "The team talked about the old year.")
    found: Any = run_tool("ConversationSearch", caller=Caller.of(owner), arguments={"query": "our latest retro"})
    assert found["note"] == "Read “latest” as the latest first."
    assert recall(caller=Caller.of(owner), query=RecallQuery("our latest retro")).notes == (
        "Read “latest” as the latest first.",
    )


def test_time_expression_takes_two_more_queries_and_event_one_more_search(owner: User) -> None:
    def queries(text: str, **values: Any) -> int:
        find(owner, text, **values)
        with CaptureQueriesContext(connection) as caught:
            find(owner, text, **values)
        return len(caught)

    plain = queries("our retro last month", is_timeless=True)
    assert queries("our latest retro") == plain + 1
    assert queries("our retro last month") == plain + 2
    assert queries("our retro before the launch") <= 2 * plain + 2


@pytest.mark.parametrize("zone", ["UTC", "Asia/Tokyo"])
def test_moments_are_same_whether_all_or_some_items_are_read(owner: User, zone: str) -> None:
    query = PreparedQuery(owner.pk, QueryText("retro"))
    sources = Source.objects.filter(archive_id=owner.pk).order_by("pk").values_list("pk", flat=True)
    keys = item_keys([*sources, max(sources) + 1], [0] * (len(sources) + 1))  # the last is not there
    with timezone.override(zone):
        whole, some = (read_moments(query, keys, item_count=count) for count in (len(keys), 1000))
        part = read_moments(query, keys[2:4], item_count=3)
        np.testing.assert_array_equal(local_days(whole), local_days(some))
    np.testing.assert_array_equal(whole, some)
    assert whole[-1] == MISSING
    np.testing.assert_array_equal(part, whole[2:4])


def test_moments_of_another_owner_are_not_read(archives: tuple[Archive, Archive]) -> None:
    sources = list(Source.objects.order_by("pk").values_list("pk", flat=True))
    stranger = PreparedQuery(make_user().pk, QueryText("retro"))
    for count in (len(sources), 1000):
        read = read_moments(stranger, item_keys(sources, [0] * len(sources)), item_count=count)
        assert set(read.tolist()) == {MISSING}


def test_moments_read_ahead_for_long_query_rank_same(owner: User, monkeypatch: pytest.MonkeyPatch) -> None:
    text = f"what did the team talk about in the retro of October 2026, and {'what else was said there, ' * 5}"
    assert len(text) >= LONG_CHARS
    query = SearchQuery(text=text, today=TODAY)
    ahead = rank_items(archive_id=owner.pk, query=query)
    monkeypatch.setattr("search.pipeline.LONG_CHARS", len(text) + 1)
    later = rank_items(archive_id=owner.pk, query=query)
    assert ahead.table.columns[Feature.DATE].max() == 1 > ahead.table.columns[Feature.DATE].min()
    assert ahead.table.columns[Feature.DATE].tolist() == later.table.columns[Feature.DATE].tolist()
    assert ahead.order.tolist() == later.order.tolist()
