"""Parts of a PDF besides its lines: hyphenated words, scanned pages among others, pictures, fields, attachments."""

import stat
from collections.abc import Sequence
from pathlib import Path

import pytest

from convmemory.documents.converters import pdf
from convmemory.documents.converters.base import ConvertLimits
from convmemory.documents.converters.pdf import lines_of_text
from tests.support.documents import converted, text_of
from tests.support.slow_files import pdf_file

PICTURE = "q %d 0 0 %d 50 50 cm BI /W 2 /H 2 /CS /G /BPC 8 ID aaaa EI Q"
LINES = "BT /F 12 Tf 72 720 Td 16 TL %s ET"


def pdf_with(pages: Sequence[tuple[str, str]], *objects: bytes, catalogue: str = "") -> bytes:
    """A PDF of pages, each its content and more entries of its dictionary; `objects` follow as numbers from 4 on."""
    all_objects = [b"", b"", b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>", *objects]
    kids = []
    for content, entries in pages:
        all_objects.append(b"<</Length %d>>stream\n%s\nendstream" % (len(content), content.encode("latin-1")))
        page = "<</Type/Page/Parent 2 0 R/MediaBox[0 0 612 792]/Resources<</Font<</F 3 0 R>>>>/Contents %d 0 R%s>>"
        all_objects.append((page % (len(all_objects), entries)).encode())
        kids.append(f"{len(all_objects)} 0 R")
    all_objects[0] = f"<</Type/Catalog/Pages 2 0 R{catalogue}>>".encode()
    all_objects[1] = f"<</Type/Pages/Kids[{' '.join(kids)}]/Count {len(kids)}>>".encode()
    return pdf_file(all_objects)


def lines(*texts: str) -> str:
    return LINES % " T* ".join(f"({text}) Tj" for text in texts)


def test_words_hyphenated_at_line_ends_are_joined(tmp_path: Path) -> None:
    page = lines("The new configu-", "ration of the thermo-", "stat is IEC-", "61508, by Rhys-", "Jones and others.")
    _, sections = converted(tmp_path, pdf_with([(page, "")]), "manual.pdf")
    assert text_of(sections).split("\n")[0] == (
        "The new configuration of the thermostat is IEC-61508, by Rhys-Jones and others."
    )


@pytest.mark.parametrize(
    ("text", "joined"),
    [
        ("configu\ufffe\r\nration", "configuration"),
        ("configu\xad\r\nration", "configuration"),
        ("co\xadope\xadration", "cooperation"),
        ("IEC\ufffe61508", "IEC-61508"),
        ("page 3\ufffefour", "page 3-four"),
        ("the end\ufffe", "the end-"),
        ("the end\xad", "the end"),
        ("\ufffe", "-"),
        ("  a\x02\nb", "  ab"),
    ],
)
def test_hyphens_of_line_ends(text: str, joined: str) -> None:
    assert [line for _, line in lines_of_text(text)] == [joined]


def test_scanned_pages_among_others_are_noted_and_counted(tmp_path: Path) -> None:
    scan = PICTURE % (500, 700)
    pages = [lines("Cover letter"), scan, f"{scan} {lines('Page 3')}", lines("Four"), scan, ""]
    heading, sections = converted(tmp_path, pdf_with([(page, "") for page in pages]), "scan.pdf")
    assert heading.failure == ""
    [note] = heading.notes
    assert note.startswith("3 of 6 pages were not read (pages 2, 3, 5): pictures without text. Run OCR")
    assert heading.coverage == [{"part": "page", "read": 3, "total": 6}]
    assert "Page 3" in text_of(sections)


def test_scanned_pages_among_others_are_read_by_ocr(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "bin" / "tesseract"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\ncat > /dev/null\necho Read from a picture\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{program.parent}:/usr/bin:/bin")
    data = pdf_with([(lines("Cover letter"), ""), (PICTURE % (500, 700), "")])
    heading, sections = converted(tmp_path, data, "scan.pdf", ConvertLimits(ocr=True))
    assert [(section.page, section.text.strip()) for section in sections] == [
        (1, "Cover letter"),
        (2, "Read from a picture"),
    ]
    assert heading.notes == ["The text of pages that are pictures was read by OCR and can hold errors."]
    assert heading.coverage == [{"part": "page", "read": 2, "total": 2}]


def test_pictures_fields_comments_and_attachments_are_read_or_noted(tmp_path: Path) -> None:
    objects = (
        b"<</Type/Annot/Subtype/Widget/FT/Tx/T(surname)/V(Quillfeather)/Rect[0 0 9 9]>>",
        b"<</Type/Annot/Subtype/Text/Contents(Check the mosswort)/Rect[0 0 9 9]>>",
        b"<</Type/EmbeddedFile/Length 2>>stream\nhi\nendstream",
        b"<</Type/Filespec/F(prices.csv)/UF(prices.csv)/EF<</F 6 0 R>>>>",
    )
    data = pdf_with(
        [(f"{lines('A form of two fields')} {PICTURE % (40, 40)}", "/Annots[4 0 R 5 0 R]")],
        *objects,
        catalogue="/Names<</EmbeddedFiles<</Names[(prices.csv) 7 0 R]>>>>",
    )
    heading, sections = converted(tmp_path, data, "form.pdf")
    assert "surname: Quillfeather" in text_of(sections)
    assert "Check the mosswort" in text_of(sections)
    assert heading.notes == [
        "1 picture was not read (page 1).",
        "1 attachment was not read (prices.csv). Upload them by themselves.",
    ]


def test_objects_are_counted_up_to_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pdf, "MAX_OBJECTS", 5)
    page = f"{lines('words')} {' '.join([PICTURE % (9, 9)] * 9)}"
    heading, _ = converted(tmp_path, pdf_with([(page, "")] * 3), "many.pdf")
    assert heading.notes == [
        "Objects after page 1 were not examined for pictures and comments: the file has more than 5.",
        "4 pictures were not read (page 1).",
    ]
