"""Stars, pins, tags and the archive, on one conversation and on many; and the library's shelves."""

from datetime import UTC, date, datetime, timedelta

import pytest
from django.contrib.auth.models import User
from pytest_django import DjangoAssertNumQueries

from convmemory.accounts.callers import Caller
from convmemory.conversations import browsing, curating
from convmemory.conversations.browsing import LibraryChoice, ProjectFolder, Shelf
from convmemory.conversations.models import Conversation, Tag
from convmemory.core.errors import InvalidInput, NotFound
from tests.factories import exchange, make_conversation, make_user

pytestmark = pytest.mark.django_db

ALL = LibraryChoice()
TODAY = date(2026, 5, 20)


def at(conversation: Conversation, moment: datetime, **values: object) -> Conversation:
    Conversation.objects.filter(pk=conversation.pk).update(updated_at=moment, **values)
    return conversation


def shelves_of(owner: User, choice: LibraryChoice = ALL, cursor: str = "") -> tuple[list[Shelf], str | None]:
    return browsing.page_of_shelves(caller=Caller.of(owner), choice=choice, cursor=cursor, today=TODAY)


def titles(shelves: list[Shelf]) -> dict[str, list[str]]:
    return {shelf.label: [row.conversation.title for row in shelf.rows] for shelf in shelves}


def test_stars_and_pins_are_set_once_and_taken_off(owner: User) -> None:
    conversation = make_conversation(owner)
    curating.set_star(caller=Caller.of(owner), conversation_id=conversation.pk, starred=True)
    conversation.refresh_from_db()
    first = conversation.starred_at
    curating.set_star(caller=Caller.of(owner), conversation_id=conversation.pk, starred=True)
    conversation.refresh_from_db()
    assert conversation.starred_at == first
    curating.set_star(caller=Caller.of(owner), conversation_id=conversation.pk, starred=False)
    curating.set_pin(caller=Caller.of(owner), conversation_id=conversation.pk, pinned=True)
    conversation.refresh_from_db()
    assert conversation.starred_at is None
    assert conversation.pinned_at is not None


def test_tags_are_cleaned_and_never_doubled(owner: User) -> None:
    one, two = make_conversation(owner), make_conversation(owner)
    assert curating.add_tag(caller=Caller.of(owner), conversation_ids=[one.pk], name=" #night  shift ") == [one.pk]
    assert curating.add_tag(caller=Caller.of(owner), conversation_ids=[one.pk, two.pk], name="night shift") == [two.pk]
    assert curating.tags_of(caller=Caller.of(owner), conversation_ids=[one.pk, two.pk]) == {
        one.pk: ["night shift"],
        two.pk: ["night shift"],
    }
    assert curating.tag_counts(caller=Caller.of(owner)) == [("night shift", 2)]
    assert curating.remove_tag(caller=Caller.of(owner), conversation_ids=[one.pk], name="night shift") == [one.pk]
    with pytest.raises(InvalidInput, match="cannot be empty"):
        curating.add_tag(caller=Caller.of(owner), conversation_ids=[one.pk], name=" # ")
    for number in range(curating.MAX_TAGS):
        curating.add_tag(caller=Caller.of(owner), conversation_ids=[one.pk], name=f"tag {number}")
    with pytest.raises(InvalidInput, match="at most"):
        curating.add_tag(caller=Caller.of(owner), conversation_ids=[one.pk], name="one more")


def test_curating_foreign_conversations_changes_nothing(owner: User) -> None:
    foreign = make_conversation(make_user(), title="theirs")
    with pytest.raises(NotFound):
        curating.set_star(caller=Caller.of(owner), conversation_id=foreign.pk, starred=True)
    assert curating.star_all(caller=Caller.of(owner), conversation_ids=[foreign.pk], starred=True) == []
    assert curating.archive_all(caller=Caller.of(owner), conversation_ids=[foreign.pk], archived=True) == []
    assert curating.add_tag(caller=Caller.of(owner), conversation_ids=[foreign.pk], name="mine") == []
    assert curating.delete_all(caller=Caller.of(owner), conversation_ids=[foreign.pk]) == []
    foreign.refresh_from_db()
    assert (foreign.archived_at, foreign.starred_at, Tag.objects.count()) == (None, None, 0)


def test_archive_all_returns_only_conversations_that_changed(owner: User) -> None:
    rows = [make_conversation(owner) for _ in range(3)]
    numbers = [row.pk for row in rows]
    curating.archive_all(caller=Caller.of(owner), conversation_ids=numbers[:1], archived=True)
    assert curating.archive_all(caller=Caller.of(owner), conversation_ids=numbers, archived=True) == numbers[1:]
    assert curating.archive_all(caller=Caller.of(owner), conversation_ids=numbers[1:], archived=False) == numbers[1:]
    assert Conversation.objects.filter(archived_at__isnull=False).count() == 1
    with pytest.raises(InvalidInput, match="At most"):
        curating.archive_all(caller=Caller.of(owner), conversation_ids=list(range(1000)), archived=True)


def test_conversations_are_listed_by_day_and_month(owner: User) -> None:
    noon = datetime(2026, 5, 20, 12, tzinfo=UTC)
    at(make_conversation(owner, title="now"), noon)
    at(make_conversation(owner, title="before"), noon - timedelta(days=1))
    at(make_conversation(owner, title="in May"), noon - timedelta(days=10))
    at(make_conversation(owner, title="in April"), noon - timedelta(days=30))
    at(make_conversation(owner, title="old and pinned"), noon - timedelta(days=400), pinned_at=noon)
    shelves, following = shelves_of(owner)
    assert following is None
    assert titles(shelves) == {
        "Pinned": ["old and pinned"],
        "Today": ["now"],
        "Yesterday": ["before"],
        "May 2026": ["in May"],
        "April 2026": ["in April"],
    }


def test_child_conversations_are_listed_below_their_parent(owner: User) -> None:
    parent = make_conversation(owner, title="parent")
    child = make_conversation(owner, title="child")
    Conversation.objects.filter(pk=child.pk).update(parent=parent)
    curating.add_tag(caller=Caller.of(owner), conversation_ids=[child.pk], name="sub")
    (shelf,) = shelves_of(owner)[0]
    (row,) = shelf.rows
    assert [(below.conversation.title, below.tags) for below in row.children] == [("child", ("sub",))]
    (shelf,) = shelves_of(owner, LibraryChoice(tag="sub"))[0]
    assert [below.conversation.title for below in shelf.rows] == ["child"]
    curating.archive_all(caller=Caller.of(owner), conversation_ids=[parent.pk], archived=True)
    (shelf,) = shelves_of(owner)[0]
    assert [below.conversation.title for below in shelf.rows] == ["child"], "lost with its parent"


def test_pages_follow_each_other_without_gap(owner: User, django_assert_num_queries: DjangoAssertNumQueries) -> None:
    for number in range(browsing.PAGE_ROWS + 5):
        make_conversation(owner, title=f"{number}")
    with django_assert_num_queries(4):  # pinned, the page, what they started, tags
        shelves, following = shelves_of(owner)
    assert following
    rest, end = shelves_of(owner, cursor=following)
    seen = [row.conversation.pk for shelf in [*shelves, *rest] for row in shelf.rows]
    assert len(seen) == len(set(seen)) == browsing.PAGE_ROWS + 5
    assert end is None


def test_projects_are_tree_of_folders(owner: User) -> None:
    for project in ("/home/ada/src/mill", "/home/ada/src/mill", "/home/ada/src/oven/door", "notes"):
        make_conversation(owner, project=project)
    tree = browsing.project_tree(caller=Caller.of(owner))
    assert tree == [
        ProjectFolder("notes", "notes", 1),
        ProjectFolder("src", "/home/ada/src", 3, [
            ProjectFolder("door", "/home/ada/src/oven/door", 1), ProjectFolder("mill", "/home/ada/src/mill", 2)
        ]),
    ]  # fmt: skip
    (shelf,) = shelves_of(owner, LibraryChoice(project="/home/ada/src"))[0]
    assert len(shelf.rows) == 3
    assert len(shelves_of(owner, LibraryChoice(project="/home/ada/sr"))[0]) == 0


def test_library_filters_by_star_and_counts_agents(owner: User) -> None:
    one = make_conversation(owner, exchange(("q", "a")), title="one", agent="codex")
    make_conversation(owner, title="two", agent="codex")
    curating.set_star(caller=Caller.of(owner), conversation_id=one.pk, starred=True)
    assert titles(shelves_of(owner, LibraryChoice(starred=True))[0]).popitem()[1] == ["one"]
    make_conversation(owner, title="three", source="chat")
    assert browsing.agent_counts(caller=Caller.of(owner)) == [("codex", 2), ("chat", 1)]
    assert titles(shelves_of(owner, LibraryChoice(agent="chat"))[0]).popitem()[1] == ["three"]
    assert shelves_of(owner, LibraryChoice(archived=True))[0] == []
