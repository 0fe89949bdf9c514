"""A worker indexes short conversations of one owner in one slice; a loss or an error leaves none behind."""

from collections.abc import Mapping
from typing import Any

import pytest
from django.contrib.auth.models import User

from convmemory.accounts.callers import Caller
from convmemory.conversations.messages import ingest
from convmemory.conversations.models import Conversation
from convmemory.core.errors import EmbedderUnavailable
from convmemory.core.models import OwnerTask
from convmemory.core.queue import fair_queue
from search import tasks
from search.adapters.conversations import index_conversation
from search.indexing import together
from search.indexing.sweeping import INDEX
from search.indexing.together import index_together
from search.models import ItemEmbedding, PassageBlock, SourceIndex
from search.vectors import passages
from search.vectors.passages import Answer, TextsToEmbed
from tests.factories import exchange, make_conversation, make_user, source_id, user_says
from tests.support.passages import stored_passages
from tests.support.queue import drop_all, queued

pytestmark = pytest.mark.django_db

SUBJECTS = ("boil an egg", "peel a potato", "bake some bread", "roast a carrot")


@pytest.fixture
def owner() -> User:
    return make_user()


@pytest.fixture
def conversations(owner: User) -> list[Conversation]:
    drop_all()
    return [make_conversation(owner, exchange((f"How do I {it}?", f"You {it} slowly."))) for it in SUBJECTS]


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The number of texts of each call of the model."""
    sizes: list[int] = []

    def counted(request: TextsToEmbed) -> Answer:
        sizes.append(len(request.texts))
        return passages.embed(request)

    monkeypatch.setattr(together, "embed", counted)
    return sizes


def rows_of(conversation: Conversation) -> Mapping[str, Any]:
    rows = [one[1:] for one in stored_passages(source=source_id(conversation))]
    vectors = ItemEmbedding.objects.filter(source=source_id(conversation)).values_list("item_number", "content_hash")
    return {"passages": rows, "vectors": sorted(vectors)}


def test_one_call_of_model_embeds_waiting_conversations_of_owner(
    conversations: list[Conversation], calls: list[int]
) -> None:
    fair_queue.work()
    assert calls == [8]
    assert queued(INDEX) == []
    assert not SourceIndex.objects.exclude(indexed_version=1, error="").exists()
    assert SourceIndex.objects.count() == len(SUBJECTS)
    together_rows = [rows_of(one) for one in conversations]
    PassageBlock.objects.all().delete()
    SourceIndex.objects.all().delete()
    ItemEmbedding.objects.all().delete()
    for one in conversations:
        index_conversation(conversation_id=one.pk)
    assert [rows_of(one) for one in conversations] == together_rows


def test_tasks_of_another_owner_are_not_taken_along(conversations: list[Conversation], calls: list[int]) -> None:
    other = make_conversation(make_user(), exchange(("How do I fry a fish?", "In a pan.")))
    fair_queue.work()
    fair_queue.work()
    assert sorted(calls) == [2, 8]
    assert {block.archive_id for block in PassageBlock.objects.filter(source=source_id(other))} == {other.archive_id}


def test_call_of_model_is_bounded_in_characters(
    conversations: list[Conversation], calls: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(together, "CHARS_AT_ONCE", 100)
    fair_queue.work()
    assert calls == [4, 4]


def test_conversations_that_no_time_is_left_for_stay_in_queue(
    conversations: list[Conversation], calls: list[int], settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(together, "CHARS_AT_ONCE", 1)
    monkeypatch.setattr(tasks, "slice_end", lambda: 0.0)
    fair_queue.work()
    assert calls == [2]
    left = OwnerTask.objects.filter(func=INDEX)
    assert [(task.attempts, task.leased_until) for task in left] == [(0, None)] * 3


def test_conversation_that_changes_meanwhile_keeps_its_task(
    owner: User, conversations: list[Conversation], monkeypatch: pytest.MonkeyPatch
) -> None:
    def change_and_embed(request: TextsToEmbed) -> Answer:
        monkeypatch.setattr(together, "embed", passages.embed)
        ingest.append_messages(
            caller=Caller.of(owner), conversation_id=conversations[0].pk, drafts=[user_says("and then?")]
        )
        return passages.embed(request)

    monkeypatch.setattr(together, "embed", change_and_embed)
    fair_queue.work()
    assert [args for _, args in queued(INDEX)] == [[source_id(conversations[0])]]
    fair_queue.work()
    assert queued(INDEX) == []
    assert len(stored_passages(source=source_id(conversations[0]))) == 3


def test_tasks_of_killed_worker_are_tried_again_one_by_one(
    conversations: list[Conversation], calls: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    def die(**arguments: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(tasks, "index_together", die)
    monkeypatch.setattr(tasks, "end_more", lambda *arguments, **options: None)  # a killed process ends nothing
    with pytest.raises(KeyboardInterrupt):
        fair_queue.work()
    leased = OwnerTask.objects.filter(func=INDEX)
    assert [task.attempts for task in leased] == [1] * 4
    leased.update(leased_until=None)  # as when the lease ends
    monkeypatch.undo()
    for _ in conversations:
        fair_queue.work()
    assert queued(INDEX) == []
    assert SourceIndex.objects.filter(indexed_version=1).count() == 4


def test_source_that_fails_ends_no_other(conversations: list[Conversation], monkeypatch: pytest.MonkeyPatch) -> None:
    ids = [source_id(one) for one in conversations]
    announce = passages._announce_outcomes

    def fail_for_one(source: Any, *arguments: Any, **options: Any) -> None:
        if source.pk == ids[1]:
            raise RuntimeError("no room")
        announce(source, *arguments, **options)

    monkeypatch.setattr(passages, "_announce_outcomes", fail_for_one)
    results = index_together(archive_id=conversations[0].archive_id, source_ids=ids, deadline=float("inf"))
    assert [type(results[number]) for number in ids].count(RuntimeError) == 1
    assert isinstance(results[ids[1]], RuntimeError)
    assert SourceIndex.objects.filter(indexed_version=1).count() == 3


def test_unavailable_model_is_recorded_for_each_source(
    conversations: list[Conversation], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(request: TextsToEmbed) -> Answer:
        raise EmbedderUnavailable("no model")

    monkeypatch.setattr(together, "embed", refuse)
    with pytest.raises(EmbedderUnavailable):
        fair_queue.work()
    assert list(SourceIndex.objects.values_list("error", "attempts")) == [("no model", 1)] * 4
    assert [task.attempts for task in OwnerTask.objects.filter(func=INDEX)] == [1] * 4
