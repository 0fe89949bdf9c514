"""Settings: appearance, keys filled into set-ups with their first use shown, and one's own data."""

import io
import json
import re
import zipfile
from datetime import timedelta
from pathlib import Path

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse
from django.utils import timezone
from pytest_django import Settings

from convmemory.accounts.callers import Caller
from convmemory.accounts.keys import caller_of_key, create_key
from convmemory.accounts.models import ApiKey
from convmemory.core.errors import InvalidInput
from convmemory.core.queue.fair_queue import asked_for
from convmemory.documents.storage import document_storage
from convmemory.ops.models import OwnArchive
from convmemory.ops.privacy import exporting
from convmemory.ops.privacy.erasing import erase_user
from convmemory.ops.tasks import remove_old_archives, write_own_archive
from search.pages.palette import COMMANDS
from tests.factories import exchange, make_conversation, make_user
from tests.support.api import signed_in
from tests.support.markup import flat

pytestmark = pytest.mark.django_db

HTMX = {"HX-Request": "true"}


@pytest.fixture
def client(owner: User) -> Client:
    return signed_in(owner)


@pytest.fixture(autouse=True)
def _media(tmp_path: Path, settings: Settings) -> None:
    settings.MEDIA_ROOT = str(tmp_path / "media")


def text(client: Client, path: str, **values: object) -> str:
    response = client.get(path, **values)  # type: ignore[arg-type]
    assert response.status_code == 200, response.content
    return str(response.content.decode())


def test_settings_pages_share_navigation(client: Client) -> None:
    for path in ("account", "appearance", "connect", "keys", "links", "data"):
        page = text(client, f"/settings/{path}")
        assert page.count('class="settings-nav"') == 1
        assert page.count('aria-current="page"') >= 1


def test_page_has_one_name_in_heading_menus_and_palette(client: Client) -> None:
    page = text(client, "/settings/account")
    link = re.compile(r'<a [^>]*?href="(/[^"]*)"[^>]*>\s*(?:<svg.*?</svg>)?\s*(?:<span[^>]*>)?([^<\s][^<]*)')
    menus = [page.partition(f'<nav class="{name}"')[2].partition("</nav>")[0] for name in ("rail", "settings-nav")]
    named = {(address, name.strip()) for menu in menus for address, name in link.findall(menu)}
    named |= {(reverse(name), str(label)) for label, _, name in COMMANDS}
    named -= {("/search", "Search"), ("/chat", "Chat"), ("/palette", "Go anywhere, and keys")}
    headings = {
        address: re.findall(r"<h1[^>]*>([^<]+)", flat(text(client, address)))
        for address, _ in named
        if "/api" not in address
    }
    assert len(headings) > 12
    assert [(address, name) for address, name in named if headings.get(address, [name]) != [name]] == []


def test_appearance_is_kept_in_cookies_and_taken_back(client: Client) -> None:
    answer = client.post("/settings/appearance", {"theme": "dark", "density": "compact"})
    assert answer.status_code == 302
    assert client.cookies["theme"]["httponly"]
    page = text(client, "/settings/appearance")
    assert 'data-theme="dark"' in page
    assert 'data-density="compact"' in page
    client.post("/settings/appearance", {"theme": "", "density": ""})
    assert "data-theme" not in text(client, "/settings/appearance")


def test_unknown_appearance_is_refused(client: Client) -> None:
    assert client.post("/settings/appearance", {"theme": "pink"}).status_code == 422
    client.cookies["theme"] = '"><script>'
    assert "<script>" not in text(client, "/settings/appearance").replace("<script src", "")


def test_new_key_is_filled_in_and_its_first_use_is_shown(owner: User, client: Client) -> None:
    assert "PASTE-YOUR-KEY" in text(client, "/settings/connect")
    answer = client.post("/settings/connect", {"name": "Laptop"}, follow=True)
    page = answer.content.decode()
    assert "no-store" in answer.headers["Cache-Control"]
    key = page.split('<code id="new-key">')[1].split("<")[0]
    assert "PASTE-YOUR-KEY" not in page
    assert page.count(key) >= 4
    row = ApiKey.objects.get(person=owner)
    assert (row.name, row.read_only) == ("Laptop", True)
    path = f"/settings/keys/{row.pk}/use"
    assert "Waiting for the first use" in text(client, path)
    assert caller_of_key(key, writes=False) is not None
    assert "Connected: “Laptop”" in text(client, path)
    assert key not in text(client, "/settings/connect")


def test_use_of_foreign_keys_is_not_shown(client: Client) -> None:
    other = make_user()
    create_key(person=other, name="secret")
    row = ApiKey.objects.get(person=other)
    assert client.get(f"/settings/keys/{row.pk}/use").status_code == 404


def archive_of(owner: User) -> OwnArchive:
    return OwnArchive.objects.get(person_id=owner.pk)


def test_archive_is_written_in_background_and_fetched(owner: User, client: Client) -> None:
    make_conversation(owner, exchange(("what?", "that")), title="Mine")
    client.post("/settings/data/archives")
    row = archive_of(owner)
    assert asked_for("convmemory.ops.tasks.write_own_archive").count() == 1
    assert "Waiting to be written" in text(client, "/settings/data")
    assert client.post("/settings/data/archives").status_code == 422
    assert client.get(f"/settings/data/archives/{row.pk}").status_code == 404
    assert write_own_archive(row.pk, archive_id=row.person_id) == {"state": "done"}
    part = text(client, "/settings/data", headers=HTMX | {"HX-Target": "archives"})
    assert f'href="/settings/data/archives/{row.pk}"' in part
    assert "<html" not in part
    assert "hx-get" not in part
    answer = client.get(f"/settings/data/archives/{row.pk}")
    assert answer.headers["Content-Disposition"].startswith('attachment; filename="convmemory-')
    archive = zipfile.ZipFile(io.BytesIO(answer.getvalue()))
    (line,) = archive.read("tables/conversations_conversation.jsonl").splitlines()
    assert json.loads(line)["title"] == "Mine"
    assert write_own_archive(row.pk, archive_id=row.person_id) == {"state": "gone"}, "written twice"


def test_archives_are_deleted_on_request_by_age_and_on_erasure(owner: User, client: Client) -> None:
    places = []
    for _ in range(3):
        row = exporting.request_archive(caller=Caller.of(owner))
        write_own_archive(row.pk, archive_id=row.person_id)
        row.refresh_from_db()
        places.append(str(row.file.name))
    one, two, _ = OwnArchive.objects.order_by("pk")
    client.post(f"/settings/data/archives/{one.pk}/remove")
    OwnArchive.objects.filter(pk=two.pk).update(created_at=timezone.now() - timedelta(days=8))
    assert remove_old_archives() == {"deleted": 1}
    assert [document_storage().exists(place) for place in places] == [False, False, True]
    erase_user(user=owner)
    assert not document_storage().exists(places[2])


def test_number_of_archives_of_person_is_limited(owner: User, client: Client) -> None:
    for _ in range(exporting.MAX_KEPT):
        row = exporting.request_archive(caller=Caller.of(owner))
        write_own_archive(row.pk, archive_id=row.person_id)
    answer = client.post("/settings/data/archives")
    assert (answer.status_code, b"delete one of them first" in answer.content) == (422, True)
    assert OwnArchive.objects.filter(person_id=owner.pk).count() == exporting.MAX_KEPT
    client.post(f"/settings/data/archives/{row.pk}/remove")
    assert client.post("/settings/data/archives").status_code == 302


def test_failed_archives_do_not_add_up(owner: User) -> None:
    OwnArchive.objects.bulk_create(OwnArchive(person_id=owner.pk, state="failed") for _ in range(20))
    row = exporting.request_archive(caller=Caller.of(owner))
    assert list(exporting.archives_of(caller=Caller.of(owner))) == [row]


def test_archives_of_others_are_neither_fetched_nor_removed(client: Client) -> None:
    row = exporting.request_archive(caller=Caller.of(make_user()))
    write_own_archive(row.pk, archive_id=row.person_id)
    assert client.get(f"/settings/data/archives/{row.pk}").status_code == 404
    assert client.post(f"/settings/data/archives/{row.pk}/remove").status_code == 404
    assert OwnArchive.objects.filter(pk=row.pk).exists()


def test_archive_that_fails_says_why(owner: User, client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(**values: object) -> None:
        raise InvalidInput("The disk is full.")

    monkeypatch.setattr(exporting, "export_user", refuse)
    row = exporting.request_archive(caller=Caller.of(owner))
    assert write_own_archive(row.pk, archive_id=row.person_id) == {"state": "failed"}
    assert "The disk is full." in text(client, "/settings/data")
    assert client.post("/settings/data/archives").status_code == 302
