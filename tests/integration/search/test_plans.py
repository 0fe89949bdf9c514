"""The plans of the hot queries: an upgrade must not silently switch them."""

import time
from collections.abc import Iterator
from typing import Any

import pytest
from django.db import connection
from pytest_django import DjangoDbBlocker

from benchmarks.speeds.synthetic import TextMaker, VectorMaker, fill_turns
from convmemory.accounts.callers import Caller
from convmemory.conversations.filters import Filters
from convmemory.core.sql import load_sql
from convmemory.embeddings.spaces import active_space
from search.models import Item, ItemEmbedding, PassageBlock, PostingBlock
from search.query import SearchQuery
from search.searching import search
from search.vectors import blocks
from tests.factories import exchange, make_conversation, make_user
from tests.support.copies import database_in_use
from tests.support.groups import copies_alone, database_copy
from tests.support.plans import BY_INDEX_ALONE, PASSAGES_INDEX, POSTINGS_INDEX, corpus_plan, is_vacuumed, plan_of

pytestmark = pytest.mark.django_db(transaction=True)

TURNS = {"large": 200, "small": 40}
VACUUMED = (Item, ItemEmbedding, PassageBlock, PostingBlock)


@pytest.fixture(scope="class")
def owners(django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> Iterator[dict[str, Any]]:
    """Two owners in a database of their own, for all tests of a class, none of which writes rows."""
    with django_db_blocker.unblock(), database_copy() as name, copies_alone(), database_in_use(name):
        yield filled_owners()


def filled_owners() -> dict[str, Any]:
    space, maker = active_space(), TextMaker()
    vectors = VectorMaker(space.dimensions)
    users = {name: make_user() for name in TURNS}
    for name, user in users.items():
        fill_turns(caller=Caller.of(user), space=space, turns=TURNS[name], maker=maker, vectors=vectors)
    vacuum()
    return users


def vacuum() -> None:
    """Mark every page as free of dead rows, as soon as no snapshot of an automatic ANALYZE is older than they are.

    The indexes are rebuilt first: pages left by the deleted rows of earlier tests count in the costs of a plan.
    """
    for model in VACUUMED:
        with connection.cursor() as cursor:
            cursor.execute(f"REINDEX TABLE {model._meta.db_table}")
    for _ in range(600):
        with connection.cursor() as cursor:
            cursor.execute("VACUUM ANALYZE")
        if all(is_vacuumed(model._meta.db_table) for model in VACUUMED):
            return
        time.sleep(0.1)
    raise AssertionError("Some other transaction has held back VACUUM for a minute.")


class TestFewPassages:
    def test_when_items_were_written_is_read_from_index_alone(self, owners: dict[str, Any]) -> None:
        for owner in owners.values():
            statement = load_sql("search.retrieval", "owner_moments")
            plan = plan_of(statement, {"owner": owner.pk}, BY_INDEX_ALONE, archive_id=owner.pk)
            assert "Index Only Scan using item_moments" in plan

    def test_digests_of_blocks_are_read_from_indexes_alone(self, owners: dict[str, Any]) -> None:
        for owner in owners.values():
            plan = corpus_plan(owner.pk, active_space())
            for index in (POSTINGS_INDEX, PASSAGES_INDEX):
                assert f"Index Only Scan using {index}" in plan

    def test_pages_stay_full_under_every_filter(self, owners: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(blocks, "SMALL", 0)
        for name, filters in {"large": Filters(agent="a"), "small": Filters(source="synthetic")}.items():
            hits = search(
                caller=Caller.of(owners[name]), query=SearchQuery(text="some words", limit=20, filters=filters)
            ).hits
            assert len(hits) == 20


@pytest.mark.parametrize(("turns", "others"), [(500, 0), (2, 8)], ids=["of a long conversation", "of short ones"])
def test_next_message_is_looked_up_by_its_place_under_row_security(turns: int, others: int) -> None:
    owner = make_user()
    conversation = make_conversation(owner, exchange(*[("and then?", "then this.")] * turns))
    for other in [make_user() for _ in range(others)]:  # one message of one owner in one conversation is expected
        for _ in range(5):
            make_conversation(other, exchange(("and then?", "then this.")))
    vacuum()
    some = list(conversation.messages.order_by("position").values_list("pk", flat=True)[:5])
    statement = load_sql("search.adapters", "message_utterances")
    plan = plan_of(statement, {"messages": some, "owner": owner.pk}, [], archive_id=owner.pk)
    looked_up = [line for line in plan.splitlines() if "Index Cond" in line and "m.next_position" in line]
    assert looked_up, plan
