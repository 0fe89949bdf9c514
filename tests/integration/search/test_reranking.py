"""Searching with a reranker: its order over pages, what it is sent, and the fused order where it gives none."""

import logging
from collections.abc import Iterator
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from pytest_django import Settings

from convmemory.accounts.callers import Caller
from convmemory.conversations.models import Conversation
from convmemory.core.cursors import encode_cursor
from convmemory.core.errors import InvalidInput
from convmemory.tools.registry import run_tool
from memory.recall import RecallQuery, recall
from search.adapters.conversations import index_conversation
from search.models import RerankerWeight
from search.ranking import reranking
from search.ranking.reranking import PASSAGE_CHARS, QUESTION_CHARS
from search.searching import SearchQuery, SearchResults, search
from tests.factories import exchange, make_conversation, make_user, source_id
from tests.support.rerank_server import RerankServer, running_reranker
from tests.support.stored_rows import stored_for_file

pytestmark = pytest.mark.django_db

TURNS = 12
TOP_K = 6


@pytest.fixture(scope="module", autouse=True)
def closed_afterwards() -> Iterator[None]:
    yield
    reranking.close_connections()


@pytest.fixture
def server(settings: Settings, db: None) -> Iterator[RerankServer]:
    """A reranker that turns the best hits round, set up; it weighs so much that its order shows."""
    with running_reranker() as running:
        RerankerWeight.objects.create(name="ranker", weight=100.0, questions=1, gain=0.0)
        settings.RERANK_URL = running.url
        settings.RERANK_API_KEY = running.key
        settings.RERANK_MODEL = "ranker"
        settings.RERANK_TOP_K = TOP_K
        settings.RERANK_TIMEOUT_S = 20.0
        yield running


def store_owner() -> User:
    user = make_user()
    pairs = [(f"egg number {n}", f"boiled {n} minutes") for n in range(TURNS)]
    index_conversation(conversation_id=make_conversation(user, exchange(*pairs)).pk)
    return user


owner = stored_for_file(store_owner)


def find(owner: User, text: str = "boiled egg", cursor: str = "", **values: Any) -> SearchResults:
    return search(caller=Caller.of(owner).alone(), query=SearchQuery(text=text, **values), cursor=cursor)


def turns(results: SearchResults) -> list[int]:
    return [hit.number for hit in results.hits]


def fused(owner: User, **values: Any) -> list[int]:
    query = SearchQuery(text="boiled egg", limit=50, may_rerank=False, **values)
    return turns(search(caller=Caller.of(owner), query=query))


def paged(owner: User, limit: int, cursor: str = "") -> list[int]:
    """The turns of all pages from `cursor` on, each page full but the last."""
    found = []
    while True:
        page = find(owner, limit=limit, cursor=cursor)
        found += turns(page)
        if page.next_cursor is None:
            return found
        assert len(page.hits) == limit
        cursor = page.next_cursor


def turned_round(order: list[int]) -> list[int]:
    return [*order[:TOP_K][::-1], *order[TOP_K:]]


@pytest.mark.parametrize("shape", ["cohere", "tei"])
@pytest.mark.parametrize("mode", ["hybrid", "semantic"])
def test_best_hits_follow_rerankers_order_and_name_it(
    owner: User, server: RerankServer, settings: Settings, shape: str, mode: str
) -> None:
    settings.RERANK_SHAPE = shape
    found = find(owner, limit=50, mode=mode)
    assert turns(found) == turned_round(fused(owner, mode=mode))
    assert ["reranker" in hit.matched for hit in found.hits] == [True] * TOP_K + [False] * (TURNS - TOP_K)
    assert found.notes == ()


def test_search_without_rerank_url_sends_no_request(owner: User, server: RerankServer, settings: Settings) -> None:
    settings.RERANK_URL = ""
    assert turns(find(owner, limit=50)) == fused(owner)
    assert server.requests == []


def test_words_alone_are_not_reranked(owner: User, server: RerankServer) -> None:
    assert turns(find(owner, limit=50, mode="full_text")) == fused(owner, mode="full_text")
    assert server.requests == []


@pytest.mark.parametrize("limit", [1, 2, 3, 4, 5, 6, 7, 12, 50])
def test_pages_follow_each_other_without_gap_or_repeat(owner: User, server: RerankServer, limit: int) -> None:
    assert paged(owner, limit) == turned_round(fused(owner))
    assert len(server.requests) == 1


@pytest.mark.parametrize("limit", [1, 4, 6, 7])
def test_reranker_failure_between_pages_keeps_reranked_order(owner: User, server: RerankServer, limit: int) -> None:
    first = find(owner, limit=limit)
    server.status = 500
    assert first.next_cursor
    assert turns(first) + paged(owner, limit, first.next_cursor) == turned_round(fused(owner))


@pytest.mark.parametrize("limit", [1, 4, 6, 7])
def test_reranker_recovery_between_pages_keeps_fused_order(owner: User, server: RerankServer, limit: int) -> None:
    server.status = 500
    first = find(owner, limit=limit)
    server.status = 200
    assert first.next_cursor
    assert turns(first) + paged(owner, limit, first.next_cursor) == fused(owner)


def test_hits_of_later_pages_say_that_reranker_placed_them(owner: User, server: RerankServer) -> None:
    second = find(owner, limit=4, cursor=find(owner, limit=4).next_cursor or "")
    assert ["reranker" in hit.matched for hit in second.hits] == [True, True, False, False]


def test_size_of_page_may_change_on_way(owner: User, server: RerankServer) -> None:
    first = find(owner, limit=2)
    rest = find(owner, limit=50, cursor=first.next_cursor or "")
    assert turns(first) + turns(rest) == turned_round(fused(owner))


def test_new_turn_between_pages_neither_repeats_nor_hides_hits(owner: User, server: RerankServer) -> None:
    best = turned_round(fused(owner))[:TOP_K]
    first = find(owner, limit=3)
    newer = make_conversation(owner, exchange(("boiled egg", "boiled egg, egg boiled")))
    index_conversation(conversation_id=newer.pk)
    assert find(owner, limit=1).hits[0].object_id != newer.pk  # turned round: it is the best of the fused ones
    assert turns(first) + turns(find(owner, limit=3, cursor=first.next_cursor or "")) == best


def test_single_hit_is_not_reranked(owner: User, server: RerankServer) -> None:
    other = make_user()
    index_conversation(conversation_id=make_conversation(other, exchange(("egg", "boiled"))).pk)
    assert turns(find(other)) == [0]
    assert find(make_user()).hits == []
    assert server.requests == []


def test_number_of_queries_stays_same(owner: User, server: RerankServer, django_assert_num_queries: Any) -> None:
    find(owner)  # warms the space and the query's vector
    with django_assert_num_queries(5):
        find(owner)


def test_reranker_of_weight_zero_gets_no_request(owner: User, server: RerankServer) -> None:
    RerankerWeight.objects.update(weight=0.0)
    found = find(owner, limit=50)
    assert turns(found) == fused(owner)
    assert found.notes == ()
    assert server.requests == []


def test_unmeasured_reranker_does_not_change_best_hit(owner: User, server: RerankServer, settings: Settings) -> None:
    index_conversation(conversation_id=make_conversation(owner, exchange(("my bicycle", "was stolen"))).pk)
    settings.RERANK_MODEL = "unknown"
    best = find(owner, "the stolen bicycle", limit=50).hits[0]
    assert best.heading == "my bicycle"
    assert server.requests[0]["documents"][0].startswith("my bicycle")  # which the reranker puts last


def test_reranker_gets_question_and_best_passage_of_each_turn(owner: User, server: RerankServer) -> None:
    hits = find(owner, 'boiled egg -"fried"', has_operators=True).hits
    [asked] = server.requests
    assert asked["query"] == "boiled egg"
    assert len(asked["documents"]) == TOP_K
    sent = {f"{hit.heading}\n{hit.passage}" for hit in hits if hit.passage != hit.heading}
    sent |= {hit.heading for hit in hits if hit.passage == hit.heading}
    assert set(asked["documents"]) <= sent


def test_long_texts_are_cut(server: RerankServer) -> None:
    owner = make_user()
    pairs = [("egg " * 400, "boiled " * 400), ("egg?", "boiled " * 400)]
    index_conversation(conversation_id=make_conversation(owner, exchange(*pairs)).pk)
    find(owner)
    assert all(len(text) <= QUESTION_CHARS + PASSAGE_CHARS + 1 for text in server.requests[0]["documents"])


def test_only_callers_own_texts_are_sent(owner: User, server: RerankServer) -> None:
    other = make_user()
    pairs = [(f"egg {n} of the cormorant", f"boiled cormorant {n}") for n in range(TURNS)]
    index_conversation(conversation_id=make_conversation(other, exchange(*pairs)).pk)
    find(owner, "boiled egg")
    find(owner, "boiled egg cormorant")
    assert len(server.requests) == 2
    assert not any("cormorant" in text for asked in server.requests for text in asked["documents"])


def test_forged_cursor_yields_no_turns_of_other_owners(owner: User, server: RerankServer) -> None:
    other = make_user()
    theirs = make_conversation(other, exchange(("egg of another", "boiled")))
    index_conversation(conversation_id=theirs.pk)
    own = [hit.key for hit in find(owner, limit=2).hits]
    query = SearchQuery(text="boiled egg", limit=50)
    place = [0, source_id(theirs) << 24, 2**63, 10**30, 0, *own]
    found = search(caller=Caller.of(owner), query=query, cursor=encode_cursor(query.identity, place))
    assert sorted(turns(found)) == list(range(TURNS))
    assert {hit.source_id for hit in found.hits} == {own[0] >> 24}


@pytest.mark.parametrize("place", [[0, 5, 5], [2, 5, 6], [0, -1], [0, "5"], [0, *range(51)]])
def test_cursor_that_no_search_made_is_refused(owner: User, place: list[Any]) -> None:
    identity = SearchQuery(text="boiled egg").identity
    with pytest.raises(InvalidInput, match="cannot be read"):
        find(owner, cursor=encode_cursor(identity, place))


@pytest.mark.parametrize(
    "fault",
    [{"status": 500}, {"status": 400}, {"status": 401}, {"cuts": True}, {"delay_s": 60.0}, {"drips": "body"},
     {"drips": "headers"}, {"body": b"<html>"}, {"body": b'{"results": [{"index": 7, "relevance_score": 1}]}'},
     {"scores": lambda documents: [0.5] * (len(documents) - 1)}],
    ids=lambda fault: "-".join(f"{name}={value}" for name, value in fault.items())[:30],
)  # fmt: skip
def test_failed_reranker_keeps_fused_order_with_note(
    owner: User,
    server: RerankServer,
    settings: Settings,
    caplog: pytest.LogCaptureFixture,
    fault: dict[str, Any],
) -> None:
    if fault.keys() & {"delay_s", "drips"}:
        settings.RERANK_TIMEOUT_S = 0.3
    for name, value in fault.items():
        setattr(server, name, value)
    with caplog.at_level(logging.DEBUG):
        found = find(owner, limit=50)
    assert turns(found) == fused(owner)
    assert not any("reranker" in hit.matched for hit in found.hits)
    [note] = found.notes
    assert note.startswith("Not reranked: The rerank endpoint")
    assert "127.0.0.1" not in note, "people do not learn addresses of the server's network"
    warnings = [record for record in caplog.records if record.levelname == "WARNING"]
    assert [record.name for record in warnings] == ["search.ranking.reranking"]
    assert server.key not in note + caplog.text
    assert "boiled" not in note + caplog.text


def test_unreachable_reranker_is_noted(owner: User, server: RerankServer, settings: Settings) -> None:
    settings.RERANK_URL = "http://127.0.0.1:9/rerank"
    found = find(owner, limit=50)
    assert turns(found) == fused(owner)
    assert "cannot be reached" in found.notes[0]


def test_api_page_and_tools_have_same_order(client: Client, owner: User, server: RerankServer) -> None:
    client.force_login(owner)
    expected = turned_round(fused(owner))
    answer = client.get("/api/v1/conversations/search", {"query": "boiled egg", "limit": "50"}).json()
    assert [hit["turn_number"] for hit in answer["results"]] == expected
    assert answer["results"][0]["matched"][-1] == "reranker"
    found: Any = run_tool("ConversationSearch", caller=Caller.of(owner), arguments={"query": "boiled egg", "limit": 12})
    assert [hit["turn_number"] for hit in found["results"]] == expected
    page = client.get("/search", {"q": "boiled egg"}).content.decode()
    assert page.count("A second, slower comparison put it here.") == TOP_K
    server.status = 500
    assert "Not reranked: " in client.get("/search", {"q": "boiled egg"}).content.decode()


def test_hits_in_conversation_and_recall_are_not_reranked(client: Client, owner: User, server: RerankServer) -> None:
    client.force_login(owner)
    conversation = Conversation.objects.get(archive_id=owner.pk).pk
    hits_in = client.get("/search/hits-in", {"q": "boiled egg", "conversation": str(conversation), "turn": "1"})
    assert hits_in.status_code == 200
    recall(caller=Caller.of(owner), query=RecallQuery("boiled egg"))
    assert server.requests == []
