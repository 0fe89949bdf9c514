"""The home page: recent conversations, the year, projects and health; and the first page of a new user."""

from datetime import date

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone
from django.utils.translation import override
from pytest_django import DjangoAssertNumQueries

from convmemory.conversations.importing.models import Import
from convmemory.conversations.models import Message
from convmemory.conversations.statistics import Day, count_changed
from convmemory.core.queue.fair_queue import asked_for
from search.adapters.conversations import index_conversation
from search.home import heatmap_of
from tests.factories import exchange, make_conversation, make_user

pytestmark = pytest.mark.django_db


@pytest.fixture
def client(owner: User) -> Client:
    client = Client()
    client.force_login(owner)
    return client


def test_new_user_sees_drop_zone_and_sources_of_files(owner: User, client: Client) -> None:
    make_conversation(make_user(), exchange(("q", "a")), title="secret")
    page = client.get("/").content.decode()
    assert "data-drop-form" in page
    assert 'action="/import"' in page
    for product in ("ChatGPT", "Claude Code", "Codex", "Gemini", "Cursor"):
        assert product in page
    assert "secret" not in page


def test_home_shows_where_to_go_on_and_whether_all_is_found(owner: User, client: Client) -> None:
    one = make_conversation(
        owner, exchange(("first", "1"), ("second", "2")), title="The <oven>", agent="codex", project="/src/mill"
    )
    Import.objects.create(archive_id=owner.pk, name="broken.zip", size=1, state="failed", error="no")
    page = client.get("/").content.decode()
    assert f'href="/conversations/{one.pk}?turn=1#turn-1"' in page
    assert "The &lt;oven&gt;" in page
    assert 'href="/library?project=' in page
    assert "wait to be indexed" in page
    assert "broken.zip</a>, failed." in page
    assert "still to be counted" in page
    assert "active days" not in page  # that count is not known yet
    assert asked_for("convmemory.conversations.tasks.count_for_statistics").count() == 1


def test_days_of_year_lead_to_what_was_said(owner: User, client: Client) -> None:
    one = make_conversation(owner, exchange(("first", "1")))
    index_conversation(conversation_id=one.pk)
    today = timezone.localdate()
    Message.objects.filter(conversation=one).update(created_at=timezone.now())
    count_changed(archive_id=owner.pk)
    page = client.get("/").content.decode()
    assert f"/search?after={today}&amp;before={today}" in page
    assert "1 active day" in page
    assert "All 1 turns are indexed." in page


def test_heatmap_says_each_day_once_and_in_page_s_language() -> None:
    quiet, one, many = Day(date(2026, 5, 4), 0), Day(date(2026, 5, 5), 1, 1), Day(date(2026, 5, 6), 1200, 4)
    with override("de"):
        (first, second) = heatmap_of([[quiet, one, many], [Day(date(2026, 5, 11), 0)]])
    assert (first.month, second.month) == ("Mai", "")
    assert [day.level for day in first.days] == [0, 1, 4]
    assert [day.said for day in first.days] == ["", "5. Mai 2026: 1 Nachricht", "6. Mai 2026: 1.200 Nachrichten"]
    assert [day.address for day in first.days] == [
        "", "/search?after=2026-05-05&before=2026-05-05", "/search?after=2026-05-06&before=2026-05-06"
    ]  # fmt: skip


def test_home_takes_few_queries_however_much_there_is(
    owner: User, client: Client, django_assert_max_num_queries: DjangoAssertNumQueries
) -> None:
    for number in range(40):
        make_conversation(owner, exchange(("q", "a")), title=f"{number}", project=f"/src/{number}")
    client.get("/")
    with django_assert_max_num_queries(15):
        client.get("/")
