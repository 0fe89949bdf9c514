"""The sweeps find what was missed, stuck, stale and orphaned, put it right, and count it."""

from datetime import timedelta
from typing import Any

import pytest
from django.db import transaction
from django.utils import timezone
from django_q.models import Schedule

from convmemory.conversations.messages import responses
from convmemory.conversations.models import Conversation
from convmemory.ops import tasks
from convmemory.ops.models import SweepRun
from convmemory.ops.runtime import schedules, sweeping
from search.adapters.conversations import index_conversation
from search.models import Item, ItemEmbedding, Source, SourceIndex
from search.vectors.passages import move_passages
from tests.factories import caller_for, exchange, make_conversation, make_user, source_id, user_says
from tests.support.passages import stored_passages
from tests.support.queue import drop_all, queued

pytestmark = pytest.mark.django_db

PAIRS = [("how do I boil an egg?", "seven minutes"), ("and potatoes?", "twenty minutes")]


def indexed() -> Conversation:
    conversation = make_conversation(make_user(), exchange(*PAIRS))
    index_conversation(conversation_id=conversation.pk)
    return conversation


def quick() -> SweepRun:
    asked: list[int] = []
    return sweeping.sweep(enqueue=asked.extend)


def deep(asked: list[int] | None = None) -> SweepRun:
    return sweeping.deep_sweep(enqueue=(asked if asked is not None else []).extend)


def test_sweeps_find_nothing_in_sound_index() -> None:
    indexed()
    asked: list[int] = []
    for run in (sweeping.sweep(enqueue=asked.extend), deep(asked)):
        assert not any(run.found.values())
    assert not asked


def test_missed_work_is_handed_to_worker() -> None:
    conversation = make_conversation(make_user(), exchange(*PAIRS))
    drop_all()
    asked: list[int] = []
    run = sweeping.sweep(enqueue=asked.extend)
    assert asked == [source_id(conversation)]
    assert (run.found["missed"], run.fixed["missed"], run.deep) == (1, 1, False)


def test_queued_conversations_do_not_count_as_missed() -> None:
    ada, bob = make_user(), make_user()
    missed = make_conversation(bob, exchange(*PAIRS))
    drop_all()
    for _ in range(3):
        make_conversation(ada, exchange(*PAIRS))
    found: list[int] = []
    assert sweeping.sweep(enqueue=found.extend).found["missed"] == 1
    assert found == [source_id(missed)]


def test_response_of_dead_writer_is_released() -> None:
    dead, alive = indexed(), indexed()
    for conversation in (dead, alive):
        responses.begin_response(
            caller=caller_for(conversation.archive), conversation_id=conversation.pk, question=user_says("And now?")
        )
    Conversation.objects.filter(pk=dead.pk).update(processing_until=timezone.now() - timedelta(seconds=1))
    assert quick().fixed["stuck"] == 1
    assert [Conversation.objects.get(pk=c.pk).status for c in (dead, alive)] == ["idle", "processing"]


def test_rows_of_turns_that_are_gone_are_deleted() -> None:
    conversation = indexed()
    Item.objects.filter(number=1).update(number=7)
    ItemEmbedding.objects.filter(item_number=1).update(item_number=7)
    with transaction.atomic():
        move_passages(Source.objects.get(), {1: 7})
    assert {passage.item_number for passage in stored_passages()} == {0, 7}
    kept = [passage.content_hash for passage in stored_passages() if passage.item_number == 0]
    run = deep()
    assert run.fixed["orphaned"] == 1 + 1 + 1  # the item, its vector, the block
    assert {passage.item_number for passage in stored_passages(is_kept=None)} == {0}
    assert [passage.content_hash for passage in stored_passages()] == kept
    assert Item.objects.filter(source=source_id(conversation)).count() == 1


@pytest.mark.parametrize("change", [lambda rows: rows.delete(), lambda rows: rows.update(content_hash=b"other")])
def test_missing_and_stale_vectors_are_made_again(change: Any) -> None:
    conversation = indexed()
    change(ItemEmbedding.objects.filter(item_number=1))
    asked: list[int] = []
    assert deep(asked).found["stale"] == 1
    assert asked == [source_id(conversation)]
    assert SourceIndex.objects.get().dirty_from == 1
    assert index_conversation(conversation_id=conversation.pk).items == 1
    assert deep().found["stale"] == 0


def test_refused_turn_is_not_tried_for_ever() -> None:
    indexed()
    ItemEmbedding.objects.filter(item_number=1).delete()
    Item.objects.filter(number=1).update(error="too strange")
    assert deep().found["stale"] == 0


def test_only_newest_runs_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sweeping, "KEPT_RUNS", 3)
    for _ in range(5):
        quick()
    assert SweepRun.objects.count() == 3


def test_sweeps_are_scheduled_and_find_missed_work() -> None:
    schedules.ensure_schedules()
    functions = set(Schedule.objects.values_list("func", flat=True))
    assert {"convmemory.ops.tasks.sweep", "convmemory.ops.tasks.deep_sweep"} <= functions
    make_conversation(make_user(), exchange(*PAIRS))
    drop_all()
    assert tasks.sweep() == {
        "found": {"missed": 1, "stuck": 0, "work folders": 0, "archives to move": 0},
        "fixed": {"missed": 1, "stuck": 0, "work folders": 0, "archives to move": 0},
    }
    assert len(queued("search.tasks.index")) == 1
    assert tasks.deep_sweep()["found"]["orphaned"] == 0
