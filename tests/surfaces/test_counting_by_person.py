"""What a person adds to spaces counts for the person as well as for the space, whatever way it comes by."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.files.uploadedfile import SimpleUploadedFile
from django.db.models import Sum
from django.test import Client
from pytest_django import Settings

from convmemory.accounts.callers import Caller
from convmemory.accounts.keys import caller_of_key, create_key
from convmemory.accounts.quota import MB
from convmemory.accounts.spaces import create_space
from convmemory.conversations.importing import imports
from convmemory.conversations.importing.queue import next_imports
from convmemory.conversations.models import Conversation
from convmemory.core.acting import acting_for
from convmemory.core.models import OwnerTask
from convmemory.documents import api as documents_api
from convmemory.documents import tasks as document_tasks
from convmemory.documents.models import Document
from convmemory.http_limits.senders import caller_of
from summaries import tasks as summary_tasks
from tests.factories import add_member, exchange, make_conversation, make_user
from tests.support.api import signed_in
from tests.support.documents import pdf_of
from tests.support.importing import run_at_once
from tests.support.queue import drop_all
from tests.surfaces.test_storage_quota import in_this_thread

pytestmark = pytest.mark.django_db

PART = 400_000  # characters; two fit into the limit
INDEX, READ, DRAW = "search.tasks.index", "convmemory.documents.tasks.process", "convmemory.documents.tasks.draw"
SUMMARIZE = "summaries.tasks.make"


@pytest.fixture(autouse=True)
def _here(monkeypatch: pytest.MonkeyPatch, settings: Settings, tmp_path: Path, documents_here: None) -> None:
    settings.IMPORT_FOLDER, settings.MEDIA_ROOT = tmp_path / "imports", tmp_path / "media"
    settings.MAX_STORED_MB_PER_USER, settings.MAX_KEPT_UPLOADS_MB = 1, 0
    run_at_once(monkeypatch)
    monkeypatch.setattr(documents_api, "in_thread", in_this_thread)


@dataclass
class Adder:
    """A person with five spaces, a key that writes to them, and a browser."""

    person: User
    spaces: list[int]
    program: Client
    browser: Client

    def post(self, path: str, body: dict[str, Any]) -> Any:
        return self.program.post(f"/api/v1{path}", body, content_type="application/json")

    def stored(self) -> int:
        """Return the bytes of the rows in all archives of the person."""
        archives = {"archive_id__in": [self.person.pk, *self.spaces]}
        sums = [
            rows.objects.filter(**archives).aggregate(size=Sum("stored_bytes"))["size"] or 0
            for rows in (Conversation, Document)
        ]
        return sum(sums)


@pytest.fixture
def ada(owner: User) -> Adder:
    spaces = [create_space(person=owner, name=f"Room {number}").pk for number in range(5)]
    key = create_key(person=owner, space_ids=spaces, writes_spaces=True)
    browser = signed_in(owner)
    return Adder(owner, spaces, Client(headers={"Authorization": f"Bearer {key}"}), browser)


def text_of(number: int) -> str:
    return f"{number} " * (PART // 2)


def messages(text: str) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": text}, {"role": "assistant", "content": "yes"}]}


def by_api(ada: Adder, space: int, number: int) -> int:
    return int(ada.post(f"/conversations?space={space}", messages(text_of(number))).status_code)


def by_appending(ada: Adder, space: int, number: int) -> int:
    made = ada.post(f"/conversations?space={space}", messages("so?"))
    if made.status_code != 201:
        return int(made.status_code)
    return int(ada.post(f"/conversations/{made.json()['id']}/messages", messages(text_of(number))).status_code)


def by_import(ada: Adder, space: int, number: int) -> int:
    lines = b'{"role": "user", "content": "%s"}\n{"role": "assistant", "content": "ok"}\n' % text_of(number).encode()
    file = SimpleUploadedFile(f"{number}.jsonl", lines)
    answer = ada.program.post(f"/api/v1/imports?space={space}", {"file": file})
    cut_short = answer.status_code == 200 and not answer.json()["total"]["added"]
    return 413 if cut_short else int(answer.status_code)


def by_document(ada: Adder, space: int, number: int) -> int:
    file = SimpleUploadedFile("guide.md", text_of(number).encode())
    return int(ada.program.post(f"/api/v1/documents?space={space}", {"file": file}).status_code)


def by_page(ada: Adder, space: int, number: int) -> int:
    ada.browser.post("/spaces/use", {"space": space})
    file = SimpleUploadedFile("guide.md", text_of(number).encode())
    return int(ada.browser.post("/documents", {"file": file}).status_code)


def by_moving(ada: Adder, space: int, number: int) -> int:
    made = ada.post("/conversations", messages(text_of(number)))
    if made.status_code != 201:
        return int(made.status_code)
    return int(ada.post("/moves", {"kind": "conversation", "id": made.json()["id"], "space": space}).status_code)


def by_copying(ada: Adder, space: int, number: int) -> int:
    mine = Conversation.objects.filter(archive_id=ada.person.pk).first()
    made = mine or make_conversation(ada.person, exchange((text_of(number), "yes")))
    return int(ada.post("/moves", {"kind": "conversation", "id": made.pk, "space": space, "copy": True}).status_code)


@pytest.mark.parametrize(
    "add",
    [
        by_api,
        by_document,
        *(
            pytest.param(way, marks=pytest.mark.slow)
            for way in (by_appending, by_import, by_page, by_moving, by_copying)
        ),
    ],
    ids=lambda way: way.__name__,
)
def test_five_spaces_store_no_more_than_limit_of_person(ada: Adder, add: Callable[[Adder, int, int], int]) -> None:
    statuses = [add(ada, space, number) for number, space in enumerate(ada.spaces * 2)]
    assert PART * 2 <= ada.stored() <= MB, (ada.stored(), statuses)
    assert max(statuses) in (413, 422)


def turns() -> set[tuple[str, int | None]]:
    return set(OwnerTask.objects.values_list("func", "person"))


def test_tasks_in_space_take_turns_of_who_causes_them(ada: Adder, settings: Settings) -> None:
    bob, rosa = make_user(), make_user()
    space, *_ = ada.spaces
    for person, role in ((bob, "contributor"), (rosa, "reader")):
        add_member(person=ada.person, space_id=space, username=person.username, role=role)
    key = create_key(person=bob, space_ids=[space], writes_spaces=True)
    program = Client(headers={"Authorization": f"Bearer {key}"})
    made = program.post(f"/api/v1/conversations?space={space}", messages("so?"), content_type="application/json").json()
    asked = program.post(f"/api/v1/conversations/{made['id']}/summaries", {}, content_type="application/json")
    assert asked.status_code == 201, asked.content
    file = SimpleUploadedFile("page.pdf", pdf_of([[(12, "one")]]))
    document = program.post(f"/api/v1/documents?space={space}", {"file": file}).json()
    assert turns() == {(INDEX, bob.pk), (READ, bob.pk), (SUMMARIZE, bob.pk)}
    Document.objects.update(status="ready", format="pdf", page_count=1, version=1)
    browser = signed_in(rosa)
    assert browser.get(f"/documents/{document['id']}/pages/1").status_code == 200
    assert (DRAW, rosa.pk) in turns()


def test_tasks_that_sweeps_enqueue_take_turns_of_who_caused_them(ada: Adder) -> None:
    space, *_ = ada.spaces
    file = SimpleUploadedFile("guide.md", b"# Guide\n\nSome words.")
    ada.program.post(f"/api/v1/documents?space={space}", {"file": file})
    made = ada.post(f"/conversations?space={space}", messages("so?")).json()
    ada.post(f"/conversations/{made['id']}/summaries", {})
    with acting_for(space, person_id=ada.person.pk):
        imports.queue_import(caller=Caller.for_archive(space), file=SimpleUploadedFile("chat.jsonl", b"{}"))
    drop_all()
    for module in (document_tasks, summary_tasks):
        assert module.sweep() == {"enqueued": 1}
    assert turns() == {(READ, ada.person.pk), (SUMMARIZE, ada.person.pk)}
    assert next_imports()[0][2] == ada.person.pk


def test_requests_with_keys_of_several_spaces_are_of_one_caller(ada: Adder) -> None:
    callers = set()
    for space in ada.spaces:
        key = create_key(person=ada.person, space_ids=[space], writes_spaces=True)
        assert caller_of_key(key, writes=True) is not None
        scope = {
            "type": "http", "path": "/api/v1/conversations", "query_string": f"space={space}".encode(),
            "headers": [(b"authorization", f"Bearer {key}".encode())], "client": (f"192.0.2.{space % 250}", 1),
        }  # fmt: skip
        callers.add(caller_of(scope))
    assert callers == {f"user:{ada.person.pk}"}
