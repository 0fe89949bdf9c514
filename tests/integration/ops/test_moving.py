"""An archive of the exact model is searched while workers embed it with the default one, and then by that."""

from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.utils import timezone
from pytest_django import Settings

from convmemory.accounts.callers import Caller
from convmemory.core.models import OwnerTask
from convmemory.core.queue import fair_queue
from convmemory.embeddings import spaces
from convmemory.embeddings.model_folder import EXACT_MODEL, INT8_MODEL
from convmemory.embeddings.models import EmbeddingSpace
from convmemory.ops.reembed.moving import move_to_int8
from search.adapters.conversations import index_conversation
from search.indexing import building
from search.indexing.active import IndexResult, index_source
from search.models import ItemEmbedding
from search.searching import SearchQuery, search
from tests.factories import exchange, make_conversation, make_user
from tests.support.passages import stored_passages
from tests.support.queue import drop_all, queued

pytestmark = pytest.mark.django_db

BUILD = "search.tasks.build"


def name(settings: Settings, model: str) -> None:
    settings.EMBEDDING_MODEL = model


@pytest.fixture
def owners(settings: Settings) -> list[User]:
    """Two owners whose conversations an earlier version has indexed; the settings name the default model."""
    EmbeddingSpace.objects.all().delete()
    name(settings, EXACT_MODEL)
    owners = [make_user(), make_user()]
    for number, owner in enumerate((owners[0], owners[0], owners[1])):
        conversation = make_conversation(owner, exchange((f"how do I boil egg {number}?", "seven minutes")))
        index_conversation(conversation_id=conversation.pk)
    assert spaces.active_space().model == EXACT_MODEL
    drop_all()
    name(settings, INT8_MODEL)
    return owners


def hits(owner: User) -> int:
    results = search(caller=Caller.of(owner), query=SearchQuery(text="boiling eggs"))
    assert not results.notes
    assert all(hit.similarity is not None for hit in results.hits)
    return len(results.hits)


def built() -> set[tuple[int, int]]:
    return set(ItemEmbedding.objects.filter(space__is_building=True).values_list("pk", "source_id"))


def test_archive_is_searched_while_workers_move_it_and_resume_after_a_kill(
    owners: list[User], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert spaces.check_active_space(None, databases=["default"]) == []
    assert move_to_int8() == 2
    assert move_to_int8() == 2
    assert len(queued(BUILD)) == 2

    def die_at_second_source(**arguments: Any) -> IndexResult:
        if built():
            raise SystemExit
        return index_source(**arguments)

    OwnerTask.objects.filter(archive_id=owners[1].pk).update(due_at=timezone.now() + timedelta(hours=1))
    with monkeypatch.context() as patched:
        patched.setattr(building, "index_source", die_at_second_source)
        with pytest.raises(SystemExit):
            fair_queue.work()
    kept = built()
    assert len(kept) == 1
    assert [hits(owner) for owner in owners] == [2, 1]
    OwnerTask.objects.update(leased_until=None, due_at=timezone.now())  # the dead worker's lease has ended
    while fair_queue.work():
        assert [hits(owner) for owner in owners] == [2, 1]
        assert spaces.active_space().model == EXACT_MODEL
    assert kept < built()
    assert move_to_int8() == 0
    active = spaces.active_space()
    assert (active.model, active.token_model) == (INT8_MODEL, INT8_MODEL)
    assert [hits(owner) for owner in owners] == [2, 1]
    blocks = [passage.block for passage in stored_passages(is_kept=None, space=active)]
    assert {block.archive_id for block in blocks} == {owner.pk for owner in owners}
    assert all(block.archive_id == block.source.archive_id for block in blocks)
    assert move_to_int8() == 0


def test_conversation_stored_during_move_is_in_new_space(owners: list[User]) -> None:
    move_to_int8()
    while fair_queue.work():
        pass
    late = make_conversation(owners[1], exchange(("and potatoes?", "twenty minutes")))
    assert move_to_int8() == 1
    while fair_queue.work():
        pass
    assert move_to_int8() == 0
    assert spaces.active_space().model == INT8_MODEL
    assert ItemEmbedding.objects.filter(space__is_active=True, source__object_id=late.pk).exists()


def test_administrators_who_chose_the_exact_model_keep_it(owners: list[User], settings: Settings) -> None:
    name(settings, EXACT_MODEL)
    assert move_to_int8() == 0
    assert spaces.building_space() is None
    name(settings, INT8_MODEL)
    move_to_int8()
    space = spaces.building_space()
    assert space is not None
    spaces.stop_building(space)  # `manage.py reembed --cancel`
    assert move_to_int8() == 0
    assert spaces.building_space() is None
    [warning] = spaces.check_active_space(None, databases=["default"])
    assert warning.id == "embeddings.W001"


def test_space_that_an_administrator_builds_is_not_disturbed(owners: list[User], settings: Settings) -> None:
    other = EmbeddingSpace.objects.create(provider="openai", model="some", dimensions=8, recipe_version=1)
    spaces.start_building(other)
    assert move_to_int8() == 0
    assert spaces.building_space() == other
    assert not queued(BUILD)
