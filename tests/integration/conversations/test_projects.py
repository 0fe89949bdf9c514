"""Projects that their owner renames and merges: their conversations, the index, later imports, and undoing."""

import pytest
from django.contrib.auth.models import User

from convmemory.accounts.callers import Caller
from convmemory.conversations.messages.drafts import ConversationDraft
from convmemory.conversations.messages.ingest import create_conversation
from convmemory.conversations.models import Conversation
from convmemory.conversations.names import nearest_names
from convmemory.conversations.projects import current_name, projects_of, rename_project, undo_rename
from convmemory.core.errors import InvalidInput, NotFound
from search.models import Source
from tests.factories import exchange, make_conversation, make_user

pytestmark = pytest.mark.django_db


def stored(owner: User, project: str) -> Conversation:
    return make_conversation(owner, exchange(), project=project)


def indexed(owner: User) -> list[str]:
    return list(Source.objects.filter(archive_id=owner.pk).order_by("pk").values_list("project", flat=True))


def test_renamed_project_takes_folders_index_and_later_imports_along(owner: User) -> None:
    stranger = make_user()
    stored(stranger, "/srv/oven")
    for project in ("/srv/oven", "/srv/oven/door", "/srv/ovens"):
        stored(owner, project)
    renamed = rename_project(caller=Caller.of(owner), project="/srv/oven", name="stove")
    assert (renamed.new, renamed.merged, len(renamed.conversation_ids)) == ("/srv/stove", False, 2)
    assert indexed(owner) == ["/srv/stove", "/srv/stove/door", "/srv/ovens"]
    assert indexed(stranger) == ["/srv/oven"]
    draft = ConversationDraft(messages=exchange(), project="/srv/oven/door", source_id="later")
    assert create_conversation(caller=Caller.of(owner), draft=draft).project == "/srv/stove/door"
    assert [current_name(who.pk, "/srv/oven") for who in (owner, stranger)] == ["/srv/stove", "/srv/oven"]
    undo_rename(caller=Caller.of(owner), rename_id=renamed.pk)
    assert indexed(owner) == ["/srv/oven", "/srv/oven/door", "/srv/ovens", "/srv/stove/door"]
    assert current_name(owner.pk, "/srv/oven") == "/srv/oven"


def test_merged_projects_part_again_when_undone(owner: User) -> None:
    for project in ("C:\\work\\old", "/srv/new"):
        stored(owner, project)
    renamed = rename_project(caller=Caller.of(owner), project="C:\\work\\old", name="/srv/new/")
    assert renamed.merged
    assert projects_of(caller=Caller.of(owner)) == [("/srv/new", 2)]
    undo_rename(caller=Caller.of(owner), rename_id=renamed.pk)
    assert projects_of(caller=Caller.of(owner)) == [("/srv/new", 1), ("C:/work/old", 1)]


def test_renaming_of_unknown_or_foreign_project_is_refused(owner: User) -> None:
    stored(owner, "/srv/oven")
    stranger = make_user()
    renamed = rename_project(caller=Caller.of(owner), project="/srv/oven", name="stove")
    for project, by in (("/srv/stove", stranger), ("/srv/oven", owner), ("", owner)):
        with pytest.raises(NotFound):
            rename_project(caller=Caller.of(by), project=project, name="kiln")
    with pytest.raises(NotFound):
        undo_rename(caller=Caller.of(stranger), rename_id=renamed.pk)
    for name in ("", "stove", "\x00"):
        with pytest.raises(InvalidInput):
            rename_project(caller=Caller.of(owner), project="/srv/stove", name=name)


def test_nearest_names_are_all_projects_with_the_last_part(owner: User) -> None:
    for project in ("/home/ada/barn", "/srv/bill/barn", "/srv/bar"):
        stored(owner, project)
    assert nearest_names(owner.pk, "project", "barn") == ["/home/ada/barn", "/srv/bill/barn", "/srv/bar"]
