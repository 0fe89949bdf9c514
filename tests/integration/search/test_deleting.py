"""A conversation that is deleted while a worker indexes it: the deletion succeeds, and no task fails."""

import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection

from convmemory.accounts.callers import Caller
from convmemory.conversations.messages import ingest
from convmemory.conversations.models import Conversation
from convmemory.embeddings.models import EmbeddingSpace
from convmemory.embeddings.spaces import active_space
from memory.embedding import embed_messages, request_embeddings
from search.indexing import active
from search.indexing.active import index_source
from search.models import Item, ItemEmbedding, PassageBlock, PostingBlock, SourceIndex
from search.vectors import passages
from tests.factories import exchange, make_conversation, make_user, source_id

pytestmark = pytest.mark.django_db(transaction=True)

PAIRS = [(f"What is planet {n} made of?", f"Planet {n} is made of rock.") for n in range(3)]
OF_SEARCH = (Item, ItemEmbedding, PostingBlock, SourceIndex)
"""The tables that have no rows of what is in the trash."""
Change = Callable[[], object]


@pytest.fixture
def owner() -> User:
    return make_user()


def before(monkeypatch: pytest.MonkeyPatch, place: Any, name: str, change: Change) -> None:
    """Let `change` happen once, as soon as the function is called."""
    original: Callable[..., Any] = getattr(place, name)
    done: list[object] = []

    def first_change(*arguments: Any, **options: Any) -> Any:
        if not done:
            done.append(change())
        return original(*arguments, **options)

    monkeypatch.setattr(place, name, first_change)


def delete(owner: User, conversation: Conversation) -> Change:
    return lambda: ingest.delete_conversation(caller=Caller.of(owner), conversation_id=conversation.pk)


@pytest.mark.parametrize(
    ("place", "name"),
    [(active, "state_of"), (active, "_repair_words"), (passages, "embed")],
)
def test_indexing_deleted_conversation_ends_without_error(
    owner: User, monkeypatch: pytest.MonkeyPatch, place: Any, name: str
) -> None:
    conversation = make_conversation(owner, exchange(*PAIRS))
    Item.objects.all().delete()  # so that their words are missing
    before(monkeypatch, place, name, delete(owner, conversation))
    assert index_source(archive_id=conversation.archive_id, source_id=source_id(conversation)).finished
    assert not any(model.objects.exists() for model in (*OF_SEARCH, PassageBlock))


def test_building_space_for_deleted_conversation_ends_without_error(
    owner: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    conversation = make_conversation(owner, exchange(*PAIRS))
    space = active_space()
    EmbeddingSpace.objects.update(is_active=False)
    EmbeddingSpace.objects.create(provider="local", model="another", dimensions=8, recipe_version=1, is_active=True)
    before(monkeypatch, passages, "embed", delete(owner, conversation))
    done = index_source(archive_id=conversation.archive_id, source_id=source_id(conversation), building=space)
    assert done.finished


def test_embedding_messages_of_deleted_conversation_ends_without_error(
    owner: User, monkeypatch: pytest.MonkeyPatch, caplog: Any
) -> None:
    conversation = make_conversation(owner, exchange(*PAIRS))
    ids = list(conversation.messages.values_list("pk", flat=True))
    request_embeddings(caller=Caller.of(owner), conversation_id=conversation.pk, message_ids=ids)
    before(monkeypatch, passages, "embed", delete(owner, conversation))
    assert (
        embed_messages(archive_id=conversation.archive_id, conversation_id=conversation.pk, message_ids=ids).failed == 0
    )
    assert not caplog.records


def test_deletion_waits_for_what_is_being_written(owner: User, monkeypatch: pytest.MonkeyPatch) -> None:
    conversation = make_conversation(owner, exchange(*PAIRS))
    deletions: list[Future[None]] = []

    def delete_in_thread() -> None:
        delete(owner, conversation)()
        connection.close()

    def delete_elsewhere() -> None:
        deletions.append(pool.submit(delete_in_thread))
        while not (deletions[0].done() or somebody_waits_for_a_lock()):
            time.sleep(0.01)

    before(monkeypatch, passages, "repack", delete_elsewhere)
    with ThreadPoolExecutor(1) as pool:
        assert index_source(archive_id=conversation.archive_id, source_id=source_id(conversation)).finished
        assert deletions[0].exception() is None
    assert [model for model in OF_SEARCH if model.objects.exists()] == []
    assert set(PassageBlock.objects.values_list("is_kept", flat=True)) == {True}


def somebody_waits_for_a_lock() -> bool:
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted")
        return bool(cursor.fetchone()[0])
