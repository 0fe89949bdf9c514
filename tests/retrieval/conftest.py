"""The sample conversations, which the floors under retrieval are measured on."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from django.contrib.auth.models import User
from pytest_django import DjangoDbBlocker

from benchmarks.datasets.samples import read
from benchmarks.running import load_haystack
from convmemory.accounts.callers import Caller
from convmemory.conversations.models import Conversation
from tests.factories import make_user
from tests.support.run_database import empty_tables


@dataclass(frozen=True, slots=True)
class Archive:
    """The sample conversations of one owner, their source ids by number, and their projects."""

    owner: User
    names: dict[int, str]
    projects: frozenset[str]


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
