"""A search and a recall over many spaces: one budget of work, and answers that say what was left out."""

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from convmemory.accounts.keys import create_key
from convmemory.accounts.models import Archive, Membership
from convmemory.accounts.spaces import create_space
from convmemory.conversations.models import Conversation
from search import searching
from search.adapters.conversations import index_conversation
from tests.factories import NEW_YEAR, exchange, make_conversation, make_user
from tests.support.api import signed_in

pytestmark = pytest.mark.django_db

QUESTION = "which varnish suits the oars of the boat?"
SPACES = 6
SEARCHED = 3


@dataclass
class Reader:
    """Rosa reads so many spaces, of which the first changed last, and has an archive of her own."""

    rosa: User
    program: Client
    browser: Client
    spaces: list[int]
    conversations: list[int]

    def search(self, **query: Any) -> dict[str, Any]:
        response = self.program.get("/api/v1/search", {"query": QUESTION, "limit": 50, **query})
        assert response.status_code == 200, response.content
        answer: dict[str, Any] = response.json()
        return answer

    def use(self, tool: str, **arguments: Any) -> dict[str, Any]:
        response = self.program.post(f"/api/v1/tools/{tool}", arguments, content_type="application/json")
        assert response.status_code == 200, response.content
        answer: dict[str, Any] = response.json()
        return answer

    def add_spaces(self, count: int) -> None:
        """Add spaces, each of which changed before those that were added earlier."""
        mia = User.objects.get(username="mia")
        for _ in range(count):
            number = len(self.spaces)
            space = create_space(person=mia, name=f"Space {number}")
            Membership.objects.create(archive=space, person=self.rosa, role="reader")
            self.spaces.append(space.pk)
            self.conversations.append(stored(space, days=number))


def stored(owner: User | Archive, *, days: int) -> int:
    made = make_conversation(owner, exchange((QUESTION, f"Spar varnish, in {days} coats.")), title="Varnish")
    index_conversation(conversation_id=made.pk)
    Conversation.objects.filter(pk=made.pk).update(updated_at=NEW_YEAR - timedelta(days=days))
    return made.pk


@pytest.fixture
def reader(monkeypatch: pytest.MonkeyPatch) -> Reader:
    monkeypatch.setattr(searching, "MAX_SEARCHED", SEARCHED)
    make_user("mia")
    rosa = make_user("rosa")
    program = Client(headers={"Authorization": f"Bearer {create_key(person=rosa, space_ids=None)}"})
    browser = signed_in(rosa)
    person = Reader(rosa, program, browser, [], [])
    person.add_spaces(SPACES)
    return person


NOTE = "Only these were searched: Your own archive, Space 0, Space 1. 4 other spaces were not: name one to search it."


def test_search_reads_own_archive_and_spaces_that_changed_last_and_says_so(reader: Reader) -> None:
    home = stored(reader.rosa, days=99)
    answer = reader.search()
    assert {hit["conversation_id"] for hit in answer["results"]} == {home, *reader.conversations[:2]}
    assert answer["notes"] == [NOTE]
    last = reader.spaces[-1]
    assert [hit["conversation_id"] for hit in reader.search(space=last)["results"]] == reader.conversations[-1:]
    assert reader.search(space=last)["notes"] == []
    assert NOTE in reader.use("search", query=QUESTION)["note"]
    assert NOTE in reader.browser.get("/search", {"q": QUESTION}).content.decode()
    Conversation.objects.filter(pk=reader.conversations[-1]).update(updated_at=NEW_YEAR + timedelta(days=1))
    shown = {hit["conversation_id"] for hit in reader.search()["results"]}
    assert shown == {home, reader.conversations[-1], reader.conversations[0]}


def test_pages_of_search_hold_hits_of_searched_archives_once(reader: Reader) -> None:
    whole = [hit["conversation_id"] for hit in reader.search()["results"]]
    paged: list[int] = []
    cursor: str | None = ""
    for _ in whole:
        answer = reader.search(limit=1, cursor=cursor)
        paged += [hit["conversation_id"] for hit in answer["results"]]
        cursor = answer["next_cursor"]
    assert cursor is None
    assert sorted(paged) == sorted(whole)


def test_recall_reads_same_archives_and_says_so(reader: Reader) -> None:
    answer = reader.use("recall", query=QUESTION)
    for number, conversation in enumerate(reader.conversations):
        assert (f"/conversations/{conversation}?" in str(answer)) is (number < SEARCHED - 1)
    assert NOTE in answer["note"]
    assert NOTE in reader.browser.get("/recall", {"query": QUESTION}).content.decode()


def test_that_nothing_answers_is_unknown_while_archives_are_left_out(reader: Reader, settings: Any) -> None:
    settings.SEARCH_MIN_RELEVANCE, settings.RECALL_MIN_RELEVANCE = 0.9, 0.9
    for space, answered in ((str(reader.spaces[0]), False), ("", None)):
        query = {"query": "zzqqxx blorf", "space": space}
        assert reader.search(**query)["answered"] is answered
        recalled = reader.program.post("/api/v1/memory/recall", query, content_type="application/json").json()
        assert (recalled["answered"], recalled["results"]) == (answered, [])


def test_time_of_search_runs_out_for_further_archives_alone(reader: Reader, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(searching, "BUDGET_S", -1)
    home = stored(reader.rosa, days=99)
    answer = reader.search()
    assert {hit["conversation_id"] for hit in answer["results"]} == {home}
    assert answer["notes"] == [
        "Only these were searched: Your own archive. 6 other spaces were not: name one to search it."
    ]
    assert reader.search(space=reader.spaces[3])["results"]


def test_number_of_spaces_adds_nothing_to_searches_beyond_budget(reader: Reader) -> None:
    def queries() -> dict[str, int]:
        counts = {}
        for tool in ("search", "recall"):
            reader.use(tool, query=QUESTION)
            with CaptureQueriesContext(connection) as captured:
                reader.use(tool, query=QUESTION)
            counts[tool] = len(captured)
        return counts

    few = queries()
    reader.add_spaces(SPACES)
    assert queries() == few


def test_list_of_conversations_reads_archives_until_page_is_full(reader: Reader) -> None:
    newest = reader.use("list_conversations", limit=2)
    assert [row["conversation_id"] for row in newest["results"]] == reader.conversations[:2]
    with CaptureQueriesContext(connection) as few:
        reader.use("list_conversations", limit=2)
    paged: list[int] = []
    page: dict[str, Any] = {"next_cursor": ""}
    while "next_cursor" in page:
        page = reader.use("list_conversations", limit=2, cursor=page["next_cursor"])
        paged += [row["conversation_id"] for row in page["results"]]
    assert paged == reader.conversations
    reader.add_spaces(SPACES)
    with CaptureQueriesContext(connection) as many:
        reader.use("list_conversations", limit=2)
    assert len(many) == len(few)
