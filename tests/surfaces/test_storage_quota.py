"""The limit on stored bytes over HTTP: API, imports, documents, chat and the data page say the same."""

from pathlib import Path
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.contrib.auth.models import Group, User
from django.core.files.uploadedfile import SimpleUploadedFile
from django.db import ProgrammingError, transaction
from django.test import Client
from pytest_django import Settings

from convmemory.accounts.callers import Caller
from convmemory.accounts.models import GroupQuota, Quota
from convmemory.accounts.quota import MB
from convmemory.accounts.spaces import create_space
from convmemory.chat.replies import begin_reply
from convmemory.conversations import tasks
from convmemory.conversations.importing import imports, kept_uploads
from convmemory.conversations.importing.links import request_undo, undo
from convmemory.conversations.importing.models import Import, KeptUpload
from convmemory.conversations.messages.storage_quota import StorageChange, use_of_storage
from convmemory.conversations.models import Conversation, Message, StoredUse
from convmemory.core.acting import acting_for
from convmemory.core.errors import StorageFull
from convmemory.documents import api as documents_api
from convmemory.documents import library
from convmemory.documents.models import Document
from convmemory.ops.privacy.storage_sums import reconcile_storage
from tests.factories import exchange, make_conversation, make_user
from tests.support.api import Api, problem_of
from tests.support.documents import GUIDE, read, replace, upload
from tests.support.importing import run_at_once

pytestmark = pytest.mark.django_db

CHAT = b'{"role": "user", "content": "where do zebrafish live?"}\n{"role": "assistant", "content": "In rivers."}\n'
MESSAGES = [{"role": "user", "content": "what?"}, {"role": "assistant", "content": "that"}]
FULL = "of 1 MB are used. Delete conversations or documents that are no longer needed"


async def in_this_thread(function: Any, *args: Any, **values: Any) -> Any:
    return await sync_to_async(function)(*args, **values)


@pytest.fixture(autouse=True)
def _here(monkeypatch: pytest.MonkeyPatch, settings: Settings, tmp_path: Path, documents_here: None) -> None:
    settings.IMPORT_FOLDER, settings.MEDIA_ROOT = tmp_path / "imports", tmp_path / "media"
    settings.MAX_STORED_MB_PER_USER = 1
    run_at_once(monkeypatch)
    monkeypatch.setattr(documents_api, "in_thread", in_this_thread)


@pytest.fixture
def full(owner: User) -> User:
    StoredUse.objects.create(archive_id=owner.pk, stored_bytes=MB)
    return owner


def stored(owner: User) -> int:
    return use_of_storage(archive_id=owner.pk).stored


def imported(owner: User) -> Import:
    row = imports.queue_import(caller=Caller.of(owner), file=SimpleUploadedFile("chat.jsonl", CHAT))
    tasks.run(row.pk, archive_id=row.archive_id)
    row.refresh_from_db()
    return row


def agrees(owner: User) -> bool:
    """Return whether the owner's sum is that of the rows."""
    return reconcile_storage() == 0 and stored(owner) > 0


def test_full_storage_is_refused_with_413_by_every_route(full: User, api: Api) -> None:
    made = Conversation.objects.create(
        archive_id=full.pk, created_at="2026-01-01T00:00Z", updated_at="2026-01-01T00:00Z"
    )
    answers = [
        api.send("POST", "/conversations", {"messages": MESSAGES}),
        api.send("POST", f"/conversations/{made.pk}/messages", {"messages": MESSAGES}),
        api.send("POST", f"/conversations/{made.pk}/turns", {"turn_number": 0, "user": "a", "assistant": "b"}),
        api.client.post("/api/v1/imports", {"file": SimpleUploadedFile("chat.jsonl", CHAT)}),
        api.client.post("/api/v1/documents", {"file": SimpleUploadedFile("guide.md", GUIDE.encode())}),
    ]
    for answer in answers:
        assert FULL in problem_of(answer, 413)
    assert [rows.objects.count() for rows in (Message, Import, Document)] == [0, 0, 0]


def test_pages_name_limit_and_keep_nothing(full: User, client: Client) -> None:
    client.force_login(full)
    for path, file in (("/documents", ("guide.md", GUIDE.encode())), ("/import", ("chat.jsonl", CHAT))):
        answer = client.post(path, {"file": SimpleUploadedFile(*file)})
        assert (answer.status_code, FULL in answer.content.decode()) == (422, True), path
    assert [rows.objects.count() for rows in (Import, Document)] == [0, 0]


def test_data_page_shows_what_is_used(owner: User, client: Client, settings: Settings) -> None:
    client.force_login(owner)
    StoredUse.objects.create(archive_id=owner.pk, stored_bytes=300 * 1024)
    page = client.get("/settings/data").content.decode().replace("\xa0", " ")
    assert "300.0 KB of 1.0 MB used." in page
    assert "no room left" not in page
    StoredUse.objects.update(stored_bytes=2 * MB)
    assert "There is no room left: delete" in client.get("/settings/data").content.decode()
    for path in ("/import", "/documents"):
        assert "The storage is full: nothing more can be added" in client.get(path).content.decode(), path
    settings.MAX_STORED_MB_PER_USER = 0
    page = client.get("/settings/data").content.decode().replace("\xa0", " ")
    assert "2.0 MB used; there is no limit." in page


def test_data_page_shows_limits_of_chosen_space_too(owner: User, client: Client) -> None:
    client.force_login(owner)
    space = create_space(person=owner, name="Lab")
    Quota.objects.create(archive_id=space.pk, turns=40)
    StoredUse.objects.create(archive_id=space.pk, turns=12)
    assert "of 40 turns" not in client.get("/settings/data").content.decode()
    client.post("/spaces/use", {"space": space.pk})
    assert "In the space Lab" in (page := client.get("/settings/data").content.decode())
    assert "12 of 40 turns." in page


def test_data_page_shows_how_much_of_ones_storage_is_in_spaces(owner: User, client: Client) -> None:
    client.force_login(owner)
    StoredUse.objects.create(archive_id=owner.pk, stored_bytes=300 * 1024, added_bytes=200 * 1024)
    page = client.get("/settings/data").content.decode().replace("\xa0", " ")
    assert "500.0 KB of 1.0 MB used. 200.0 KB of that is in spaces." in " ".join(page.split())
    assert "What you add to a space" not in page
    create_space(person=owner, name="Lab")
    assert "What you add to a space counts for you and for the space" in client.get("/settings/data").content.decode()
    assert "What you ask in spaces counts for you" in client.get("/settings/account").content.decode()


def test_full_number_of_documents_refuses_another_but_not_its_next_version(owner: User, client: Client) -> None:
    Quota.objects.create(archive_id=owner.pk, documents=1)
    document = upload(owner, GUIDE)
    read(document)
    client.force_login(owner)
    answer = client.post("/documents", {"file": SimpleUploadedFile("other.md", b"# Another")})
    assert (answer.status_code, "1 of 1 documents are used" in answer.content.decode()) == (422, True)
    assert Document.objects.count() == 1
    replace(owner, document, GUIDE + "more")
    library.require_upload(caller=Caller.of(owner), size=1, replaces=document.pk)
    library.delete_for_good(caller=Caller.of(owner), document_id=document.pk)
    upload(owner, GUIDE)


def test_question_is_refused_before_model_is_asked(full: User, settings: Settings) -> None:
    settings.CHAT_BASE_URL, settings.CHAT_MODEL = "http://127.0.0.1:9", "m"
    made = Conversation.objects.create(
        archive_id=full.pk, created_at="2026-01-01T00:00Z", updated_at="2026-01-01T00:00Z"
    )
    with pytest.raises(StorageFull):
        begin_reply(caller=Caller.of(full), conversation_id=made.pk, text="what is it?")


def test_document_counts_its_file_and_its_text(owner: User, django_capture_on_commit_callbacks: Any) -> None:
    document = upload(owner, GUIDE)
    assert stored(owner) == len(GUIDE)
    read(document)
    assert stored(owner) == 2 * len(GUIDE)
    replace(owner, document, GUIDE + "more")
    read(document)
    assert stored(owner) == 2 * len(GUIDE + "more")
    assert agrees(owner)
    library.delete_for_good(caller=Caller.of(owner), document_id=document.pk)
    assert stored(owner) == 0


def test_document_whose_text_does_not_fit_fails_with_limit(owner: User, settings: Settings) -> None:
    document = upload(owner, GUIDE)
    StoredUse.objects.update(stored_bytes=MB - 5)
    read(document)
    assert (document.status, document.failure) == ("failed", "too_large")
    assert FULL in document.error


def test_kept_upload_counts_and_goes_with_its_import(owner: User, django_capture_on_commit_callbacks: Any) -> None:
    row = imported(owner)
    (kept,) = KeptUpload.objects.all()
    assert agrees(owner)
    assert stored(owner) > kept.stored_size > 0
    request_undo(caller=Caller.of(owner), import_id=row.pk)
    assert undo(caller=Caller.of(owner), import_id=row.pk, deadline=float("inf"))
    assert (KeptUpload.objects.count(), stored(owner)) == (0, 0)


def test_upload_is_not_kept_where_there_is_no_room(owner: User, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(change: StorageChange) -> None:
        if change.stored[owner.pk].grows:
            raise StorageFull("full")

    monkeypatch.setattr(kept_uploads, "count_changes", refuse)
    row = imported(owner)
    assert (row.state, row.kept, KeptUpload.objects.count()) == ("done", None, 0)


def test_sweep_counts_rows_of_older_version_and_mends_sums(owner: User) -> None:
    make_conversation(owner, exchange(("one", "two")))
    read(upload(owner, GUIDE))
    right = stored(owner)
    Conversation.objects.update(stored_bytes=None)
    Document.objects.update(stored_bytes=None)
    StoredUse.objects.all().delete()
    assert reconcile_storage() == 3
    assert (stored(owner), reconcile_storage()) == (right, 0)
    StoredUse.objects.update(stored_bytes=1, turns=7, documents=7)
    assert (reconcile_storage(), stored(owner)) == (1, right)
    use = use_of_storage(archive_id=owner.pk)
    assert (use.turns, use.documents) == (1, 1)


def test_sums_of_others_are_invisible(owner: User) -> None:
    other = make_user()
    make_conversation(other, exchange(("one", "two")))
    make_conversation(owner, exchange(("three", "four")))
    with acting_for(owner.pk):
        assert list(StoredUse.objects.values_list("archive_id", flat=True)) == [owner.pk]
        assert use_of_storage(archive_id=other.pk).stored == 0


def test_staff_set_quotas_which_application_only_reads(owner: User, client: Client) -> None:
    root, group = User.objects.create_superuser("root", password="x"), Group.objects.create(name="lab")
    owner.groups.add(group)
    client.force_login(root)
    client.post("/admin/accounts/groupquota/add/", {"group": group.pk, "turns": "5", "documents": "0"})
    client.post("/admin/accounts/quota/add/", {"archive": owner.pk, "documents": "6"})
    make_conversation(owner, exchange(("one", "two")))
    row = StoredUse.objects.get(archive_id=owner.pk)
    page = client.get(f"/admin/conversations/storeduse/{row.pk}/change/").content.decode()
    for shown in (("Turns", "1", "5"), ("Documents", "0", "6")):
        assert "".join(f"<td>{cell}</td>" for cell in shown) in page
    with acting_for(owner.pk):
        assert use_of_storage(archive_id=owner.pk).limits.documents == 6
        for rows in (Quota, GroupQuota):
            with pytest.raises(ProgrammingError, match="permission denied"), transaction.atomic():
                rows.objects.update(turns=1)
