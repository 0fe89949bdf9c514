"""Every format is read, with headings and pages; what cannot be read says why and what to do."""

import io
import json
import stat
import zipfile
from pathlib import Path

import pytest

from convmemory.documents.converters.base import ConvertLimits
from convmemory.documents.structure import SectionDraft
from tests.support.documents import (
    converted,
    docx_of,
    email_of,
    encrypted_pdf,
    epub_of,
    packed,
    pdf_of,
    pptx_of,
    xlsx_of,
)
from tests.support.slow_files import workbook_with

LAST_CELL = (1_048_575, 16_383)  # XFD1048576
LONG = "A sentence that says a good deal of how plants grow in the shade of old walls. " * 4


def paths(sections: list[SectionDraft]) -> list[str]:
    return [" > ".join(section.path) for section in sections]


def test_markdown_is_its_own_text(tmp_path: Path) -> None:
    text = f"# Guide\n\n{LONG}\n\n```\n# no heading\n```\n\nSoil\n----\n\n{LONG}"
    heading, sections = converted(tmp_path, text, "guide.md")
    assert (heading.format, heading.title) == ("markdown", "Guide")
    assert paths(sections) == ["Guide", "Guide > Soil"]
    assert "".join(section.text for section in sections) == text


@pytest.mark.parametrize(("content", "encoding"), [("Bäume, drei", "utf-16"), ("Bäume", "cp1252")])
def test_text_of_any_encoding_is_read(tmp_path: Path, content: str, encoding: str) -> None:
    heading, [section] = converted(tmp_path, content.encode(encoding), "notes.txt")
    assert (heading.format, section.text) == ("text", content)


def test_code_has_section_for_each_function(tmp_path: Path) -> None:
    body = "\n".join(f"    value_{number} = {number} * 2" for number in range(12))
    text = f"import os\n\n\nclass Garden:\n{body}\n    def water(self):\n{body}\n\n\ndef plant(seed):\n{body}\n"
    _, sections = converted(tmp_path, text, "garden.py")
    assert paths(sections) == ["class Garden", "class Garden > def water(self)", "def plant(seed)"]
    assert "".join(section.text for section in sections) == text


def test_pdf_has_pages_and_headings_by_size_of_type(tmp_path: Path) -> None:
    lines = [(12, LONG[:80]) for _ in range(6)]
    data = pdf_of([[(24, "Growing"), *lines], [(12, "Second page, the same chapter."), *lines]])
    heading, sections = converted(tmp_path, data, "plants.pdf")
    assert (heading.format, heading.pages, heading.title) == ("pdf", 2, "plants")
    assert [(section.page, section.path) for section in sections] == [(1, ("Growing",)), (2, ("Growing",))]
    assert sections[1].text.startswith("Second page, the same chapter.")


def test_word_has_headings_and_tables(tmp_path: Path) -> None:
    data = docx_of(("Heading 1", "Guide"), ("Normal", LONG), ("Heading 2", "Prices"), ("table", "Seed|Euro/Bean|2"))
    heading, sections = converted(tmp_path, data, "guide.docx")
    assert heading.format == "docx"
    assert paths(sections) == ["Guide", "Guide > Prices"]
    assert sections[1].text == "Prices\n\nSeed | Euro\nBean | 2\n\n"


@pytest.mark.parametrize(
    ("name", "content", "title"),
    [
        ("a.docx", docx_of(("Heading 1", "Guide to ferns"), ("Normal", LONG)), "Guide to ferns"),
        ("a.docx", docx_of(("Normal", LONG)), "a"),
        ("a.pptx", pptx_of(("Soil", "Loam is best.")), "Soil"),
        ("notes.md", "# 12\n\nText.", "notes"),
        ("2024.md", "# 12\n\nText.", "2024"),
    ],
)
def test_title_says_something(tmp_path: Path, name: str, content: bytes | str, title: str) -> None:
    heading, _ = converted(tmp_path, content, name)
    assert heading.title == title


def test_slides_are_pages(tmp_path: Path) -> None:
    heading, sections = converted(tmp_path, pptx_of(("Soil", "Loam is best."), ("Sun", "Six hours.")), "show.pptx")
    assert (heading.format, heading.pages) == ("pptx", 2)
    assert [(section.page, section.path, section.text) for section in sections] == [
        (1, ("Soil",), "Soil\n\nLoam is best.\n\n"),
        (2, ("Sun",), "Sun\n\nSix hours.\n\n"),
    ]


def test_sheets_are_pages_under_names_of_their_columns(tmp_path: Path) -> None:
    rows: list[list[object]] = [["Seed", "Price", "Fresh"], ["Bean", 2.5, True], ["Pea", 3.0, False]]
    heading, sections = converted(tmp_path, xlsx_of(Prices=rows, Stock=[["Seed"], ["Kale"]]), "shop.xlsx")
    assert (heading.format, heading.pages) == ("xlsx", 2)
    assert paths(sections) == ["Prices > Seed | Price | Fresh", "Stock > Seed"]
    assert "Bean | 2.5 | yes\nPea | 3 | no\n" in sections[0].text


def test_sheet_that_cannot_be_read_is_named_and_others_are_read(tmp_path: Path) -> None:
    source, target = zipfile.ZipFile(io.BytesIO(xlsx_of(Stock=[["Seed"], ["Kale"]], Prices=[[2.5]]))), io.BytesIO()
    with zipfile.ZipFile(target, "w") as archive:
        for name in source.namelist():
            archive.writestr(name, source.read(name).replace(b"><v>2.5</v>", b' t="n"><v> 2.5</v>'))
    heading, sections = converted(tmp_path, target.getvalue(), "shop.xlsx")
    assert paths(sections) == ["Stock > Seed"]
    assert list(heading.notes) == [
        "1 sheet was not read (sheet Prices). Save the file again in the program that made it."
    ]


def test_book_is_read_in_its_order(tmp_path: Path) -> None:
    data = epub_of(two=f"<h1>Second</h1><p>{LONG}</p>", one=f"<h1>First</h1><p>{LONG}</p>")
    heading, sections = converted(tmp_path, data, "book.epub")
    assert (heading.format, heading.title) == ("epub", "A book")
    assert paths(sections) == ["Second", "First"]


def test_html_without_its_scripts(tmp_path: Path) -> None:
    page = f"<html><head><title>Peas</title><script>steal()</script></head><body><h1>Peas</h1><p>{LONG}</p><script>x"
    heading, [section] = converted(tmp_path, page, "peas.html")
    assert (heading.format, heading.title) == ("html", "Peas")
    assert "steal" not in section.text
    assert section.path == ("Peas",)


def test_mail_names_its_attachments(tmp_path: Path) -> None:
    heading, [section] = converted(tmp_path, email_of("Seeds", "They arrive on Monday.", attachment="a.pdf"), "m.eml")
    assert (heading.format, heading.title) == ("email", "Seeds")
    assert "From: ada@example.org" in section.text
    assert "They arrive on Monday." in section.text
    assert "a.pdf" in heading.notes[0]


def test_table_of_values_keeps_names_of_its_columns(tmp_path: Path) -> None:
    text = "seed,price\n" + "bean,2\n" * 400
    _, sections = converted(tmp_path, text, "prices.csv")
    assert len(sections) > 1
    assert set(paths(sections)) == {"seed,price"}


@pytest.mark.parametrize(
    ("content", "name", "failure", "remedy"),
    [
        (encrypted_pdf(), "a.pdf", "encrypted", "without one"),
        (b"%PDF-1.4 and then nothing", "a.pdf", "broken", "save it again"),
        (pdf_of([[], [], []]), "scan.pdf", "no_text", "OCR"),
        (b"", "a.md", "empty", "empty"),
        (b"   \n \n", "a.txt", "no_text", "no text"),
        (b"\x7fELF\x00\x00\x01", "a.txt", "unknown", "no document"),
        (b"\x89PNG\r\n", "a.png", "unknown", "picture"),
        (packed(a_dot_txt="x"), "a.zip", "unknown", "unpack"),
        (b"PK\x03\x04 broken", "a.docx", "broken", "save it again"),
        (packed(word__document_dot_xml="<w:document"), "a.docx", "broken", "save it again"),
        (packed(xl__workbook_dot_xml="no workbook"), "a.xlsx", "broken", "save it again"),
        (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(600), "a.doc", "unknown", "docx"),
        (
            b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + "EncryptedPackage".encode("utf-16-le"),
            "a.docx",
            "encrypted",
            "password",
        ),
    ],
)
def test_unreadable_document_names_failure_and_remedy(
    tmp_path: Path, content: bytes, name: str, failure: str, remedy: str
) -> None:
    heading, sections = converted(tmp_path, content, name)
    assert (heading.failure, sections) == (failure, [])
    assert remedy in heading.error


def test_zip_bomb_is_not_unpacked(tmp_path: Path) -> None:
    bomb = packed(word__document_dot_xml=bytes(64 * 1024**2))
    assert len(bomb) < 100_000
    heading, _ = converted(tmp_path, bomb, "bomb.docx")
    assert (heading.failure, "unpacks to 64 MB" in heading.error) == ("too_large", True)


def test_format_is_detected_by_content_not_by_name(tmp_path: Path) -> None:
    assert converted(tmp_path, pdf_of([[(12, "Read me")]]), "notes.txt")[0].format == "pdf"
    assert converted(tmp_path, docx_of(("Normal", "Read me")), "notes.pdf")[0].format == "docx"


def test_macros_are_not_looked_at(tmp_path: Path) -> None:
    import io
    import zipfile

    plain, out = zipfile.ZipFile(io.BytesIO(docx_of(("Normal", "Read me")))), io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for entry in plain.infolist():
            data = plain.read(entry)
            if entry.filename == "[Content_Types].xml":
                data = data.replace(
                    b"application/vnd.openxmlformats-officedocument.wordprocessingml.document.main+xml",
                    b"application/vnd.ms-word.document.macroEnabled.main+xml",
                )
            archive.writestr(entry.filename, data)
        archive.writestr("word/vbaProject.bin", b"Shell calc.exe")
    heading, [section] = converted(tmp_path, out.getvalue(), "macros.docm")
    assert (heading.format, section.text) == ("docx", "Read me\n\n")


def test_limits_are_named(tmp_path: Path) -> None:
    limits = ConvertLimits(max_pages=2, max_chars=1_000)
    heading, _ = converted(tmp_path, pdf_of([[(12, "a")]] * 3), "a.pdf", limits)
    assert (heading.failure, "3 pages" in heading.error) == ("too_large", True)
    heading, _ = converted(tmp_path, LONG * 9, "a.txt", limits)
    assert (heading.failure, "MAX_DOCUMENT_CHARS" in heading.error) == ("too_large", True)


def test_sheet_of_million_cells_is_read_and_larger_one_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("convmemory.documents.converters.workbook.MAX_CELLS", 20)
    heading, _ = converted(tmp_path, xlsx_of(A=[["x"] * 4] * 6), "a.xlsx")
    assert (heading.failure, "24 cells" in heading.error) == ("too_large", True)


@pytest.mark.parametrize("cells", [[LAST_CELL], [(0, 0), LAST_CELL], [(0, LAST_CELL[1]), LAST_CELL], [(1_048_575, 2)]])
def test_workbook_with_cell_far_outside_is_refused_by_its_bounds(
    tmp_path: Path, cells: list[tuple[int, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("python_calamine.CalamineWorkbook", None)  # it would allocate the whole range
    heading, _ = converted(tmp_path, workbook_with(*cells), "far.xlsx")
    assert (heading.failure, "delete cells far outside" in heading.error) == ("too_large", True)


def test_formats_without_content_are_no_cells(tmp_path: Path) -> None:
    heading, [section] = converted(tmp_path, workbook_with((0, 0), (2, 1), formats=[LAST_CELL]), "plain.xlsx")
    assert (heading.failure, section.text.split()) == ("", ["Far", "x", "|", "x"])


def test_scan_is_read_by_ocr_where_that_is_switched_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "bin" / "tesseract"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\ncat > /dev/null\necho Read from a picture\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{program.parent}:/usr/bin:/bin")
    heading, [section] = converted(tmp_path, pdf_of([[]]), "scan.pdf", ConvertLimits(ocr=True))
    assert "Read from a picture" in section.text
    assert "OCR" in heading.notes[0]


def test_converted_text_is_storable_in_postgresql(tmp_path: Path) -> None:
    _, [section] = converted(tmp_path, b"\xef\xbb\xbfone\x01two \xed\xa0\x80 three", "a.txt")
    assert "\x00" not in json.dumps(section.text)
    section.text.encode()
