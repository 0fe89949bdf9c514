"""The trash: what is in it is nowhere else, comes back as it was, and is deleted for good when its time is over."""

import json
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone
from pytest_django import Settings

from convmemory.accounts.callers import Caller
from convmemory.accounts.keys import create_key
from convmemory.conversations import curating
from convmemory.conversations.importing.runner import import_paths
from convmemory.conversations.messages import ingest
from convmemory.conversations.messages.storage_quota import use_of_storage
from convmemory.conversations.models import Conversation, Figures, Message
from convmemory.conversations.sharing import create_link, open_link
from convmemory.conversations.statistics import count_changed, statistics_of
from convmemory.core.errors import InTrash, NotFound
from convmemory.documents import library
from convmemory.documents.models import Document
from convmemory.retention import tasks, trash
from search.adapters.conversations import index_conversation
from search.indexing.sweeping import reconcile_sources
from search.models import Item, ItemEmbedding, PassageBlock, Source
from search.query import SearchQuery
from search.searching import search
from tests.factories import exchange, make_conversation, make_user
from tests.support.api import signed_in
from tests.support.documents import GUIDE, indexed, upload
from tests.support.passages import stored_passages

pytestmark = pytest.mark.django_db

PAIRS = [("How warm must the kiln be?", "Heat the kiln to 1240 degrees."), ("And the glaze?", "Thin it with water.")]


@pytest.fixture
def owner() -> User:
    return make_user()


@pytest.fixture
def conversation(owner: User) -> Conversation:
    made = make_conversation(owner, exchange(*PAIRS), title="Kiln", source="api", source_id="k1")
    index_conversation(conversation_id=made.pk)
    curating.add_tag(caller=Caller.of(owner), conversation_ids=[made.pk], name="clay")
    return made


def hits(owner: User, text: str = "kiln degrees") -> list[tuple[str, str]]:
    return [(hit.url, hit.passage) for hit in search(caller=Caller.of(owner), query=SearchQuery(text=text)).hits]


def texts_of_passages(*, is_kept: bool | None) -> list[tuple[int, str, bytes, bytes]]:
    """Return the item, the digest of the text and the codes of each passage."""
    return sorted(
        (row.item_number, str(row.content_hash), row.code, row.tokens) for row in stored_passages(is_kept=is_kept)
    )


def expire(row: Conversation | Document) -> None:
    long_ago = timezone.now() - timedelta(days=31)
    type(row).with_trash.filter(pk=row.pk).update(trashed_at=long_ago)


def test_trashed_conversation_comes_back_with_its_turns_and_vectors(owner: User, conversation: Conversation) -> None:
    found, passages = hits(owner), texts_of_passages(is_kept=False)
    messages = list(Message.objects.values_list("pk", "turn_number"))
    while count_changed(archive_id=owner.pk):
        pass
    assert found
    _, token = create_link(
        caller=Caller.of(owner), conversation_id=conversation.pk, turn=0, days=None, audience="people"
    )

    ingest.delete_conversation(caller=Caller.of(owner), conversation_id=conversation.pk)
    assert hits(owner) == []
    with pytest.raises(NotFound):
        open_link(token, visitor_id=owner.pk)
    assert not Conversation.objects.exists()
    assert curating.tag_counts(caller=Caller.of(owner)) == []
    assert statistics_of(caller=Caller.of(owner)).messages == 0
    assert [model.objects.count() for model in (Item, ItemEmbedding, Figures)] == [0, 0, 0]
    assert (Source.objects.get().title, Source.objects.get().version) == ("", 0)
    assert (stored_passages(), texts_of_passages(is_kept=True)) == ([], passages)
    assert reconcile_sources() == 0  # the sweep does not bring it back
    assert count_changed(archive_id=owner.pk) == 0
    (row,), following = trash.page_of_trash(caller=Caller.of(owner), limit=10)
    assert (row.kind, row.id, row.title, following) == ("conversation", conversation.pk, "Kiln", None)
    assert row.kept_until - row.trashed_at == timedelta(days=30)

    trash.restore(caller=Caller.of(owner), kind="conversation", object_id=conversation.pk)
    result = index_conversation(conversation_id=conversation.pk)
    assert (result.items, result.computed) == (2, 0)
    assert hits(owner) == found
    assert "1240 degrees" in "".join(open_link(token, visitor_id=owner.pk))
    assert texts_of_passages(is_kept=None) == texts_of_passages(is_kept=False) == passages
    assert list(Message.objects.values_list("pk", "turn_number")) == messages
    assert curating.tag_counts(caller=Caller.of(owner)) == [("clay", 1)]
    assert trash.page_of_trash(caller=Caller.of(owner), limit=10) == ([], None)
    assert reconcile_sources() == 0


def test_passages_of_superseded_turns_do_not_come_back(owner: User, conversation: Conversation) -> None:
    second = Message.objects.filter(turn_number=1).order_by("position")[0].pk
    ingest.supersede_from(caller=Caller.of(owner), conversation_id=conversation.pk, message_id=second)
    ingest.delete_conversation(caller=Caller.of(owner), conversation_id=conversation.pk)  # before it is indexed
    trash.restore(caller=Caller.of(owner), kind="conversation", object_id=conversation.pk)
    index_conversation(conversation_id=conversation.pk)
    assert {passage.item_number for passage in stored_passages(is_kept=None)} == {0}


def test_trash_is_listed_latest_first_in_pages_that_end(owner: User) -> None:
    rows = [make_conversation(owner, exchange(*PAIRS)) for _ in range(4)]
    for row in rows:
        ingest.delete_conversation(caller=Caller.of(owner), conversation_id=row.pk)
    newest_first = [row.pk for row in reversed(rows)]
    first, start = trash.page_of_trash(caller=Caller.of(owner), limit=2)
    last, end = trash.page_of_trash(caller=Caller.of(owner), limit=2, start=start or 0)
    assert ([row.id for row in (*first, *last)], start, end) == (newest_first, 2, None)


@pytest.mark.parametrize("kind", trash.KINDS)
def test_deleting_unknown_id_at_once_is_not_found(owner: User, kind: str) -> None:
    for unknown in (1, 2**63):
        with pytest.raises(NotFound, match=f"There is no {kind} {unknown} in your trash"):
            trash.delete_now(caller=Caller.of(owner), kind=kind, object_id=unknown)


def test_import_of_trashed_conversation_is_skipped_and_says_so(owner: User, tmp_path: Path) -> None:
    path = tmp_path / "chat.jsonl"
    messages = [{"id": "a", "role": "user", "content": "one"}, {"id": "b", "role": "assistant", "content": "1"}]
    path.write_text(json.dumps({"id": "chat-0001", "messages": messages}))
    import_paths(caller=Caller.of(owner), paths=[path])
    number = Conversation.objects.get().pk
    ingest.delete_conversation(caller=Caller.of(owner), conversation_id=number)
    more = {"id": "c", "role": "user", "content": "two"}
    path.write_text(json.dumps({"id": "chat-0001", "messages": [*messages, more]}))

    (file,) = import_paths(caller=Caller.of(owner), paths=[path]).files
    assert (file.conversations, file.added, file.skipped) == (0, 0, 1)
    assert f"Conversation {number} is in your trash" in file.issues[0].reason
    assert Conversation.with_trash.get().message_count == 2
    trash.restore(caller=Caller.of(owner), kind="conversation", object_id=number)
    import_paths(caller=Caller.of(owner), paths=[path])
    assert Conversation.objects.get().message_count == 3


def test_document_comes_back_with_its_file(owner: User) -> None:
    document = indexed(upload(owner, GUIDE))
    found = hits(owner, "coffee grounds compost")
    library.delete_document(caller=Caller.of(owner), document_id=document.pk)
    assert found
    assert hits(owner, "coffee grounds compost") == []
    with pytest.raises(NotFound):
        library.get_document(caller=Caller.of(owner), document_id=document.pk)
    with pytest.raises(InTrash, match=f"as document {document.pk}"):
        upload(owner, GUIDE)
    trash.restore(caller=Caller.of(owner), kind="document", object_id=document.pk)
    indexed(document)
    assert hits(owner, "coffee grounds compost") == found
    assert document.file.storage.exists(str(document.file))


def test_due_things_are_deleted_with_their_bytes(
    owner: User, conversation: Conversation, django_capture_on_commit_callbacks: Any
) -> None:
    document = indexed(upload(owner, GUIDE))
    kept = make_conversation(owner, exchange(*PAIRS))
    ingest.delete_conversation(caller=Caller.of(owner), conversation_id=conversation.pk)
    library.delete_document(caller=Caller.of(owner), document_id=document.pk)
    kept.refresh_from_db()
    ingest.delete_conversation(caller=Caller.of(owner), conversation_id=kept.pk)  # put into the trash now: not due
    assert use_of_storage(archive_id=owner.pk).stored > (kept.stored_bytes or 0)  # the trash counts
    assert trash.owners_with_due(limit=10) == []
    for row in (conversation, document):
        expire(row)
    with pytest.raises(NotFound, match="in your trash"):
        trash.restore(caller=Caller.of(owner), kind="conversation", object_id=conversation.pk)

    assert trash.owners_with_due(limit=10) == [owner.pk]
    assert (
        trash.delete_due(caller=Caller.of(owner), deadline=time.monotonic() - 1) is False
    )  # out of time: the next run goes on
    with django_capture_on_commit_callbacks(execute=True):
        assert tasks.delete_due(archive_id=owner.pk) == {"finished": True}
    assert list(Conversation.with_trash.values_list("pk", flat=True)) == [kept.pk]
    assert not Document.with_trash.exists()
    assert Source.objects.get().object_id == kept.pk  # without passages: it was never indexed
    assert not PassageBlock.objects.exists()
    assert not document.file.storage.exists(str(document.file))
    assert use_of_storage(archive_id=owner.pk).stored == kept.stored_bytes


def test_without_days_deleting_is_for_good(owner: User, conversation: Conversation, settings: Settings) -> None:
    settings.TRASH_DAYS = 0
    ingest.delete_conversation(caller=Caller.of(owner), conversation_id=conversation.pk)
    assert not Conversation.with_trash.exists()


def test_trash_is_the_callers_alone_by_api(owner: User, conversation: Conversation) -> None:
    own, foreign = (
        Client(headers={"Authorization": f"Bearer {create_key(person=user)}"}) for user in (owner, make_user())
    )
    place = f"/api/v1/trash/conversation/{conversation.pk}"
    assert own.post(f"{place}/restore").status_code == 404
    assert own.delete(f"/api/v1/conversations/{conversation.pk}").status_code == 204
    assert own.get(f"/api/v1/conversations/{conversation.pk}").status_code == 404
    again = {"source_id": "k1", "title": "Kiln"}
    refused = own.post("/api/v1/conversations", again, content_type="application/json")
    assert (refused.status_code, "in your trash" in refused.json()["detail"]) == (409, True)
    assert foreign.get("/api/v1/trash").json()["results"] == []
    assert (foreign.post(f"{place}/restore").status_code, foreign.delete(place).status_code) == (404, 404)
    assert foreign.delete("/api/v1/trash").json() == {"deleted": 0}
    assert own.get("/api/v1/trash").json()["results"][0]["title"] == "Kiln"
    assert own.post(f"{place}/restore").status_code == 204
    assert own.delete(f"/api/v1/conversations/{conversation.pk}").status_code == 204
    assert own.delete(place).status_code == 202
    assert (own.get("/api/v1/trash").json()["results"], own.delete(place).status_code) == ([], 404)
    assert own.get("/api/v1/trash/agent/1").status_code in (404, 405, 422)


def test_page_puts_back_and_asks_before_deleting_for_good(owner: User, conversation: Conversation) -> None:
    browser = signed_in(owner)
    gone = browser.post(f"/conversations/{conversation.pk}/delete", follow=True).content.decode()
    assert "1 conversation in the trash" in gone
    assert 'value="restore"' in gone
    back = {"chosen": str(conversation.pk), "action": "restore", "undoes": "1"}
    assert "Kiln" in browser.post("/library/change", back, follow=True).content.decode()
    browser.post(f"/conversations/{conversation.pk}/delete")
    thing = {"kind": "conversation", "id": conversation.pk}
    assert "Kiln" in browser.get("/trash").content.decode()
    asked = browser.post("/trash/change", thing | {"action": "delete"}).content.decode()
    assert "Delete this for good?" in asked
    restored = browser.post("/trash/change", thing | {"action": "restore"})
    assert restored.headers["Location"] == f"/conversations/{conversation.pk}"
    browser.post(f"/conversations/{conversation.pk}/delete")
    assert "Empty the trash?" in browser.post("/trash/change", {"action": "empty"}).content.decode()
    assert Conversation.with_trash.exists()
    done = browser.post("/trash/change", {"action": "empty", "confirmed": "1"}, follow=True).content.decode()
    assert "1 thing is deleted for good." in done
    assert "The trash is empty" in done
