"""Four people in one database, and the same spread over three groups as on a cluster; tests take copies of either."""

from collections.abc import Iterator

import pytest
from pytest_django import DjangoDbBlocker

from convmemory.ops.groups.distributing import distribute
from tests.factories import exchange, make_conversation, make_user
from tests.support.copies import database_in_use
from tests.support.groups import copies_alone, database_copy, make_coordinator
from tests.support.persons import fill_person

NAMES = ("ada", "bert", "cleo", "dora")


class People(dict[str, int]):
    """The numbers of people by their names, and the database that they are in."""

    def __init__(self, database: str, numbers: dict[str, int]) -> None:
        super().__init__(numbers)
        self.database = database


@pytest.fixture(scope="package")
def people(django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> Iterator[People]:
    """Four people with a row in every table, and a number that was given away and is not in use any more."""
    with django_db_blocker.unblock(), database_copy() as name:
        with database_in_use(name):
            made = {name: make_user(name) for name in NAMES}
            for person, user in made.items():
                fill_person(user, f"zq{person}")
            make_conversation(made["ada"], exchange(("a", "b"))).delete()
        yield People(name, {person: user.pk for person, user in made.items()})


@pytest.fixture(scope="package")
def spread_people(people: People) -> Iterator[str]:
    """The name of a database in which they are spread over three groups."""
    with database_copy(people.database) as name:
        with copies_alone(), database_in_use(name):
            make_coordinator()
            distribute(groups=3)
        yield name


@pytest.fixture(scope="class")
def shared_groups(spread_people: str) -> Iterator[None]:
    """A copy of what was spread for all tests of a class, none of which relies on what another writes."""
    with database_copy(spread_people) as name, database_in_use(name):
        yield
