"""The import page: uploads, the report per file, and what it says of files that are none."""

import io
import json
import zipfile
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client

from convmemory.conversations.models import Conversation
from tests.factories import make_user

pytestmark = pytest.mark.django_db

LINES = b'{"role": "user", "content": "what?"}\n{"role": "assistant", "content": "that"}\n'


@pytest.fixture
def owner() -> User:
    return make_user()


@pytest.fixture
def client(owner: User) -> Client:
    client = Client()
    client.force_login(owner)
    return client


def upload(client: Client, *files: SimpleUploadedFile, status: int = 200) -> str:
    response = client.post("/import", {"file": list(files)})
    assert response.status_code == status, response.content
    return str(response.content.decode())


def test_the_page_says_what_can_be_imported_and_how_else(client: Client, owner: User) -> None:
    text = client.get("/import").content.decode()
    assert f"import_conversations ~/.claude/projects --user {owner.username}" in text
    assert "http://testserver/api/v1/imports" in text
    assert "512 MB" in text


def test_an_upload_is_stored_and_reported(client: Client, owner: User) -> None:
    text = upload(client, SimpleUploadedFile("session.jsonl", LINES))
    assert "session.jsonl" in text
    assert "1 conversation, 1 turn; messages: 2 new, 0 updated, 0 unchanged" in text
    assert Conversation.objects.get().owner == owner
    again = upload(client, SimpleUploadedFile("session.jsonl", LINES))
    assert "0 new, 0 updated, 2 unchanged" in again


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
    assert text.count('class="report"') == 2
    assert "1 place skipped" in text
    assert "<b>two" not in text
    assert Conversation.objects.count() == 3


def test_what_is_no_transcript_is_said_and_the_rest_goes_on(client: Client) -> None:
    text = upload(
        client, SimpleUploadedFile("broken.zip", b"PK\x03\x04 not a zip"), SimpleUploadedFile("good.jsonl", LINES),
        SimpleUploadedFile("picture.png", b"\x89PNG\r\n\x1a\n"), SimpleUploadedFile("empty.jsonl", b""),
    )  # fmt: skip
    assert "broken.zip" in text
    assert "1 conversation, 1 turn" in text
    assert Conversation.objects.count() == 1


def test_no_file_and_too_large_a_file_are_said(client: Client, settings: Any) -> None:
    assert "No file was chosen" in upload(client, status=422)
    settings.MAX_UPLOAD_MB = 0
    assert "MAX_UPLOAD_MB" in upload(client, SimpleUploadedFile("a.jsonl", LINES), status=422)


def test_an_upload_needs_the_form_s_token(owner: User) -> None:
    client = Client(enforce_csrf_checks=True)
    client.force_login(owner)
    upload(client, SimpleUploadedFile("a.jsonl", LINES), status=403)
