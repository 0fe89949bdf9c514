"""The library, the viewer and a conversation's documents, as pages that work without JavaScript."""

import re
from html import unescape
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client
from pytest_django import Settings

from convmemory.accounts.callers import Caller
from convmemory.chat.agents import create_agent
from convmemory.core.models import OwnerTask
from convmemory.documents import library, tasks
from convmemory.documents.models import Document, Section
from search.adapters.conversations import index_conversation
from search.models import Item, PassageBlock
from tests.factories import exchange, make_conversation, make_user
from tests.support.api import signed_in
from tests.support.documents import GUIDE, indexed, pdf_of, read, upload
from tests.support.markup import flat
from tests.support.planted_keys import planted_keys

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("documents_here")]


@pytest.fixture
def owner() -> User:
    return make_user("ada")


def page(browser: Client, path: str, **query: Any) -> str:
    answer = browser.get(path, query)
    assert answer.status_code == 200, answer.content
    return flat(answer.content.decode())


def test_files_are_added_and_shown_with_their_state(browser: Client) -> None:
    files = [SimpleUploadedFile("guide.md", GUIDE.encode()), SimpleUploadedFile("empty.txt", b" ")]
    assert browser.post("/documents", {"file": files}).status_code == 302
    shown = page(browser, "/documents")
    assert shown.count('hx-trigger="every 2s"') == 2
    for document in Document.objects.all():
        read(document)
    shown = page(browser, "/documents")
    assert "Garden guide" in shown
    assert "The file holds no text" in shown
    failed = Document.objects.get(status="failed")
    assert browser.post(f"/documents/{failed.pk}/retry").status_code == 302
    failed.refresh_from_db()
    assert failed.status == "uploaded"


def test_refused_upload_shows_its_reason_on_page(browser: Client, settings: Settings) -> None:
    settings.MAX_DOCUMENT_MB = 0
    answer = browser.post("/documents", {"file": SimpleUploadedFile("guide.md", GUIDE.encode())})
    assert (answer.status_code, b"The file is larger than 0 MB: split it" in answer.content) == (422, True)
    assert browser.post("/documents").status_code == 422


def test_new_version_of_unknown_document_stores_no_file(browser: Client, settings: Settings) -> None:
    file = SimpleUploadedFile("guide.md", GUIDE.encode())
    assert browser.post("/documents", {"file": file, "replaces": "999999"}).status_code == 404
    assert [path for path in Path(settings.MEDIA_ROOT).rglob("*") if path.is_file()] == []


def test_new_version_of_document_deleted_meanwhile_leaves_no_file(
    browser: Client, owner: User, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    document = upload(owner, GUIDE)
    store_file = library.store_file

    def store_while_it_is_deleted(**arguments: Any) -> library.StoredFile:
        document.delete()
        return store_file(**arguments)

    monkeypatch.setattr(library, "store_file", store_while_it_is_deleted)
    file = SimpleUploadedFile("new.md", b"A new version.")
    assert browser.post("/documents", {"file": file, "replaces": document.pk}).status_code == 404
    left = [path.name for path in Path(settings.MEDIA_ROOT).rglob("*") if path.is_file()]
    assert left in ([], [document.digest])  # the deleted document's own file goes when its transaction ends


def test_viewer_marks_passage_and_has_outline(browser: Client, owner: User) -> None:
    document = indexed(upload(owner, GUIDE * 9))
    start = GUIDE.index("Tomatoes need")
    shown = page(browser, f"/documents/{document.pk}", section=0, **{"from": start, "to": start + 13})
    assert '<mark class="passage" id="passage" tabindex="-1">Tomatoes need</mark>' in shown
    assert 'aria-label="Outline"' in shown
    part = browser.get(f"/documents/{document.pk}", headers={"HX-Request": "true"})
    assert b"<html" not in part.content
    assert browser.get(f"/documents/{document.pk}", {"section": "x"}).status_code == 422
    assert browser.get(f"/documents/{document.pk}", {"section": 999}).status_code == 200


def test_words_are_found_in_document_and_lead_to_their_place(browser: Client, owner: User) -> None:
    text = "# Bees\n\nA hive needs water.\n\n# Trees\n\nPrune pears in winter, and water <young> ones.\n"
    document = read(upload(owner, text))
    shown = page(browser, document.get_absolute_url(), find="WATER young")
    assert "1 section with “WATER young”" in shown
    link = re.search(r'href="([^"]+find=WATER[^"]+)"', shown)
    assert link
    assert '<mark class="passage" id="passage"' in page(browser, unescape(link[1]).partition("#")[0])
    assert "0 sections with “&lt;b&gt;”" in page(browser, document.get_absolute_url(), find="<b>")


def test_markdown_is_laid_out_in_viewer_and_in_preview(browser: Client, owner: User) -> None:
    beds = "".join(f"| bed {number} | leeks |\n" for number in range(200))
    document = indexed(upload(owner, f"# Beds\n\n- **one**\n\n| bed | what |\n|---|---|\n{beds}", "beds.md"))
    whole = Section.objects.get(document=document, text__contains="bed 150")
    start = whole.start + whole.text.index("bed 150")
    for path in (f"/documents/{document.pk}", f"/search/preview/documents/{document.pk}"):
        shown = page(browser, path, section=whole.number, **{"from": start, "to": start + 7})
        assert shown.count('<td><mark class="passage" id="passage" tabindex="-1">bed 150</mark></td>') == 1, path
        assert "<th>what</th>" in shown
        assert "|---|" not in shown
    assert "<strong>one</strong>" in page(browser, f"/documents/{document.pk}")


def test_other_formats_than_markdown_are_shown_as_text(browser: Client, owner: User) -> None:
    for name in ("notes.txt", "notes.rst", "notes.py"):
        document = read(upload(owner, f"x = 1  # **{name}**", name))
        assert f"# **{name}**</div>" in page(browser, f"/documents/{document.pk}")


def test_pages_of_pdf_are_named(browser: Client, owner: User) -> None:
    document = read(upload(owner, pdf_of([[(12, "one")], [(12, "two")]]), "two.pdf"))
    shown = page(browser, f"/documents/{document.pk}", section=1)
    assert "page 2" in shown


def test_document_shows_what_was_read_of_it(browser: Client, owner: User) -> None:
    stroke = b"q 0 0 m 100 100 l S Q"
    scan = pdf_of([[(12, "Cover letter")], []]).replace(
        b"<</Length 0>>stream\n", b"<</Length %d>>stream\n%s" % (len(stroke), stroke)
    )
    document = read(upload(owner, scan, "scan.pdf"))
    for path in ("/documents", f"/documents/{document.pk}"):
        shown = page(browser, path)
        assert "Read: 1 of 2 pages." in shown
        assert "1 of 2 pages was not read (page 2): pictures without text. Run OCR over the file" in shown
    found = browser.get(f"/api/v1/documents/{document.pk}").json()
    assert found["coverage"] == [{"part": "page", "read": 1, "total": 2}]


def test_pdf_is_text_until_worker_has_drawn_it(browser: Client, owner: User) -> None:
    document = read(upload(owner, pdf_of([[(12, "one")], [(12, "two & three")]]), "two.pdf"))
    place = {"section": 1, "from": 11, "to": 16}
    waiting = page(browser, f"/documents/{document.pk}", **place)
    assert waiting.count('hx-trigger="every 1s"') == 2
    assert [task.args for task in OwnerTask.objects.filter(func=tasks.DRAW)] == [[document.pk, 1]]
    assert browser.get(f"/documents/{document.pk}/pages/2.webp").status_code == 404
    tasks.draw(document.pk, 1, archive_id=owner.pk)
    drawn = page(browser, f"/documents/{document.pk}", **place)
    assert 'hx-trigger="every 1s"' not in drawn
    assert "two &amp; three </text>" in drawn
    assert re.search(r'id="passage"[^>]* aria-label="three"><rect x="\d+" y="\d+" width="\d+"', drawn)
    assert 'class="sheet-text"' not in page(browser, f"/documents/{document.pk}", view="text")
    one = page(browser, f"/documents/{document.pk}/pages/2", **place)
    assert 'id="passage"' in one
    picture = browser.get(f"/documents/{document.pk}/pages/2.webp")
    assert (picture.status_code, picture.headers["Content-Type"]) == (200, "image/webp")
    assert b"".join(picture.streaming_content)[8:12] == b"WEBP"  # type: ignore[attr-defined]
    for missing in ("/pages/3", "/pages/0", "/pages/3.webp"):
        assert browser.get(f"/documents/{document.pk}{missing}").status_code == 404


def test_markup_in_document_is_text(browser: Client, owner: User) -> None:
    document = read(upload(owner, "# <script>alert(1)</script>\n\n<img src=x onerror=alert(1)>"))
    shown = page(browser, f"/documents/{document.pk}")
    assert "<script>alert" not in shown
    assert "<img src=x" not in shown


def test_file_is_downloaded_never_shown(browser: Client, owner: User) -> None:
    document = upload(owner, "<script>alert(1)</script>", "page.html")
    answer = browser.get(f"/documents/{document.pk}/file")
    assert answer.headers["Content-Disposition"].startswith("attachment")
    assert answer.headers["Content-Type"] == "application/octet-stream"
    assert b"".join(answer.streaming_content) == b"<script>alert(1)</script>"  # type: ignore[attr-defined]


def test_deleting_document_asks_for_confirmation(browser: Client, owner: User) -> None:
    document = read(upload(owner, GUIDE))
    asked = page(browser, f"/documents/{document.pk}/delete")
    assert "Delete this document?" in asked
    assert f'href="/documents/{document.pk}" aria-label="Back to the document"' in asked
    assert Document.objects.exists()
    assert browser.post(f"/documents/{document.pk}/delete").status_code == 302
    assert not Document.objects.exists()


def test_documents_are_attached_to_conversation(browser: Client, owner: User) -> None:
    document = read(upload(owner, GUIDE))
    chat = make_conversation(owner, exchange(("hello", "Hi.")))
    place = f"/conversations/{chat.pk}/documents"
    assert "No document is attached" in page(browser, place)
    assert browser.post(place, {"document": [document.pk]}).status_code == 302
    shown = page(browser, place)
    assert f'name="detach" value="{document.pk}"' in shown
    assert "All your documents are attached." in shown
    assert "to your library first" not in shown
    assert browser.post(place, {"detach": document.pk}).status_code == 302
    assert "No document is attached" in page(browser, place)


def test_documents_are_attached_to_agent(browser: Client, owner: User) -> None:
    document = read(upload(owner, GUIDE))
    agent = create_agent(caller=Caller.of(owner), values={"name": "Gardener"})
    place = f"/agents/{agent.pk}/documents"
    assert f'href="{place}"' in page(browser, f"/agents/{agent.pk}")
    assert "No document is attached" in page(browser, place)
    assert browser.post(place, {"document": [document.pk]}).status_code == 302
    assert f'name="detach" value="{document.pk}"' in page(browser, place)
    assert browser.post(place, {"detach": document.pk}).status_code == 302
    assert "No document is attached" in page(browser, place)
    stranger = signed_in(make_user())
    assert stranger.get(place).status_code == 404
    assert stranger.post(place, {"document": [document.pk]}).status_code == 404


def test_keys_in_document_are_hidden_from_all_but_its_file(browser: Client, owner: User) -> None:
    key = planted_keys()["github-token"]
    document = indexed(upload(owner, f"# Deploying\n\nThe deploy step needs the token {key} in its environment.\n"))
    for path in (f"/documents/{document.pk}", "/documents", "/search"):
        shown = page(browser, path, q="deploy token")
        assert key not in shown
    assert "[hidden github-token]" in page(browser, f"/documents/{document.pk}")
    assert "One key, token or password is hidden" in page(browser, "/documents")
    tables = (Section, Item, PassageBlock, Document)
    rows = [row for table in tables for row in table._default_manager.values()]
    assert key.lower() not in str(rows).lower()
    answer = browser.get(f"/documents/{document.pk}/file")
    assert key.encode() in b"".join(answer.streaming_content)  # type: ignore[attr-defined]


def test_search_box_finds_both(browser: Client, owner: User) -> None:
    document = indexed(upload(owner, GUIDE))
    chat = make_conversation(owner, exchange(("how much sun do tomatoes need?", "Tomatoes need a lot of sun.")))
    index_conversation(conversation_id=chat.pk)
    shown = page(browser, "/search", q="sun for tomatoes")
    assert f'href="/documents/{document.pk}?section=0&amp;from=' in shown
    assert f'href="/conversations/{chat.pk}?turn=0' in shown
    assert f"/documents/{document.pk}?" not in page(browser, "/search", q="sun for tomatoes", kind="turn")
    assert f"/conversations/{chat.pk}?" not in page(browser, "/search", q="sun for tomatoes", kind="section")


def test_another_users_document_is_404(owner: User) -> None:
    document = read(upload(owner, GUIDE))
    stranger = signed_in(make_user())
    for path in ("", "/card", "/file", "/delete", "/pages/1", "/pages/1.webp"):
        assert stranger.get(f"/documents/{document.pk}{path}").status_code == 404, path
    for path in ("/retry", "/delete"):
        assert stranger.post(f"/documents/{document.pk}{path}").status_code == 404, path
    file = SimpleUploadedFile("guide.md", b"mine now")
    assert stranger.post("/documents", {"file": file, "replaces": document.pk}).status_code == 404
    assert Client().get(f"/documents/{document.pk}").status_code == 302


def test_documents_are_found_by_title_and_sorted(browser: Client, owner: User) -> None:
    for name, text in (("rye.md", "# Rye\n\nShort."), ("oven.md", "# An oven\n\n" + "Hot. " * 50)):
        read(upload(owner, text, name))

    def rows(**query: Any) -> list[str]:
        return re.findall(r'<a href="/documents/\d+">([^<]+)</a>', page(browser, "/documents", **query))

    assert rows() == ["An oven", "Rye"]
    read(upload(owner, "# about rye\n\nNo.", "about.md"))
    assert rows(sort="title") == ["about rye", "An oven", "Rye"]
    assert rows(q="RYE") == ["about rye", "Rye"]
    assert rows(sort="size") == ["An oven", "about rye", "Rye"]
    assert "No document has “flour”" in page(browser, "/documents", q="flour")
    assert browser.get("/documents?sort=secret").status_code == 422
