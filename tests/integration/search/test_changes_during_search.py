"""A search reads in many statements, and no transaction holds them together: the archive may change between any two."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection, connections

from convmemory.conversations.models import Conversation
from convmemory.core.acting import acting_for
from search.adapters.conversations import index_conversation
from search.searching import SearchQuery, search
from tests.factories import exchange, make_conversation, make_user

pytestmark = pytest.mark.django_db(transaction=True)

EGGS = ("How long do I boil an egg?", "Six minutes is right for a soft one.")
BREAD = ("How do I feed the sourdough?", "Twice a day with rye flour.")


def store(owner: User) -> None:
    make_conversation(owner, exchange(EGGS, BREAD), title="eggs")


def store_indexed(owner: User) -> None:
    store(owner)
    index_conversation(conversation_id=Conversation.objects.get(owner=owner).pk)
    find(owner)  # so that this process has its vectors and postings


def delete_everything(owner: User) -> None:
    Conversation.objects.get(owner=owner).delete()


def find(owner: User) -> list[str]:
    with acting_for(owner.pk):
        return [hit.title for hit in search(caller=owner, query=SearchQuery(text="boil an egg")).hits]


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


@pytest.mark.parametrize(("change", "before"), [(store, None), (delete_everything, store_indexed)])
def test_change_before_any_statement_of_search_is_no_error(
    change: Callable[[User], None], before: Callable[[User], None] | None
) -> None:
    outcomes: list[set[str]] = []
    for number in count():
        owner = make_user()
        if before is not None:
            before(owner)
        changing = ChangeBefore(number, lambda owner=owner: change(owner))  # type: ignore[misc]
        with connection.execute_wrapper(changing):
            outcomes.append(set(find(owner)))
        if changing.statements <= number:
            break
    assert outcomes[0] != outcomes[-1]  # the change came before the first statement, and not at all
    assert all(titles <= {"eggs"} for titles in outcomes)
