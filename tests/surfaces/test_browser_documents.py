"""Documents in a real browser: dropped, read, found, and opened at the cited place; also on a phone."""

import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Literal

import pytest
from django.contrib.auth.models import User
from django.db import connection
from playwright.sync_api import Page, expect

from convmemory.documents import drawing
from convmemory.documents.models import Document, Section
from tests.support.documents import docx_of, email_of, epub_of, indexed, pdf_of, pptx_of, upload, xlsx_of
from tests.surfaces.browser import PHONE, WIDTHS, at_every_width, held
from tests.surfaces.test_browser_accessibility import expect_no_violation

pytestmark = [
    pytest.mark.browser,
    pytest.mark.django_db(transaction=True),
    pytest.mark.usefixtures("documents_here"),
]

ANSWER = "The greenhouse opens at seven in the morning."
FILLER = "Nothing of interest stands on this page, which is about other things entirely. "
SCHEMES: tuple[Literal["light", "dark"], ...] = ("light", "dark")
PICTURE_IS_SHOWN = """async () => {
  const picture = new Image();
  picture.src = document.querySelector("#page-2 image").getAttribute("href");
  await picture.decode();
  return picture.naturalWidth > 500;
}"""
PDF = pdf_of([[(12, FILLER)], [(12, ANSWER)]])
FORMATS: dict[str, Callable[[str], bytes]] = {
    "lisbon.pdf": lambda said: pdf_of([[(12, FILLER)], [(12, said)]]),
    "oslo.docx": lambda said: docx_of(("Heading 1", "Visits"), ("Normal", said)),
    "turin.pptx": lambda said: pptx_of(("Welcome", FILLER), ("Visits", said)),
    "ghent.xlsx": lambda said: xlsx_of(Visits=[["What", "When"], ["Greenhouse", said]]),
    "cork.epub": lambda said: epub_of(one=f"<h1>Visits</h1><p>{said}</p>"),
    "basel.html": lambda said: f"<html><body><h1>Visits</h1><p>{said}</p></body></html>".encode(),
    "tartu.md": lambda said: f"# Visits\n\n{said}\n".encode(),
    "malmo.txt": str.encode,
    "porto.py": lambda said: f"def visits():\n    return '{said}'\n".encode(),
    "delft.csv": lambda said: f"what,when\ngreenhouse,{said}\n".encode(),
    "kaunas.eml": lambda said: email_of("Visits", said),
}
"""Documents of each format by their names, made of what they say."""


def town_of(name: str) -> str:
    return Path(name).stem.capitalize()


def opening_of(name: str) -> str:
    return f"The greenhouse of {town_of(name)} opens at seven in the morning."


def draw_as_a_worker(document: Document) -> None:
    try:
        drawing.draw_pages(archive_id=document.archive_id, document_id=document.pk, first=1)
    finally:
        connection.close()


def test_upload_of_each_format_opens_at_cited_place(visit: Callable[..., None], owner: User) -> None:
    for name, make in FORMATS.items():
        document = indexed(upload(owner, make(opening_of(name)), name))
        if name == "lisbon.pdf":
            drawing.draw_pages(archive_id=owner.pk, document_id=document.pk, first=1)

    def steps(page: Page) -> None:
        for name in FORMATS:
            town, query = town_of(name), f"when does the greenhouse of {town_of(name)} open"
            page.goto("/search")
            page.get_by_role("searchbox").fill(query)
            hit = page.locator(".hit").first
            expect(hit).to_contain_text(f"greenhouse of {town}")
            hit.click()
            passage = page.locator("#passage")
            expect(passage).to_be_in_viewport()
            if name.endswith(".pdf"):
                expect(passage).to_have_attribute("aria-label", re.compile(f"greenhouse of {town}"))
                expect(page.locator("#page-2 .sheet-text text")).to_contain_text(f"greenhouse of {town}")
                assert page.evaluate(PICTURE_IS_SHOWN)
            else:
                marked = page.locator("mark.passage").last if name.endswith(".md") else passage  # with its heading
                expect(marked).to_contain_text(f"greenhouse of {town}")
            expect(page.get_by_role("searchbox", name="Search what was said")).to_have_value(query)

    visit(steps)


def make_markdown_document(owner: User) -> str:
    """Store a document, and return the address of a cell in a long table of it."""
    beds = "".join(f"| bed number {number} of all | leeks, with celery | {ANSWER} |\n" for number in range(60))
    code = f"```python\nopens = '{ANSWER * 4}'\n```\n"
    text = f"# Greenhouse\n\n{FILLER}\n\n{code}\n| bed | what | hours |\n|---|---|--:|\n{beds}"
    document = indexed(upload(owner, text, "greenhouse.md"))
    section = Section.objects.get(document=document, text__contains="bed number 50 ")
    start = section.start + section.text.index("bed number 50 ")
    return f"/documents/{document.pk}?section={section.number}&from={start}&to={start + 13}#section-{section.number}"


def read_markdown_document(page: Page, width: int, address: str) -> None:
    for scheme in SCHEMES:
        page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
        page.goto(address)
        expect(page.locator("td #passage")).to_have_text("bed number 50")
        expect(page.locator("#passage")).to_be_in_viewport()
        expect(page.locator("th", has_text="hours").first).to_be_attached()
        if width in (WIDTHS[0], WIDTHS[-1]):
            expect_no_violation(page, f"a document, {scheme}, {width} pixels")
    page.goto(address.split("?", maxsplit=1)[0])
    expect(page.locator(".doc-section h2")).to_have_text("Greenhouse")
    expect(page.locator(".code pre").first).to_contain_text(ANSWER)


def read_page_while_it_is_drawn(page: Page, document: Document) -> None:
    page.goto(f"/documents/{document.pk}?section=1&from=82&to=120#section-1")
    expect(page.locator("#page-2 .sheet-waiting")).to_be_visible()
    with held(page, lambda url: "/pages/1?" in url):  # the page above it comes later
        with ThreadPoolExecutor(1) as worker:  # the browser's own thread may not touch the database
            worker.submit(draw_as_a_worker, document).result()
        expect(page.locator("#page-2 .sheet-picture")).to_be_visible()
        expect(page.locator("#passage")).to_be_in_viewport()
    expect(page.locator("#page-1 .sheet-picture")).to_be_visible()
    expect(page.locator("#passage")).to_be_in_viewport()
    page.reload()
    expect(page.locator("#passage")).to_be_in_viewport()


def add_file_on_phone(page: Page, file: Path) -> None:
    page.get_by_role("link", name="Documents").click()
    page.locator("input#file").set_input_files(str(file))
    expect(page.get_by_text("waiting")).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]


def test_person_adds_file_and_reads_markdown_and_page_while_it_is_drawn(
    visit: Callable[..., None], owner: User, tmp_path: Path
) -> None:
    document = indexed(upload(owner, PDF, "hours.pdf"))
    file = tmp_path / "visits.md"
    file.write_bytes(f"# Visits\n\n{ANSWER}\n".encode())
    address = make_markdown_document(owner)
    at_every_width(visit, lambda page, width: read_markdown_document(page, width, address))
    visit(lambda page: read_page_while_it_is_drawn(page, document))
    visit(lambda page: add_file_on_phone(page, file), **PHONE)
    assert Document.objects.latest("pk").name == "visits.md"
