"""Small files that name a part many times, nest deeply or hold huge counts: read once, or refused with a reason."""

import io
import re
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from convmemory.documents import converting
from convmemory.documents.converters import base, mail, pdf, web, workbook
from convmemory.documents.converters.base import ConvertLimits
from tests.support.documents import converted, docx_of, epub_of, packed, pdf_of, pptx_of, xlsx_of
from tests.support.other_documents import msg_of, odf_of
from tests.unit.documents.test_office_parts import W, relations, word_of

STYLES = (
    b'<Override PartName="/word/styles.xml" '
    b'ContentType="application/vnd.openxmlformats-officedocument.wordprocessingml.styles+xml"/>'
)
PROPERTIES = (
    b'<Override PartName="/docProps/core.xml" '
    b'ContentType="application/vnd.openxmlformats-package.core-properties+xml"/>'
)
MAIL = "From: a@b\nSubject: s\nMIME-Version: 1.0\n"
MAIL_WITH_FILE = (
    f"{MAIL}Content-Type: multipart/mixed; boundary=b\n\n--b\n\nhi\n--b\n"
    "Content-Disposition: attachment; filename=%s\n\nx\n--b--\n"
)


def changed(data: bytes, part: str, change: Callable[[bytes], bytes]) -> bytes:
    """The archive with one part of it changed."""
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as source, zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as target:
        for entry in source.infolist():
            content = source.read(entry)
            target.writestr(entry.filename, change(content) if entry.filename == part else content)
    return out.getvalue()


def nested_multiparts(depth: int) -> str:
    parts = (f'Content-Type: multipart/mixed; boundary="b{n}"\n\n--b{n}\n' for n in range(depth))
    return f"{MAIL}{''.join(parts)}Content-Type: text/plain\n\nhi\n"


@pytest.mark.parametrize(
    "text",
    [
        MAIL + "Content-Type: message/rfc822\n\n" * 2_000 + "Content-Type: text/plain\n\nhi\n",
        nested_multiparts(5_000),
        nested_multiparts(1_000),
        MAIL + "Content-Type: multipart/mixed; boundary=b\n\n" + "--b\n\nx\n" * 20_000,
    ],
)
def test_mail_with_many_or_nested_parts_is_refused(tmp_path: Path, text: str) -> None:
    heading, _ = converted(tmp_path, text, "a.eml")
    assert heading.failure == "too_large"
    assert f"more than {mail.MAX_PARTS} parts" in heading.error


@pytest.mark.parametrize(
    "text",
    [
        f"From: {'(' * 20_000}\nSubject: s\n\nhi\n",
        MAIL_WITH_FILE % ("(" * 5_000),
    ],
)
def test_mail_with_nested_header_is_refused(tmp_path: Path, text: str) -> None:
    heading, _ = converted(tmp_path, text, "a.eml")
    assert (heading.failure, heading.error) == ("too_large", converting.NESTED)


def test_long_headers_are_cut_before_they_are_parsed(tmp_path: Path) -> None:
    heading, sections = converted(
        tmp_path, f"From: {'a@b, ' * 50_000}\nSubject: {'=?utf-8?q?a?= ' * 20_000}\n\nhi\n", "a.eml"
    )
    assert heading.failure == ""
    assert len("".join(section.text for section in sections)) < 3 * mail.MAX_HEADER_CHARS


def test_chapter_that_spine_names_often_is_read_once(tmp_path: Path) -> None:
    book = epub_of(a=f"<p>{'words of a chapter ' * 500}</p>", b="<p>the end</p>")
    often = changed(
        book, "OEBPS/book.opf", lambda xml: xml.replace(b'<itemref idref="a"/>', b'<itemref idref="a"/>' * 20_000)
    )
    assert len(often) < 5_000
    heading, sections = converted(tmp_path, often, "a.epub")
    assert (heading.failure, heading.chars) == ("", converted(tmp_path, book, "a.epub")[0].chars)
    assert sections[-1].text.endswith("the end\n\n")


def test_element_with_many_attributes_is_refused(tmp_path: Path) -> None:
    for attributes in (
        " ".join(f"a{n}=1" for n in range(web.MAX_ATTRIBUTES + 1)),
        "/".join(f"a{n}" for n in range(web.MAX_ATTRIBUTES + 1)),
        "".join(f"""a{n}="x > y" b{n}='"'""" for n in range(web.MAX_ATTRIBUTES)),
    ):
        heading, _ = converted(tmp_path, f"<html><body><p {attributes}>hi", "a.html")
        assert (heading.failure, "more than 1,000 attributes" in heading.error) == ("too_large", True)
    page = "<html><body>" + '<p class="a b c" title=\'x > y\' data-x="{}" hidden>no</p><p id=x>yes' * 2_000
    assert converted(tmp_path, page, "a.html")[0].failure == ""


def test_long_attribute_values_are_no_attributes(tmp_path: Path) -> None:
    page = f'<html><body><p style="{"m 0 1 l=2 " * 5_000}">hi there'
    assert converted(tmp_path, page, "a.html")[0].failure == ""


@pytest.mark.parametrize("declaration", [STYLES, PROPERTIES])
def test_word_file_with_undeclared_part_is_read(tmp_path: Path, declaration: bytes) -> None:
    file = docx_of(("Heading 1", "Plan"), ("Normal", "Read me"))
    undeclared = changed(file, "[Content_Types].xml", lambda xml: xml.replace(declaration, b""))
    assert undeclared != file
    heading, sections = converted(tmp_path, undeclared, "a.docx")
    assert heading.failure == ""
    assert "".join(section.text for section in sections) == "Plan\n\nRead me\n\n"


def test_slide_that_is_named_often_is_read_once(tmp_path: Path) -> None:
    def repeat(xml: bytes) -> bytes:
        slide = re.search(rb"<p:sldId [^>]*/>", xml)
        assert slide
        return xml.replace(slide[0], slide[0] * 9_000)

    show = changed(pptx_of(("Title", "hello")), "ppt/presentation.xml", repeat)
    heading, sections = converted(tmp_path, show, "a.pptx")
    assert (heading.pages, len(sections)) == (1, 1)


def test_sheets_that_are_one_part_are_refused(tmp_path: Path) -> None:
    again = b'<sheet name="Again" sheetId="9" r:id="rId1"/></sheets>'
    book = changed(xlsx_of(A=[["x"]]), "xl/workbook.xml", lambda xml: xml.replace(b"</sheets>", again))
    heading, _ = converted(tmp_path, book, "a.xlsx")
    assert (heading.failure, "one and the same" in heading.error) == ("broken", True)


def test_workbook_with_too_many_sheets_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workbook, "MAX_SHEETS", 2)
    heading, _ = converted(tmp_path, xlsx_of(A=[["x"]], B=[["x"]], C=[["x"]]), "a.xlsx")
    assert (heading.failure, "3 sheets; at most 2" in heading.error) == ("too_large", True)


def test_workbook_that_declares_too_little_is_refused(tmp_path: Path) -> None:
    """The reader of workbooks unpacks entries to their end, whatever size the archive declares."""
    more = b"<si><t>" + b"x" * 5_000_000 + b"</t></si></sst>"
    book = bytearray(changed(xlsx_of(A=[["x"]]), "xl/sharedStrings.xml", lambda xml: xml.replace(b"</sst>", more)))
    name = b"xl/sharedStrings.xml"
    for at in (book.find(name) - 30 + 22, book.rfind(name) - 46 + 24):
        book[at : at + 4] = (1_000).to_bytes(4, "little")
    heading, _ = converted(tmp_path, bytes(book), "a.xlsx")
    assert (heading.failure, "cannot be unpacked" in heading.error) == ("broken", True)


def test_page_that_is_named_often_is_bounded_by_its_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pdf, "MAX_PDF_LINES", 500)
    page = pdf_of([[(12, "word")] * 40])
    often = page.replace(b"/Kids[5 0 R]", b"/Kids[" + b"5 0 R " * 100 + b"]").replace(b"/Count 1", b"/Count 100")
    heading, _ = converted(tmp_path, often, "a.pdf")
    assert (heading.failure, "more than 500 lines" in heading.error) == ("too_large", True)
    heading, _ = converted(tmp_path, often, "a.pdf", ConvertLimits(max_chars=100))
    assert heading.failure == "too_large"


def test_declared_pages_are_refused_before_they_are_read(tmp_path: Path) -> None:
    heading, _ = converted(tmp_path, pdf_of([[(12, "hi")]]).replace(b"/Count 1", b"/Count 1000000"), "a.pdf")
    assert (heading.failure, "1,000,000 pages" in heading.error) == ("too_large", True)


@pytest.mark.parametrize(("text", "name"), [("# a\n" * 50, "a.md"), ("def a():\n" * 50, "a.py")])
def test_document_with_too_many_blocks_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, name: str
) -> None:
    monkeypatch.setattr(base, "MAX_BLOCKS", 20)
    heading, _ = converted(tmp_path, text, name)
    assert (heading.failure, "more than 20 headings" in heading.error) == ("too_large", True)


def test_error_of_library_is_refusal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(text: str) -> None:
        raise ZeroDivisionError("a secret of the document")

    monkeypatch.setattr(web, "tree_of", fail)
    heading, sections = converted(tmp_path, "<html><body>hi", "a.html")
    assert (heading.failure, sections) == ("broken", [])
    assert heading.error == f"{base.DAMAGED} (ZeroDivisionError)"


def test_memory_error_ends_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The limits of the process say what to do."""

    def fail(text: str) -> None:
        raise MemoryError

    monkeypatch.setattr(web, "tree_of", fail)
    with pytest.raises(MemoryError):
        converted(tmp_path, "<html><body>hi", "a.html")


def test_documents_share_ratio_of_imports(tmp_path: Path) -> None:
    dense = packed(word__document_dot_xml=b"x" * 9 * 1024**2)
    heading, _ = converted(tmp_path, dense, "a.docx")
    assert (heading.failure, "unpacks to 9 MB" in heading.error) == ("too_large", True)


def test_rtf_that_is_nested_deeply_is_refused(tmp_path: Path) -> None:
    heading, _ = converted(tmp_path, r"{\rtf1 " + "{" * 100_000 + "hi", "a.rtf")
    assert (heading.failure, "nested too deeply" in heading.error) == ("too_large", True)


@pytest.mark.parametrize(
    "text", [r"{\rtf1 hi\bin-5 x\u-99999 \uc-3\f99 \u\'zz \'4}", r"{\rtf1 hi}}}}} there", r"{\rtf1\ansicpg9 hi"]
)
def test_damaged_rtf_is_read_as_far_as_it_goes(tmp_path: Path, text: str) -> None:
    heading, sections = converted(tmp_path, text, "a.rtf")
    assert heading.failure == ""
    assert "hi" in sections[0].text


def test_spreadsheet_with_repeated_cells_is_bounded(tmp_path: Path) -> None:
    for repeated in ("table:number-rows-repeated='1000000'", ""):
        cell = "<table:table-cell table:number-columns-repeated='999999999'><text:p>a</text:p></table:table-cell>"
        cells = cell if not repeated else "<table:table-cell><text:p>a</text:p></table:table-cell>" * 3
        row = f"<table:table-row {repeated}>{cells}</table:table-row>"
        heading, _ = converted(
            tmp_path, odf_of("spreadsheet", f"<table:table table:name='A'>{row}</table:table>"), "a.ods"
        )
        assert (heading.failure, "more than 2,000,000 cells" in heading.error) == ("too_large", True)


def test_empty_repeated_cells_cost_nothing(tmp_path: Path) -> None:
    empty = "<table:table-cell table:number-columns-repeated='999999999'/>"
    cells = f"{empty}<table:table-cell><text:p>a</text:p></table:table-cell>"
    row = "<table:table-row table:number-rows-repeated='999999999'><table:table-cell/></table:table-row>"
    body = f"<table:table table:name='A'><table:table-row>{cells}</table:table-row>{row}</table:table>"
    heading, sections = converted(tmp_path, odf_of("spreadsheet", body), "a.ods")
    assert (heading.failure, sections[0].text.count("|") < 500) == ("", True)


def test_compound_file_whose_chains_are_circles_is_bounded(tmp_path: Path) -> None:
    streams = {"__properties_version1.0": b"\0" * 32, "__substg1.0_1000001F": "words"}
    data = bytearray(msg_of(streams))
    for number in range(1, 6):
        looped = data.copy()
        looped[512 + 4 * number : 516 + 4 * number] = number.to_bytes(4, "little")
        heading, _ = converted(tmp_path, bytes(looped), "a.msg")
        assert heading.failure in ("", "broken", "no_text", "unknown"), heading.error


def test_comments_that_refer_to_each_other_are_read_once(tmp_path: Path) -> None:
    comments = "".join(
        f"<w:comment w:id='{n}'><w:p><w:r><w:t>note{n}.</w:t></w:r><w:commentReference w:id='{(n + 1) % 50}'/></w:p>"
        "</w:comment>"
        for n in range(50)
    )
    body = "<w:p><w:r><w:t>words</w:t></w:r><w:commentReference w:id='0'/></w:p>"
    data = word_of(body, relations(comments="comments.xml"), comments=f"<w:comments {W}>{comments}</w:comments>")
    heading, sections = converted(tmp_path, data, "a.docx")
    assert heading.failure == ""
    assert all("".join(section.text for section in sections).count(f"note{n}.") == 1 for n in range(50))


@pytest.mark.parametrize("notebook", ["[" * 100_000, '{"cells": 3}', '{"cells": [3, null]}', '{"worksheets": [3]}'])
def test_damaged_notebook_is_refused(tmp_path: Path, notebook: str) -> None:
    heading, _ = converted(tmp_path, notebook if notebook[0] == "{" else f'{{"cells": {notebook}', "a.ipynb")
    assert heading.failure in ("broken", "no_text", "too_large")


def test_huge_footnote_is_bounded_by_characters(tmp_path: Path) -> None:
    note = f"<w:footnote w:id='2'><w:p><w:r><w:t>{'word ' * 50_000}</w:t></w:r></w:p></w:footnote>"
    data = word_of(
        "<w:p><w:footnoteReference w:id='2'/></w:p>",
        relations(footnotes="footnotes.xml"),
        footnotes=f"<w:footnotes {W}>{note}</w:footnotes>",
    )
    heading, _ = converted(tmp_path, data, "a.docx", ConvertLimits(max_chars=10_000))
    assert heading.failure == "too_large"
