"""Documents in a real browser: dropped, read, found, and opened at the cited place; also on a phone."""

import re
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Literal

import pytest
from django.contrib.auth.models import User
from django.db import connection
from playwright.sync_api import Page, expect
from pytest_django import Settings
from pytest_django.live_server_helper import LiveServer

from convmemory.documents import drawing, processing
from convmemory.documents.models import Document, Section
from tests.factories import make_user
from tests.support.documents import convert_here, docx_of, email_of, epub_of, indexed, pdf_of, pptx_of, upload, xlsx_of
from tests.surfaces.browser import WIDTHS, Chromium, at_every_width, chromium_path, sign_in
from tests.surfaces.test_browser_accessibility import expect_no_violation

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]

ANSWER = "The greenhouse opens at seven in the morning."
FILLER = "Nothing of interest stands on this page, which is about other things entirely. "
SCHEMES: tuple[Literal["light", "dark"], ...] = ("light", "dark")
PICTURE_IS_SHOWN = """async () => {
  const picture = new Image();
  picture.src = document.querySelector("#page-2 image").getAttribute("href");
  await picture.decode();
  return picture.naturalWidth > 500;
}"""
FILES = {
    "hours.pdf": pdf_of([[(12, FILLER)], [(12, ANSWER)]]),
    "hours.docx": docx_of(("Heading 1", "Visits"), ("Normal", ANSWER)),
    "hours.pptx": pptx_of(("Welcome", FILLER), ("Visits", ANSWER)),
    "hours.xlsx": xlsx_of(Visits=[["What", "When"], ["Greenhouse", ANSWER]]),
    "hours.epub": epub_of(one=f"<h1>Visits</h1><p>{ANSWER}</p>"),
    "hours.html": f"<html><body><h1>Visits</h1><p>{ANSWER}</p></body></html>".encode(),
    "hours.md": f"# Visits\n\n{ANSWER}\n".encode(),
    "hours.txt": ANSWER.encode(),
    "hours.py": f"def visits():\n    return '{ANSWER}'\n".encode(),
    "hours.csv": f"what,when\ngreenhouse,{ANSWER}\n".encode(),
    "hours.eml": email_of("Visits", ANSWER),
}


@pytest.fixture(scope="module")
def chromium() -> Iterator[Chromium]:
    browser = Chromium(chromium_path())
    yield browser
    browser.close()


@pytest.fixture
def owner(settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> User:
    settings.MEDIA_ROOT = tmp_path / "media"
    monkeypatch.setattr(processing, "run_child", convert_here)
    return make_user("ada")


def draw_as_a_worker(document: Document) -> None:
    try:
        drawing.draw_pages(owner_id=document.owner_id, document_id=document.pk, first=1)
    finally:
        connection.close()


def signed_in(steps: Callable[[Page], None]) -> Callable[[Page], None]:
    def sign_in_first(page: Page) -> None:
        sign_in(page)
        steps(page)

    return sign_in_first


@pytest.mark.parametrize("name", sorted(FILES))
def test_an_upload_of_each_format_opens_at_the_cited_place(
    chromium: Chromium, live_server: LiveServer, owner: User, name: str
) -> None:
    document = indexed(upload(owner, FILES[name], name))
    drawing.draw_pages(owner_id=owner.pk, document_id=document.pk, first=1)

    def steps(page: Page) -> None:
        page.get_by_role("searchbox").fill("when does the greenhouse open")
        hit = page.locator(".hit").first
        expect(hit).to_contain_text("seven in the morning")
        hit.click()
        passage = page.locator("#passage")
        expect(passage).to_be_in_viewport()
        if name.endswith(".pdf"):
            expect(passage).to_have_attribute("aria-label", re.compile("seven in the morning"))
            expect(page.locator("#page-2 .sheet-text text")).to_contain_text("seven in the morning")
            assert page.evaluate(PICTURE_IS_SHOWN)
        else:
            marked = page.locator("mark.passage").last if name.endswith(".md") else passage  # with its heading
            expect(marked).to_contain_text("seven in the morning")
        expect(page.get_by_role("searchbox")).to_have_value("when does the greenhouse open")

    chromium.visit(live_server.url, signed_in(steps))


def test_a_markdown_document_is_laid_out_at_every_width(
    chromium: Chromium, live_server: LiveServer, owner: User
) -> None:
    beds = "".join(f"| bed number {number} of all | leeks, with celery | {ANSWER} |\n" for number in range(60))
    code = f"```python\nopens = '{ANSWER * 4}'\n```\n"
    text = f"# Greenhouse\n\n{FILLER}\n\n{code}\n| bed | what | hours |\n|---|---|--:|\n{beds}"
    document = indexed(upload(owner, text, "greenhouse.md"))
    section = Section.objects.get(document=document, text__contains="bed number 50 ")
    start = section.start + section.text.index("bed number 50 ")
    address = f"/documents/{document.pk}?section={section.number}&from={start}&to={start + 13}#section-{section.number}"

    def steps(page: Page, width: int) -> None:
        for scheme in SCHEMES:
            page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
            page.goto(address)
            expect(page.locator("td #passage")).to_have_text("bed number 50")
            expect(page.locator("#passage")).to_be_in_viewport()
            expect(page.locator("th", has_text="hours").first).to_be_attached()
            if width in (WIDTHS[0], WIDTHS[-1]):
                expect_no_violation(page, f"a document, {scheme}, {width} pixels")
        page.goto(f"/documents/{document.pk}")
        expect(page.locator(".doc-section h1")).to_have_text("Greenhouse")
        expect(page.locator(".code pre").first).to_contain_text(ANSWER)

    chromium.visit(live_server.url, signed_in(at_every_width(steps)))


def test_a_page_takes_the_place_of_its_text_once_it_is_drawn(
    chromium: Chromium, live_server: LiveServer, owner: User
) -> None:
    document = indexed(upload(owner, FILES["hours.pdf"], "hours.pdf"))

    def steps(page: Page) -> None:
        page.goto(f"/documents/{document.pk}?section=1&from=82&to=120#section-1")
        expect(page.locator("#page-2 .sheet-waiting")).to_be_visible()
        with ThreadPoolExecutor(1) as worker:  # the browser's own thread may not touch the database
            worker.submit(draw_as_a_worker, document).result()
        expect(page.locator("#page-2 .sheet-picture")).to_be_visible()
        expect(page.locator("#passage")).to_be_in_viewport()

    chromium.visit(live_server.url, signed_in(steps))


@pytest.mark.parametrize("javascript", [True, False])
def test_a_file_is_added_on_a_phone(
    chromium: Chromium, live_server: LiveServer, owner: User, javascript: bool, tmp_path: Path
) -> None:
    file = tmp_path / "visits.md"
    file.write_bytes(FILES["hours.md"])

    def steps(page: Page) -> None:
        page.get_by_role("link", name="Documents").click()
        page.locator("input#file").set_input_files(str(file))
        page.get_by_role("button", name="Add").click()
        expect(page.get_by_text("waiting")).to_be_visible()
        assert page.evaluate("document.documentElement.scrollWidth") <= 390

    chromium.visit(live_server.url, signed_in(steps), width=390, height=844, javascript=javascript)
    assert Document.objects.get().name == "visits.md"
