"""The import page: uploads, the report per file, and what it says of files that are none."""

import io
import json
import zipfile
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client

from convmemory.conversations import tasks
from convmemory.conversations.importing.models import Import
from convmemory.conversations.models import Conversation
from convmemory.documents.models import Document
from tests.factories import make_user
from tests.support.api import signed_in
from tests.support.importing import run_at_once
from tests.support.markup import flat

pytestmark = pytest.mark.django_db

LINES = b'{"role": "user", "content": "what?"}\n{"role": "assistant", "content": "that"}\n'


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    run_at_once(monkeypatch)


@pytest.fixture
def client(owner: User) -> Client:
    return signed_in(owner)


def upload(client: Client, *files: SimpleUploadedFile, status: int = 200) -> str:
    response = client.post("/import", {"file": list(files)}, follow=True)
    assert response.status_code == status, response.content
    return str(response.content.decode())


def test_page_says_what_can_be_imported_and_how_else(client: Client, owner: User) -> None:
    assert "import_conversations" not in client.get("/import").content.decode()
    User.objects.filter(pk=owner.pk).update(is_staff=True)
    text = client.get("/import").content.decode()
    assert f"import_conversations ~/.claude/projects --user {owner.username}" in text
    assert "http://testserver/api/v1/imports" in text
    assert "512 MB" in text


def test_upload_is_stored_and_reported(client: Client, owner: User) -> None:
    text = upload(client, SimpleUploadedFile("session.jsonl", LINES))
    assert "session.jsonl" in text
    assert "1 conversation, 1 turn; messages: 2 new, 0 updated, 0 unchanged" in text
    assert "deleted for good, not put into the trash" in text  # what Undo says of conversations
    assert "deleting a conversation for good deletes the uploads" in text
    assert Conversation.objects.get().archive_id == owner.pk
    again = upload(client, SimpleUploadedFile("session.jsonl", LINES))
    assert "0 new, 0 updated, 2 unchanged" in again
    assert "nothing new: all of it was here" in again


def test_several_files_and_archives_are_each_reported(client: Client) -> None:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr(
            "a/one.json", json.dumps([{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}])
        )
        archive.writestr("a/<b>two.jsonl", LINES + b"{broken\n")
    text = upload(
        client,
        SimpleUploadedFile("all.zip", packed.getvalue()),
        SimpleUploadedFile("more.jsonl", LINES.replace(b"what", b"why")),
    )
    assert text.count('class="report import is-done"') == 2
    assert "1 entry skipped" in text
    assert "imported without 1 entry" in text
    assert text.count('class="tag success"') == 1
    assert "<b>two" not in text
    assert Conversation.objects.count() == 3


def test_unreadable_files_are_reported_and_others_imported(client: Client) -> None:
    text = upload(
        client, SimpleUploadedFile("broken.zip", b"PK\x03\x04 not a zip"), SimpleUploadedFile("good.jsonl", LINES),
        SimpleUploadedFile("picture.png", b"\x89PNG\r\n\x1a\n"), SimpleUploadedFile("empty.jsonl", b""),
    )  # fmt: skip
    assert "broken.zip: a damaged archive" in text
    assert "the file is empty" in text
    assert "cut off" not in text
    assert text.count('class="report import is-failed"') == 3
    assert "1 conversation, 1 turn" in text
    assert Conversation.objects.count() == 1


def test_errors_of_damaged_and_empty_files_are_translated(client: Client) -> None:
    client.cookies["language"] = "de"
    files = SimpleUploadedFile("broken.zip", b"PK\x03\x04 not a zip"), SimpleUploadedFile("empty.jsonl", b"")
    text = " ".join(upload(client, *files).split())
    assert "Nichts konnte importiert werden. broken.zip: ein beschädigtes Archiv" in text
    assert "empty.jsonl: die Datei ist leer" in text


def test_refused_file_of_archive_has_no_success_mark(client: Client) -> None:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("good.jsonl", LINES)
        archive.writestr("odd.json", '{"a": 1}')
        archive.writestr("../outside.jsonl", LINES)
    text = upload(client, SimpleUploadedFile("all.zip", packed.getvalue()))
    assert "2 files refused" in text
    assert text.count("Refused</span>") == 2
    files = text.split('class="file"')[1:]
    assert [("Refused" in file, "icon-check" in file or "#check" in file) for file in files].count((True, True)) == 0
    report = Import.objects.get().report
    assert report is not None
    assert report["refused_files"] == 2
    assert [file["path"] for file in report["files"] if file["refused"]] == ["all.zip", "odd.json"]


def test_missing_and_oversized_files_are_refused(client: Client, settings: Any) -> None:
    assert "No file was chosen" in upload(client, status=422)
    settings.MAX_UPLOAD_MB = 0
    assert "The file is larger than 0 MB" in upload(client, SimpleUploadedFile("a.jsonl", LINES), status=422)


def test_upload_needs_form_s_token(owner: User) -> None:
    client = Client(enforce_csrf_checks=True)
    client.force_login(owner)
    upload(client, SimpleUploadedFile("a.jsonl", LINES), status=403)


def test_import_that_waits_says_so_and_asks_again(client: Client, owner: User, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tasks, "enqueue_for", lambda *_, **__: True)
    text = upload(client, SimpleUploadedFile("<b>one.jsonl", LINES))
    row = Import.objects.get()
    assert "It waits for its turn" in text
    assert "<b>one" not in text
    assert f'hx-get="/import/{row.pk}"' in text
    assert f'<noscript><p class="help"><a href="/import/{row.pk}">Look again</a>' in flat(text)
    Import.objects.update(state="running", messages_read=500, files_read=1)
    card = client.get(f"/import/{row.pk}", headers={"HX-Request": "true"}).content.decode()
    assert "0 conversations stored, 500 messages read so far" in " ".join(card.split())
    assert "<html" not in card
    assert "hx-get" in card
    assert "It waits until your import of &lt;b&gt;one.jsonl has ended" in upload(
        client, SimpleUploadedFile("two.jsonl", LINES)
    )
    assert tasks.run(row.pk, archive_id=row.archive_id) == {"state": "not now"}
    Import.objects.filter(pk=row.pk).update(state="queued")
    tasks.run(row.pk, archive_id=row.archive_id)
    whole = client.get(f"/import/{row.pk}").content.decode()
    assert "2 new, 0 updated" in whole
    assert 'hx-get="/import/' not in whole


def test_foreign_import_gets_404(client: Client) -> None:
    foreign = signed_in(make_user())
    upload(foreign, SimpleUploadedFile("secret.jsonl", LINES))
    assert client.get(f"/import/{Import.objects.get().pk}").status_code == 404
    assert "secret.jsonl" not in client.get("/import").content.decode()


def test_folder_is_one_import(client: Client, owner: User) -> None:
    files = [SimpleUploadedFile(name, LINES.replace(b"what", name.encode())) for name in ("one.jsonl", "two.jsonl")]
    paths = json.dumps(["chats/2026/one.jsonl", "chats/two.jsonl"])
    page = client.post("/import", {"folder": files, "paths": paths}, follow=True).content.decode()
    row = Import.objects.get()
    assert (row.name, row.state) == ("chats.zip", "done")
    assert "chats/2026/one.jsonl" in page
    assert Conversation.objects.filter(archive_id=owner.pk).count() == 2


@pytest.mark.parametrize("paths", ["", "[1, 2]", '["a"]', "{", '["../../x.jsonl", "/etc/y.jsonl"]'])
def test_folder_whose_paths_are_missing_or_hostile(client: Client, paths: str) -> None:
    files = [SimpleUploadedFile(name, LINES) for name in ("one.jsonl", "two.jsonl")]
    client.post("/import", {"folder": files, "paths": paths}, follow=True)
    row = Import.objects.get()
    assert row.state in ("done", "failed")


UNKNOWN = {
    "app": "Notepal",
    "chats": [
        {
            "heading": "Quince",
            "entries": [
                {"who": "me", "say": "How do I prune a quince?", "at": 1769936400},
                {"who": "it", "say": "In late winter, to an open cup.", "at": 1769936405},
            ],
        }
    ],
}


def test_unknown_json_is_imported_by_mapping_only_after_yes(client: Client, owner: User) -> None:
    upload(client, SimpleUploadedFile("notepal.json", json.dumps(UNKNOWN).encode()), status=200)
    row = Import.objects.get()
    text = client.get(f"/import/{row.pk}").content.decode()
    assert "1 conversation, 2 messages" in text
    assert "How do I prune a quince?" in text
    assert not Conversation.objects.exists()
    assert row.report is not None
    fields = {name: ",".join(value) if isinstance(value, list) else value
              for name, value in row.report["files"][0]["proposal"]["mapping"].items()}  # fmt: skip
    fields |= {"title": "heading", "roles": "me=user, it=assistant", "name": "notepal"}
    stranger = signed_in(make_user("stranger"))
    assert stranger.post(f"/import/{row.pk}/mapping", fields | {"import": "1"}).status_code == 404
    seen = client.post(f"/import/{row.pk}/mapping", fields | {"preview": "1"}, follow=True).content.decode()
    assert "1 conversation, 2 messages" in seen
    assert 'value="heading"' in seen
    assert not Conversation.objects.exists()
    refused = client.post(f"/import/{row.pk}/mapping", fields | {"roles": "me=boss"}, follow=True).content.decode()
    assert "of the mapping gives each name one of user, assistant" in refused
    done = client.post(f"/import/{row.pk}/mapping", fields | {"import": "1"}, follow=True).content.decode()
    assert "messages: 2 new" in done
    stored = Conversation.objects.get()
    assert (stored.archive_id, stored.source, stored.title, stored.turn_count) == (owner.pk, "notepal", "Quince", 1)


def test_csv_of_unknown_program_gets_mapping_with_its_names_and_first_message(client: Client, owner: User) -> None:
    rows = "wer;was;raum\nich;Wie schneide ich Quitten?;a\nes;Im Winter, offen.;a\n"
    upload(client, SimpleUploadedFile("chats.csv", rows.encode()))
    row = Import.objects.get()
    assert row.report is not None
    proposal = row.report["files"][0]["proposal"]
    assert proposal["sample"] == [["wer", "ich"], ["was", "Wie schneide ich Quitten?"], ["raum", "a"]]
    text = client.get(f"/import/{row.pk}").content.decode()
    assert '<code>raum</code></th><td dir="auto">a</td>' in text
    fields = {
        name: ",".join(value) if isinstance(value, list) else value for name, value in proposal["mapping"].items()
    }
    client.post(
        f"/import/{row.pk}/mapping",
        fields | {"roles": "ich=user, es=assistant", "name": "heft", "group": "raum", "import": "1"},
    )
    assert Conversation.objects.get(archive_id=owner.pk).turn_count == 1


def test_pdf_is_offered_to_documents(client: Client, owner: User, monkeypatch: pytest.MonkeyPatch) -> None:
    enqueued: list[int] = []
    monkeypatch.setattr("convmemory.documents.views.enqueue_document", lambda **values: enqueued.append(1))
    text = upload(client, SimpleUploadedFile("rent.pdf", b"%PDF-1.4 x"), SimpleUploadedFile("odd.json", b'{"a": 1}'))
    assert text.count("Add it to Documents") == 1
    row = Import.objects.get(name="rent.pdf")
    stranger = signed_in(make_user("stranger"))
    assert stranger.post(f"/documents/of-import/{row.pk}").status_code == 404
    response = client.post(f"/documents/of-import/{row.pk}")
    document = Document.objects.get()
    assert (document.archive_id, document.name, enqueued) == (owner.pk, "rent.pdf", [1])
    assert response.headers["Location"] == f"/documents/{document.pk}"


def test_json_that_is_cut_off_says_where_it_ends(client: Client) -> None:
    said = [{"uuid": sender, "sender": sender, "text": "Quince?"} for sender in ("human", "assistant")]
    whole = json.dumps([{"uuid": str(number) * 9, "name": "Quince", "chat_messages": said} for number in range(3)])
    text = upload(client, SimpleUploadedFile("unknown.json", json.dumps(UNKNOWN).encode()[:60]))
    assert "it ends in the middle of a value, at line 1, column 60" in text
    text = upload(client, SimpleUploadedFile("conversations.json", whole.encode()[:-20]))
    assert f"the file ends here, after {len(whole) - 20:,} bytes" in text


def test_full_storage_names_conversations_that_were_not_stored(client: Client, settings: Any) -> None:
    settings.MAX_STORED_MB_PER_USER = 1
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for number in range(4):
            question = json.dumps({"role": "user", "content": f"Quince {number}? " + "x" * 400_000})
            archive.writestr(f"{number}.jsonl", f"{question}\n" + LINES.decode().splitlines()[1])
    text = upload(client, SimpleUploadedFile("all.zip", packed.getvalue()))
    assert "partly imported (2 of 4 not: storage full)" in text
    assert "<bdi>Quince 3? xxx" in text
    assert 'class="tag success"' not in text
    assert "of storage are left" in text
    settings.MAX_TURNS_PER_USER = 2
    assert "The storage is full" in client.get("/import").content.decode()


def test_program_is_typed_by_its_name(client: Client) -> None:
    upload(client, SimpleUploadedFile("odd.txt", b"nothing"))
    row = Import.objects.get()
    assert '<option value="Open WebUI">' in client.get(f"/import/{row.pk}").content.decode()
    refused = client.post(f"/import/{row.pk}/format", {"format": "Opne WebUI"}, follow=True).content.decode()
    assert "No program “Opne WebUI”: Open WebUI?" in refused
    client.post(f"/import/{row.pk}/format", {"format": "open webui"})
    assert Import.objects.latest("pk").format == "open-webui"
