"""Requests that are sent again and again leave few tasks in the queue while no worker is free."""

from pathlib import Path

import pytest
from django.contrib.auth.models import User
from django.test import Client
from pytest_django import Settings

from convmemory.accounts.keys import create_key
from convmemory.core.models import OwnerTask
from convmemory.documents.models import Document
from tests.factories import make_user
from tests.support.api import signed_in
from tests.support.documents import pdf_of, read, upload

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("documents_here")]


@pytest.fixture
def owner(settings: Settings, tmp_path: Path) -> User:
    settings.MEDIA_ROOT = tmp_path / "media"
    return make_user("ada")


def test_messages_to_one_conversation_leave_few_tasks(owner: User) -> None:
    program = Client(headers={"Authorization": f"Bearer {create_key(person=owner)}"})
    said = {"messages": [{"role": "user", "content": "why?"}, {"role": "assistant", "content": "because"}]}
    made = program.post("/api/v1/conversations", {"source_id": "one", **said}, content_type="application/json")
    assert made.status_code == 201
    for number in range(20):
        more = {"messages": [{"role": "user", "content": f"and {number}?"}]}
        address = f"/api/v1/conversations/{made.json()['id']}/messages"
        assert program.post(address, more, content_type="application/json").status_code in (200, 201)
    assert OwnerTask.objects.count() < 5


def test_opening_undrawn_page_leaves_one_task(owner: User) -> None:
    document = upload(owner, pdf_of([[(12, "one")]]), "one.pdf")
    read(document)
    OwnerTask.objects.all().delete()
    browser = signed_in(owner)
    for _ in range(20):
        assert browser.get(f"/documents/{document.pk}/pages/1").status_code == 200
    assert OwnerTask.objects.count() == 1
    assert Document.objects.get().status == "ready"
