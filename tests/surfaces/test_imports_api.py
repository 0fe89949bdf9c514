"""Imports over HTTP: waited for or come back for, refused with reasons, foreign ones not found."""

import io
import zipfile
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client

from convmemory.accounts.keys import create_key
from convmemory.accounts.spaces import create_space, remove_member
from convmemory.conversations import tasks
from convmemory.conversations.importing.models import Import
from convmemory.conversations.models import Conversation
from tests.factories import add_member, make_user
from tests.support.api import signed_in
from tests.support.importing import run_at_once, uploads

pytestmark = pytest.mark.django_db

LINES = b'{"role": "user", "content": "what?"}\n{"role": "assistant", "content": "that"}\n'


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch, settings: Any, tmp_path: Path) -> None:
    settings.IMPORT_FOLDER = tmp_path / "imports"
    run_at_once(monkeypatch)


@pytest.fixture
def no_worker(_at_once: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tasks, "enqueue_for", lambda *_, **__: True)


@pytest.fixture
def client(owner: User) -> Client:
    return program_of(owner)


def program_of(user: User, **options: Any) -> Client:
    return Client(headers={"Authorization": f"Bearer {create_key(person=user, **options)}"})


def send(client: Client, content: bytes, name: str = "chat.jsonl", *, query: str = "", **form: Any) -> Any:
    return client.post(f"/api/v1/imports{query}", {"file": SimpleUploadedFile(name, content), **form})


def test_import_that_ends_in_time_is_answered_with_its_report(client: Client) -> None:
    answer = send(client, LINES)
    assert answer.status_code == 200, answer.content
    body = answer.json()
    assert (body["state"], body["recognised_files"], body["total"]["added"]) == ("done", 1, 2)
    assert answer.headers["Location"] == f"/api/v1/imports/{body['id']}"
    shown = client.get(answer.headers["Location"]).json()
    assert (shown["state"], shown["name"], shown["size"]) == ("done", "chat.jsonl", len(LINES))
    assert shown["report"]["files"] == body["files"]
    (listed,) = client.get("/api/v1/imports").json()["results"]
    assert (listed["id"], "report" in listed) == (body["id"], False)


@pytest.mark.parametrize("address", ["/api/v1/imports?wait=0", "/api/v1/imports"])
def test_unfinished_import_gets_202_and_location(client: Client, no_worker: None, address: str) -> None:
    answer = client.post(
        address, {"file": SimpleUploadedFile("chat.jsonl", LINES), "wait": "" if "?" in address else "0"}
    )
    assert answer.status_code == 202, answer.content
    body = answer.json()
    assert (body["state"], body["error"]) == ("queued", "")
    assert "It waits for its turn" in body["detail"]
    tasks.run(body["id"], archive_id=Import.objects.get().archive_id)
    shown = client.get(answer.headers["Location"]).json()
    assert (shown["state"], shown["detail"], shown["report"]["total"]["added"]) == ("done", "", 2)


def test_unreadable_upload_gets_422_with_report(client: Client) -> None:
    answer = send(client, b"\x89PNG\r\n", "picture.png")
    assert (answer.status_code, answer.headers["Content-Type"]) == (422, "application/problem+json")
    body = answer.json()
    assert "picture.png: it looks like none of the formats" in body["detail"]
    assert (body["failure"], body["report"]["recognised_files"]) == ("unreadable", 0)
    assert client.get(f"/api/v1/imports/{body['id']}").json()["error"] == body["detail"]


def test_archive_that_expands_without_end_is_too_large(client: Client) -> None:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a.json", b"[" + b"{}," * 20_000_000)
    assert len(packed.getvalue()) < 60_000
    answer = send(client, packed.getvalue(), "a.zip")
    assert answer.status_code == 413
    assert "upload the files unpacked" in answer.json()["detail"]
    assert not Conversation.objects.exists()
    assert uploads() == []


@pytest.mark.parametrize(
    ("failure", "status"),
    [("time", 413), ("memory", 413), ("interrupted", 503), ("internal", 503)],
)
def test_import_failure_determines_status(
    client: Client, owner: User, monkeypatch: pytest.MonkeyPatch, failure: str, status: int
) -> None:
    def fail(*_: Any, **__: Any) -> bool:
        Import.objects.filter(archive_id=owner.pk).update(state="failed", failure=failure, error="what to do")
        return True

    monkeypatch.setattr(tasks, "enqueue_for", fail)
    answer = send(client, LINES)
    assert (answer.status_code, answer.json()["detail"], answer.json()["failure"]) == (status, "what to do", failure)


@pytest.mark.parametrize(
    ("form", "status", "what"),
    [
        ({}, 422, "field that is called `file`"),
        ({"file": SimpleUploadedFile("a.jsonl", LINES), "format": "magic"}, 422, "Unknown format 'magic'"),
        ({"file": SimpleUploadedFile("a.jsonl", LINES), "wait": "301"}, 422, "0 to 300 seconds"),
        ({"file": SimpleUploadedFile("a.jsonl", LINES), "wait": "-1"}, 422, "0 to 300 seconds"),
        ({"file": SimpleUploadedFile("a.jsonl", LINES), "space": "7"}, 422, "no form field 'space' here: use any of"),
        ({"file": SimpleUploadedFile("a.jsonl", LINES), "more": SimpleUploadedFile("b.jsonl", LINES)}, 422, "'more'"),
        ({"file": [SimpleUploadedFile(name, LINES) for name in ("a.jsonl", "b.jsonl")]}, 422, "There are 2 files"),
    ],
)
def test_bad_uploads_are_explained(client: Client, form: dict[str, Any], status: int, what: str) -> None:
    answer = client.post("/api/v1/imports", form)
    assert (answer.status_code, what in answer.json()["detail"]) == (status, True), answer.content
    assert not Import.objects.exists()


def test_body_that_is_no_form_is_explained(client: Client) -> None:
    answer = client.post("/api/v1/imports", b"x", content_type="multipart/form-data; boundary=")
    assert answer.status_code == 422, answer.content


def test_too_many_unfinished_imports_get_429(client: Client, no_worker: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("convmemory.conversations.importing.imports.MAX_UNFINISHED", 1)
    assert send(client, LINES, wait="0").status_code == 202
    answer = send(client, LINES, wait="0")
    assert (answer.status_code, "wait until some have" in answer.json()["detail"]) == (429, True)


def test_foreign_import_answers_like_unknown_one(client: Client) -> None:
    number = send(program_of(make_user()), LINES, "secret.jsonl").json()["id"]
    foreign, none = (client.get(f"/api/v1/imports/{n}") for n in (number, number + 1_000))
    assert (foreign.status_code, none.status_code) == (404, 404)
    assert foreign.json()["detail"].replace(str(number), "N") == none.json()["detail"].replace(str(number + 1_000), "N")
    assert client.get("/api/v1/imports").json() == {"results": []}


def test_session_uploads_with_csrf_token_only(owner: User) -> None:
    browser = Client(enforce_csrf_checks=True)
    assert send(browser, LINES).status_code == 401
    browser.force_login(owner)
    assert send(browser, LINES).status_code == 403
    browser.get("/import")
    token = browser.cookies["csrftoken"].value
    assert send(browser, LINES, csrfmiddlewaretoken=token).status_code == 200
    assert Conversation.objects.get().archive_id == owner.pk


@pytest.mark.parametrize(
    ("role", "key", "reads", "writes"),
    [
        ("manager", {"space_ids": None, "writes_spaces": True}, 200, 200),
        ("contributor", {"space_ids": None, "writes_spaces": True}, 200, 200),
        ("contributor", {"space_ids": None}, 200, 403),
        ("contributor", {}, 404, 404),
        ("reader", {"space_ids": None, "writes_spaces": True}, 200, 403),
        ("former", {"space_ids": None, "writes_spaces": True}, 404, 404),
        ("stranger", {"space_ids": None, "writes_spaces": True}, 404, 404),
    ],
)
def test_space_takes_imports_and_conversations_as_role_and_key_allow(
    owner: User, monkeypatch: pytest.MonkeyPatch, role: str, key: dict[str, Any], reads: int, writes: int
) -> None:
    mia = make_user("mia")
    space = create_space(person=mia, name="Boat house")
    if role != "stranger":
        given = "contributor" if role == "former" else role
        add_member(person=mia, space_id=space.pk, username=owner.username, role=given)
    program = program_of(owner, **key)
    if role == "former":
        remove_member(person=mia, space_id=space.pk, member_id=owner.pk)
    listed = program.get("/api/v1/spaces").json()["results"]
    shown = {"id": space.pk, "name": "Boat house", "role": role, "writes": writes == 200}
    assert listed == ([shown] if reads == 200 else [])
    query = f"?space={space.pk}"
    sent = send(program, LINES, query=query)
    assert sent.status_code == writes, sent.content
    made = {"messages": [{"role": "user", "content": "Who rows?"}, {"role": "assistant", "content": "Mia."}]}
    stored = program.post(f"/api/v1/conversations{query}", made, content_type="application/json")
    assert stored.status_code == (201 if writes == 200 else writes)
    assert set(Conversation.objects.values_list("archive", flat=True)) == ({space.pk} if writes == 200 else set())
    assert set(Import.objects.values_list("archive", flat=True)) == ({space.pk} if writes == 200 else set())
    assert program.get(f"/api/v1/imports{query}").status_code == reads
    if writes != 200:
        return
    place = sent.headers["Location"]
    assert program.get(place).json()["state"] == "done"
    assert program.get(place.partition("?")[0]).status_code == 404
    assert program.get("/api/v1/imports").json()["results"] == []
    undo = place.replace("?", "/undo?")
    assert program_of(owner, space_ids=None).post(undo).status_code == 403
    monkeypatch.setattr(tasks, "enqueue_for", lambda *_, **__: True)
    assert program.post(undo).status_code == 202


def test_session_stores_in_space_by_its_name(owner: User) -> None:
    space = create_space(person=owner, name="Boat house")
    browser = signed_in(owner)
    assert send(browser, LINES, query="?space=boat%20house").status_code == 200
    assert Import.objects.get().archive_id == space.pk
    assert browser.get("/api/v1/spaces").json()["results"][0]["writes"] is True
