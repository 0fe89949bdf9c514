"""A client that keeps its own ids stores, finds and continues its conversations by them alone."""

import json
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client

from convmemory.accounts.keys import create_key
from convmemory.conversations.models import Conversation
from search.adapters.conversations import index_conversation
from tests.factories import exchange, make_conversation, make_user

pytestmark = pytest.mark.django_db

PERU = [
    {"role": "user", "content": "what is the capital of Peru?"},
    {"role": "assistant", "content": "Lima."},
]
CHILE = [
    {"role": "user", "content": "and of Chile?"},
    {"role": "assistant", "content": "Santiago."},
]


class Api:
    """A caller with a key."""

    def __init__(self, user: User) -> None:
        self.client = Client(headers={"Authorization": f"Bearer {create_key(person=user)}"})

    def get(self, path: str, **query: Any) -> Any:
        return self.client.get(f"/api/v1{path}", query)

    def post(self, path: str, body: Any) -> Any:
        return self.client.post(f"/api/v1{path}", json.dumps(body), content_type="application/json")


@pytest.fixture
def owner() -> User:
    return make_user()


@pytest.fixture
def api(owner: User) -> Api:
    return Api(owner)


def texts(api: Api, number: int) -> list[str]:
    rows = api.get(f"/conversations/{number}/messages").json()["results"]
    return [row["parts"][0]["text"] for row in rows]


def test_known_id_answers_with_conversation_it_names(api: Api) -> None:
    first = api.post("/conversations", {"source_id": "chat/7", "messages": PERU})
    again = api.post("/conversations", {"source_id": "chat/7", "messages": PERU})
    bare = api.post("/conversations", {"source_id": "chat/7"})
    assert [answer.status_code for answer in (first, again, bare)] == [201, 200, 200]
    assert len({answer.json()["id"] for answer in (first, again, bare)}) == 1
    assert again.json()["message_count"] == 2
    assert Conversation.objects.count() == 1


def test_continued_messages_are_appended_and_contradicting_ones_refused(api: Api) -> None:
    number = api.post("/conversations", {"source_id": "7", "messages": PERU}).json()["id"]
    grown = api.post("/conversations", {"source_id": "7", "messages": PERU + CHILE}).json()
    assert (grown["id"], grown["message_count"], grown["turn_count"]) == (number, 4, 2)
    assert texts(api, number) == [m["content"] for m in PERU + CHILE]
    other = api.post("/conversations", {"source_id": "7", "messages": CHILE})
    assert other.status_code == 422
    assert other.json()["id"] == number
    assert f"/conversations/{number}/messages" in other.json()["detail"]
    assert len(texts(api, number)) == 4


def test_without_id_every_post_is_new_conversation(api: Api) -> None:
    numbers = [api.post("/conversations", {"messages": PERU}).json()["id"] for _ in range(2)]
    assert len(set(numbers)) == 2


def test_list_and_search_take_id(api: Api, owner: User) -> None:
    number = api.post("/conversations", {"source_id": "7", "messages": PERU}).json()["id"]
    other = api.post("/conversations", {"source_id": "8", "messages": PERU}).json()["id"]
    for conversation in (number, other):
        index_conversation(conversation_id=conversation)
    assert [row["id"] for row in api.get("/conversations", source_id="7").json()["results"]] == [number]
    assert api.get("/conversations", source_id="7", source="claude-code").json()["results"] == []
    assert api.get("/conversations", source_id="9").json()["results"] == []
    hits = api.get("/conversations/search", query="capital of Peru", source_id="8").json()["results"]
    assert [hit["conversation_id"] for hit in hits] == [other]
    assert api.get("/conversations/search", query="capital of Peru", source_id="9").status_code == 404


TURN = {"turn_number": 0, "user": "what is the capital of Peru?", "assistant": "Lima."}


@pytest.mark.parametrize("own_id", ["7", "chat/2026/7", "7 é"])
def test_turn_is_indexed_by_id_alone(api: Api, own_id: str) -> None:
    address = f"/conversations/by-source/maestro/{own_id}/turns"
    made = api.post(address, {**TURN, "title": "Geography", "agent": "tutor"})
    assert (made.status_code, made.json()["outcome"]) == (201, "created")
    number = made.json()["conversation_id"]
    assert made.json()["url"] == f"/conversations/{number}?turn=0"
    again = api.post(address, TURN)
    assert (again.status_code, again.json()["outcome"]) == (200, "unchanged")
    replaced = api.post(address, {**TURN, "assistant": "Lima, of course."})
    assert (replaced.status_code, replaced.json()["outcome"]) == (200, "replaced")
    second = api.post(address, {**TURN, "turn_number": 1})
    assert (second.status_code, second.json()["turn_number"]) == (201, 1)
    row = Conversation.objects.get()
    assert (row.pk, row.source, row.source_id, row.title, row.agent) == (
        number,
        "maestro",
        own_id,
        "Geography",
        "tutor",
    )
    index_conversation(conversation_id=number)
    hits = api.get("/conversations/search", query="capital of Peru").json()["results"]
    assert {hit["conversation_id"] for hit in hits} == {number}


def test_turn_is_appended_to_conversation_posted_earlier(api: Api) -> None:
    number = api.post("/conversations", {"source_id": "7", "messages": PERU}).json()["id"]
    done = api.post(
        "/conversations/by-source/api/7/turns", {"turn_number": 1, "user": "Chile?", "assistant": "Santiago."}
    )
    assert (done.status_code, done.json()["conversation_id"]) == (201, number)


def test_refused_turn_creates_no_conversation(api: Api) -> None:
    gap = api.post("/conversations/by-source/maestro/7/turns", {**TURN, "turn_number": 3})
    assert gap.status_code == 422
    assert "gap" in gap.json()["detail"]
    assert api.post(f"/conversations/by-source/{'x' * 51}/7/turns", TURN).status_code == 422
    assert not Conversation.objects.exists()


def test_source_ids_are_separate_per_owner(api: Api, owner: User) -> None:
    foreign = make_conversation(make_user(), exchange(("secret", "secret")), source_id="7")
    mine = api.post("/conversations", {"source_id": "7", "messages": PERU})
    assert mine.status_code == 201
    assert mine.json()["id"] != foreign.pk
    assert (
        api.post("/conversations/by-source/api/7/turns", {**TURN, "turn_number": 1}).json()["conversation_id"]
        == (mine.json()["id"])
    )
    assert Conversation.objects.get(pk=foreign.pk).message_count == 2
