"""A search reads in many statements, and no transaction holds them together: the archive may change between any two."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection, connections

from convmemory.accounts.callers import Caller
from convmemory.conversations.filters import EVERYTHING, Filters
from convmemory.conversations.models import Conversation
from convmemory.core.acting import acting_for
from search.adapters.conversations import index_conversation
from search.searching import SearchQuery, search
from tests.factories import exchange, make_conversation, make_user

pytestmark = pytest.mark.django_db(transaction=True)

EGGS = ("How long do I boil an egg?", "Six minutes is right for a soft one.")
BREAD = ("How do I feed the sourdough?", "Twice a day with rye flour.")


def store_nothing(owner: User) -> None:
    pass


def store(owner: User) -> None:
    make_conversation(owner, exchange(EGGS, BREAD), title="eggs")


def store_indexed(owner: User) -> None:
    store(owner)
    index_conversation(conversation_id=Conversation.objects.get(archive_id=owner.pk).pk)
    find(owner)  # so that this process has its vectors and postings


def delete_everything(owner: User) -> None:
    Conversation.objects.get(archive_id=owner.pk).delete()


def find(owner: User, text: str = "boil an egg", filters: Filters = EVERYTHING) -> set[str]:
    with acting_for(owner.pk):
        return {
            hit.title for hit in search(caller=Caller.of(owner), query=SearchQuery(text=text, filters=filters)).hits
        }


class ChangeBefore:
    """Makes a change, on a connection of its own, before one statement of a block and after those sent until then."""

    def __init__(self, number: int, change: Callable[[], None]) -> None:
        self._before, self._change = number, change
        self.statements = 0

    def __call__(self, execute: Callable[..., Any], *arguments: Any) -> Any:
        if self.statements == self._before:
            with connection.connection.pipeline() as pipeline:
                pipeline.sync()
            with ThreadPoolExecutor(1) as other:
                other.submit(self._make_change).result()
        self.statements += 1
        return execute(*arguments)

    def _make_change(self) -> None:
        try:
            self._change()
        finally:
            connections.close_all()


def outcomes(owners: Iterator[User], change: Callable[[User], None], *arguments: Any) -> Iterator[set[str]]:
    """Yield what a search finds if the change comes before its first statement, before its second one, and so on.

    The last one is a search without the change.
    """
    for number, owner in enumerate(owners):
        changing = ChangeBefore(number, partial(change, owner))
        with connection.execute_wrapper(changing):
            yield find(owner, *arguments)
        if changing.statements <= number:
            break


def owners(before: Callable[[User], None]) -> Iterator[User]:
    while True:
        owner = make_user()
        before(owner)
        yield owner


@pytest.mark.parametrize(
    ("before", "change", "at_first", "at_last"),
    [
        (store_nothing, store, {"eggs"}, set()),
        pytest.param(store_indexed, delete_everything, set(), {"eggs"}, marks=pytest.mark.slow),
    ],
)
def test_change_before_any_statement_of_search_is_no_error(
    before: Callable[[User], None], change: Callable[[User], None], at_first: set[str], at_last: set[str]
) -> None:
    found = list(outcomes(owners(before), change))
    assert (found[0], found[-1]) == (at_first, at_last)
    assert all(titles <= {"eggs"} for titles in found)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "filters"),
    [
        ("boil an egg", Filters(kinds=frozenset({"document"}))),
        ("what did we talk about in January 2026?", Filters(project="kitchen")),
    ],
)
def test_conversation_stored_during_search_is_not_found_against_filters(text: str, filters: Filters) -> None:
    assert not any(outcomes(owners(store_nothing), store, text, filters))
