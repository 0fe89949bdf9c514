"""The home page: the river of time, recent conversations and health; a time of it; the first page of a new user."""

import html
import re
from datetime import UTC, datetime

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone
from django.utils.formats import date_format
from pytest_django import DjangoAssertNumQueries

from convmemory.accounts.callers import Caller
from convmemory.accounts.spaces import create_space
from convmemory.conversations.importing.models import Import
from convmemory.conversations.messages import ingest
from convmemory.conversations.models import Conversation
from convmemory.conversations.statistics import count_changed
from convmemory.core.queue.fair_queue import asked_for
from search.adapters.conversations import index_conversation
from search.models import PastSearch
from tests.factories import assistant_says, exchange, make_conversation, make_user, user_says
from tests.support.api import signed_in
from tests.support.markup import flat
from tests.support.ten_years import make_ten_years

pytestmark = pytest.mark.django_db


@pytest.fixture
def client(owner: User) -> Client:
    return signed_in(owner)


def test_new_user_sees_drop_zone_and_sources_of_files(owner: User, client: Client) -> None:
    make_conversation(make_user(), exchange(("q", "a")), title="secret")
    page = client.get("/").content.decode()
    assert "data-drop-form" in page
    assert 'action="/import"' in page
    for product in ("ChatGPT", "Claude Code", "Codex", "Gemini", "Cursor"):
        assert product in page
    assert "secret" not in page


def test_statistics_name_no_tokens_before_they_are_counted(owner: User, client: Client) -> None:
    make_conversation(owner, exchange(("first", "one " * 80)))
    page = flat(client.get("/statistics").content.decode())
    assert "tokens (estimate)</dt><dd>…</dd>" in page
    assert "1 conversation changed and is still being counted." in page
    assert "Tokens by month" not in page
    while count_changed(archive_id=owner.pk):
        pass
    assert re.search(r"tokens \(estimate\)</dt><dd>[1-9]", flat(client.get("/statistics").content.decode()))


def test_home_shows_where_to_go_on_and_whether_all_is_found(owner: User, client: Client) -> None:
    one = make_conversation(
        owner, exchange(("first", "1"), ("second", "2")), title="The <oven>", agent="codex", project="/src/mill"
    )
    Import.objects.create(archive_id=owner.pk, name="broken.zip", size=1, state="failed", error="no")
    at = timezone.localtime()
    earlier = at.replace(year=at.year - 4)  # which has a 29 February, too
    make_conversation(owner, [user_says("then", created_at=earlier)], title="Then")
    page = client.get("/").content.decode()
    assert f">{date_format(earlier)}</time>" in page.partition('id="this-day"')[2]
    assert f'href="/conversations/{one.pk}?turn=1#turn-1"' in page
    assert "The &lt;oven&gt;" in page
    assert "wait to be indexed" in page
    assert "broken.zip</a>, failed." in page
    assert "still to be counted" in page
    assert asked_for("convmemory.conversations.tasks.count_for_statistics").count() == 1


def test_months_and_projects_lead_to_searches_without_scripts(owner: User, client: Client) -> None:
    for year in (2017, 2024):
        at = datetime(year, 5, 14, 12, tzinfo=UTC)
        make_conversation(owner, [user_says("q", created_at=at)], title=f"{year}", project="/src/<b>&mill", agent="x y")
    count_changed(archive_id=owner.pk)
    page = client.get("/").content.decode()
    assert 'href="/search?after=2024-05-01&amp;before=2024-05-31">May 2024</a>' in page
    assert 'href="/search?after=2017-01-01&amp;before=2017-12-31">2017</a>' in page
    assert 'href="/search?project=%2Fsrc%2F%3Cb%3E%26mill"' in page
    assert "<b>&mill" not in page
    assert 'href="/search?agent=x+y"' in client.get("/", {"by": "program"}).content.decode()
    assert "still to be counted" not in page


def test_members_choose_spaces_as_bands(owner: User, client: Client) -> None:
    at = datetime(2024, 5, 14, 12, tzinfo=UTC)
    make_conversation(owner, [user_says("q", created_at=at)], title="Mine")
    count_changed(archive_id=owner.pk)
    assert "by=space" not in client.get("/").content.decode()
    assert 'aria-current="true">Projects' in client.get("/", {"by": "space"}).content.decode()
    space = create_space(person=owner, name='Water & "works"')
    other = create_space(person=owner, name="Laundry")
    for archive in (space, other):
        row = make_conversation(archive, [user_says("q", created_at=at)], title=f"In {archive.name}")
        Conversation.objects.filter(pk=row.pk).update(created_at=at)
    count_changed(archive_id=space.pk)
    page = flat(client.get("/", {"by": "space"}).content.decode())
    assert 'aria-current="true">Spaces' in page
    assert "Water &amp; &quot;works&quot;</span>" in page
    assert "1 conversation still to be counted." in page
    (task,) = asked_for("convmemory.conversations.tasks.count_for_statistics")
    assert task.archive_id == other.pk
    count_changed(archive_id=other.pk)
    page = client.get("/search?after=2024-05-01&before=2024-05-31&by=space").content.decode()
    (link,) = re.findall(r'href="([^"]*Laundry[^"]*)"', page)
    assert "In Laundry" in client.get(html.unescape(link)).content.decode()


def test_search_by_time_alone_shows_what_was_worked_on_then(owner: User, client: Client) -> None:
    at = datetime(2024, 5, 14, 12, tzinfo=UTC)
    drafts = [
        user_says("which lock?", created_at=at),
        assistant_says("Take the lock by its id, always.", created_at=at),
    ]
    one = make_conversation(owner, drafts, title="Dead<lock>", project="/src/mill", agent="codex")
    count_changed(archive_id=owner.pk)
    for address in ("/search?after=2024-05-01&before=2024-05-31", "/search?q=after:2024-05+before:2024-05"):
        page = flat(client.get(address).content.decode())
        assert "<h1>May 2024 <small>2 messages</small></h1>" in page
        assert f'href="/conversations/{one.pk}?turn=0#turn-0"' in page
        assert "Dead&lt;lock&gt;" in page
        assert "Take the lock by its id, always." in page
        assert 'href="/search?after=2024-04-01&amp;before=2024-04-30">April 2024</a>' in page
        assert 'href="/search?project=%2Fsrc%2Fmill&amp;after=2024-05-01&amp;before=2024-05-31"' in page
    assert "/search?after=2026" not in client.get("/search?after=0001-01-01").content.decode().partition("river-way")[2]
    empty = client.get("/search?after=2023-05-01&before=2023-05-31").content.decode()
    assert "No conversation that is counted has a message in this time." in empty
    other = client.get("/search?after=2024-05-01&before=2024-05-31&project=x").content.decode()
    assert "What was worked on" not in other


@pytest.mark.parametrize(
    "query",
    [
        "after=0001-01-01&before=9999-12-31", "after=9999-12-31&before=9999-12-31", "after=0001-01-01",
        "after=2024-02-30", "after=%00", "after=2024-05-01&before=2023-05-01", "after=2024-05-01&by=%3Cscript%3E",
        "after=" + "9" * 5000, "before=2024-05-01", "after=1970-01-01", "after=2999-01-01",
        "after=2024-13-01&by=program",
    ],
)  # fmt: skip
def test_time_that_is_none_or_far_away_breaks_nothing(owner: User, client: Client, query: str) -> None:
    for year in (1, 2024, 9999):
        make_conversation(owner, [user_says("q", created_at=datetime(year, 5, 14, 12, tzinfo=UTC))], title=f"{year}")
    count_changed(archive_id=owner.pk)
    answer = client.get(f"/search?{query}")
    assert answer.status_code in (200, 400, 422)
    assert b"<script>" not in answer.content.split(b"<main")[-1]


def test_saved_searches_say_how_many_hits_are_dated_since_their_last_use(owner: User, client: Client) -> None:
    for address in ("q=capital+of+Peru", "agent=codex", "after=2025-01-01&before=2025-02-01"):
        assert client.post(f"/search/keep?{address}").status_code == 302
    left = {"address": "q=Peru&space=99999", "text": "Peru", "used_at": timezone.now(), "saved_at": timezone.now()}
    PastSearch.objects.create(archive_id=owner.pk, **left)

    def listed(person: Client = client) -> str:
        return person.get("/search/saved").content.decode()

    assert "past-new" not in listed()
    assert listed().count("Take “Filters only” off the list") == 2
    stranger = make_user()
    for person in (owner, stranger):
        said = (
            user_says("What is the capital of Peru?", created_at=timezone.now()),
            assistant_says("The capital of Peru is Lima.", created_at=timezone.now()),
        )
        index_conversation(conversation_id=make_conversation(person, said, agent="codex").pk)
    assert listed().count("1 new") == listed().count("past-new") == 2
    assert 'hx-get="/search/saved"' in client.get("/").content.decode()
    client.get("/search", {"q": "capital of Peru"})
    client.get("/search", {"agent": "codex"})
    assert "past-new" not in listed()
    other = signed_in(stranger)
    assert "Peru" not in listed(other)


@pytest.mark.parametrize(
    ("address", "sentence"),
    [
        ("q=x", "Keep typing: a query has at least 2 characters."),
        ("q=lock&after=2024-05-01&before=2023-05-01", "after"),
        ("q=lock&after=2024-02-30", "is not a date"),
        ("q=lock+space:Nowhere", "You read no space “Nowhere” here."),
        ("q=lock&mode=none", "mode"),
        ("q=lock&space=99999", "not yours to see"),
        ("after=never", "is not a date"),
    ],
)
def test_search_that_cannot_work_is_not_saved(client: Client, address: str, sentence: str) -> None:
    answer = client.post(f"/search/keep?{address}")
    assert answer.status_code in (400, 404, 422)
    assert sentence in html.unescape(answer.content.decode())
    assert not PastSearch.objects.exists()


def test_saved_searches_are_lanes_with_days_of_their_hits(owner: User, client: Client) -> None:
    stranger = make_user()
    client.post("/search/keep?q=capital+of+Peru")
    for person in (owner, stranger):
        said = (
            user_says("What is the capital of Peru?", created_at=datetime(2024, 5, 14, tzinfo=UTC)),
            assistant_says("The capital of Peru is Lima.", created_at=datetime(2024, 5, 14, tzinfo=UTC)),
        )
        index_conversation(conversation_id=make_conversation(person, said, title="Peru").pk)
        count_changed(archive_id=person.pk)
    (row,) = PastSearch.objects.all()
    page = flat(client.get("/").content.decode())
    assert 'hx-get="/search/saved?lanes"' in page
    assert f'id="lane-{row.pk}" data-lane' in page
    main = client.get("/", headers={"HX-Request": "true", "HX-Target": "main"}).content.decode()
    assert 'hx-get="/search/saved?lanes"' in main

    def lanes_of(person: Client = client) -> str:
        return flat(person.get("/search/saved?lanes").content.decode())

    (span,) = re.findall(rf'<span id="lane-{row.pk}" hx-swap-oob="innerHTML">(.*?)</span>', lanes_of())
    assert span.count("<a ") == span.count('data-day="2024-05-14"') == 1
    assert 'title="Peru · 14 May 2024"' in span
    assert "is-new" not in span
    assert "lane-" not in client.get("/search/saved").content.decode()
    PastSearch.objects.update(used_at=datetime(2024, 5, 1, tzinfo=UTC))
    assert f'<small id="new-{row.pk}" hx-swap-oob="innerHTML">1 new</small>' in lanes_of()
    assert "is-hit is-new" in lanes_of()
    other = signed_in(stranger)
    assert "Peru" not in lanes_of(other)


@pytest.mark.parametrize("address", ["/", "/?by=space", "/search?after=2024-05-01&before=2024-05-31"])
def test_home_takes_few_queries_however_much_there_is(
    owner: User, client: Client, django_assert_max_num_queries: DjangoAssertNumQueries, address: str
) -> None:
    made = make_ten_years(owner, 40)
    for number in range(3):
        space = create_space(person=owner, name=f"Space {number}")
        make_conversation(space, exchange(("q", "a")), title="In a space")
        count_changed(archive_id=space.pk)
        client.post(f"/search/keep?q=word+{number}")
    ingest.append_messages(caller=Caller.of(owner), conversation_id=made[0].pk, drafts=[user_says("more")])
    client.get(address)
    with django_assert_max_num_queries(14):
        page = client.get(address).content.decode()
    assert 'class="is-star"' in page or "/search?" in address
    assert "conversation still to be counted" in page or "/search?" in address
