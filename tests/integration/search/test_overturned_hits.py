"""A hit says which later turn of its conversation or project decides otherwise: search, tools, recall, API and page."""

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from convmemory.accounts.callers import Caller
from convmemory.chat.asking import Evidence
from convmemory.conversations.messages.drafts import MessageDraft
from convmemory.conversations.models import Conversation
from convmemory.tools.registry import run_tool
from convmemory.tools.searching import search_as_text
from search.adapters.conversations import index_conversation
from search.results.hits import Hit
from search.searching import SearchQuery, search
from tests.factories import assistant_says, make_conversation, make_user, user_says

pytestmark = pytest.mark.django_db

QUERY = "what did we decide about signing the JWTs"
FIRST = ("Is HS256 ok for signing the JWTs?", "Yes, HS256 is fine for signing them.")
LATER = ("The partner must verify them, so sign the JWTs with EdDSA instead.", "The keys are Ed25519 now.")
MARCH, MAY = datetime(2026, 3, 1, tzinfo=UTC), datetime(2026, 5, 1, tzinfo=UTC)


def turn(said: tuple[str, str], moment: datetime = MARCH) -> list[MessageDraft]:
    return [user_says(said[0], created_at=moment), assistant_says(said[1], created_at=moment)]


def indexed(owner: User, messages: Sequence[MessageDraft], **values: Any) -> Conversation:
    conversation = make_conversation(owner, messages, **values)
    index_conversation(conversation_id=conversation.pk)
    return conversation


def hit_of(owner: User, conversation: Conversation, number: int = 0) -> Hit:
    hits = search(caller=Caller.of(owner), query=SearchQuery(text=QUERY)).hits
    return next(hit for hit in hits if (hit.object_id, hit.number) == (conversation.pk, number))


def test_later_turn_of_conversation_that_decides_otherwise_goes_with_hit(owner: User, client: Client) -> None:
    conversation = indexed(owner, [*turn(FIRST), *turn(LATER)])
    later = hit_of(owner, conversation).turn.overturned
    assert later is not None
    assert (later.url, later.quote) == (f"/conversations/{conversation.pk}?turn=1", LATER[0])
    assert hit_of(owner, conversation, 1).turn.overturned is None
    evidence = Evidence(1, hit_of(owner, conversation), url="", text="")
    assert evidence.label.endswith(f'; a later turn says otherwise: "{LATER[0]}"')

    answer = run_tool("search", {"query": QUERY}, Caller.of(owner))
    (line,) = [line for line in search_as_text(answer).splitlines() if "?turn=0)" in line.partition(" | ")[0]]
    assert f"**turn 1 says otherwise**: [{LATER[0]}](" in line
    recalled = run_tool("recall", {"query": QUERY}, Caller.of(owner))
    assert f"turn 1 says otherwise: {LATER[0]}" in recalled["context"]

    client.force_login(owner)
    page = client.get("/search", {"q": QUERY}).content.decode()
    assert "Turn 2 says otherwise:" in page
    assert f'href="/conversations/{conversation.pk}?turn=1"' in page
    (found,) = [
        result
        for result in client.get("/api/v1/search", {"query": QUERY}).json()["results"]
        if result["turn_number"] == 0
    ]
    assert found["overturned"]["quote"] == LATER[0]
    body = json.dumps({"query": QUERY, "min_relevance": 0})
    results = client.post("/api/v1/memory/recall", body, content_type="application/json").json()["results"]
    assert {one["turn_number"]: one["overturned"] for one in results}[0]["turn_number"] == 1


def test_later_turn_of_project_counts_and_one_of_another_project_does_not(owner: User) -> None:
    first = indexed(owner, turn(FIRST), project="/srv/barn")
    indexed(owner, turn(LATER, MAY), project="/srv/other")
    assert hit_of(owner, first).turn.overturned is None
    later = indexed(owner, turn(LATER, MAY), project="/srv/barn")
    overturned = hit_of(owner, first).turn.overturned
    assert overturned is not None
    assert overturned.conversation_id == later.pk


@pytest.mark.parametrize("compares_later", [True, False])
def test_later_turns_are_read_for_a_query_that_compares_them_alone(owner: User, compares_later: bool) -> None:
    indexed(owner, [*turn(FIRST), *turn(LATER)])
    query = SearchQuery(text=QUERY, compares_later=compares_later)
    with CaptureQueriesContext(connection) as queries:
        hits = search(caller=Caller.of(owner), query=query).hits
    assert any(hit.turn.overturned for hit in hits) is compares_later
    assert any("outcome ->> 'conclusion'" in one["sql"] for one in queries) is compares_later


def test_turn_of_another_owner_overturns_nothing(owner: User) -> None:
    first = indexed(owner, turn(FIRST), project="/srv/barn")
    indexed(make_user("stranger"), [*turn(FIRST, MAY), *turn(LATER, MAY)], project="/srv/barn")
    assert hit_of(owner, first).turn.overturned is None
