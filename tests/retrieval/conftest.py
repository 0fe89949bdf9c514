"""The sample conversations, which the floors under retrieval are measured on."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from django.contrib.auth.models import User
from django.test import override_settings
from pytest_django import DjangoDbBlocker

from benchmarks.datasets.samples import read
from benchmarks.running import load_haystack
from convmemory.accounts.callers import Caller
from convmemory.conversations.models import Conversation
from convmemory.core.acting import acting_for
from search.searching import SearchQuery, search
from tests.factories import make_user
from tests.support.run_database import empty_tables

DEFAULT_MIN_RELEVANCE = 0.37


@dataclass(frozen=True, slots=True)
class Answer:
    """Whether a search said that something answers, and the first ten turns, each `(conversation, turn number)`."""

    answered: bool | None
    turns: tuple[tuple[int, int], ...]


def ask(owner: User, text: str, mode: str = "hybrid") -> Answer:
    with acting_for(owner.pk), override_settings(SEARCH_MIN_RELEVANCE=DEFAULT_MIN_RELEVANCE):
        results = search(caller=Caller.of(owner), query=SearchQuery(text=text, mode=mode, limit=10))
    return Answer(results.answered, tuple((hit.object_id, hit.number) for hit in results.hits))


@dataclass(frozen=True, slots=True)
class Archive:
    """The sample conversations of one owner, their source ids by number, and their projects."""

    owner: User
    names: dict[int, str]
    projects: frozenset[str]
    answers: dict[str, Answer] = field(default_factory=dict)

    def answer(self, text: str) -> Answer:
        """Return what a search for the text answers; each is searched once for all tests."""
        if text not in self.answers:
            self.answers[text] = ask(self.owner, text)
        return self.answers[text]


@pytest.fixture(scope="package")
def archive(django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> Iterator[Archive]:
    """Indexed once for all tests here: most of their time is embedding. Gone before other tests count their rows."""
    with django_db_blocker.unblock():
        owner = make_user()
        [samples] = read(Path(__file__).parent)
        load_haystack(Caller.of(owner), samples)
        rows = Conversation.objects.filter(archive_id=owner.pk).values_list("pk", "source_id", "project")
        yield Archive(owner, {pk: name for pk, name, _ in rows}, frozenset(project for _, _, project in rows))
        empty_tables()  # no test's transaction takes back the spaces and the tickets of what was to be indexed
