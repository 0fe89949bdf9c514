"""Reads parts of Office files other than paragraphs: changes, notes, boxes, charts, hidden sheets, number formats."""

import io
from datetime import date, datetime, time, timedelta
from pathlib import Path

import pytest

from convmemory.documents.converters.number_formats import Value, shown
from tests.support.documents import converted, packed, pptx_of, text_of

W = 'xmlns:w="urn:w" xmlns:mc="urn:mc" xmlns:r="urn:r" xmlns:a="urn:a" xmlns:c="urn:c" xmlns:wp="urn:wp"'
TYPE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships/"


def relations(**targets: str) -> str:
    """Relations by id; an id is the last word of the type, with a number where there are several."""
    rows = (
        f'<Relationship Id="{name}" Type="{TYPE}{name.rstrip("0123456789")}" Target="{target}"/>'
        for name, target in targets.items()
    )
    return f'<Relationships xmlns="urn:rels">{"".join(rows)}</Relationships>'


def word_of(body: str, related: str = "", **parts: str) -> bytes:
    """A Word file of this XML, with further parts in its folder."""
    return packed(
        _rels___dot_rels=relations(officeDocument="word/document.xml"),
        word__document_dot_xml=f"<w:document {W}><w:body>{body}</w:body></w:document>",
        word___rels__document_dot_xml_dot_rels=related or relations(),
        **{f"word__{name}_dot_xml": content for name, content in parts.items()},
    )


def run(text: str) -> str:
    return f"<w:r><w:t>{text}</w:t></w:r>"


def paragraph(*texts: str) -> str:
    return f"<w:p>{''.join(texts)}</w:p>"


def test_tracked_changes_are_read_as_accepted(tmp_path: Path) -> None:
    row = f"<w:tr><w:trPr><w:del/></w:trPr><w:tc>{paragraph(run('gonerow'))}</w:tc></w:tr>"
    body = (
        paragraph(f"<w:ins>{run('Sea')}</w:ins>", "<w:del><w:r><w:delText>gone</w:delText></w:r></w:del>", run("buck"))
        + paragraph("<w:r><w:t>thorn</w:t><w:softHyphen/><w:t>y</w:t><w:noBreakHyphen/><w:t>plan</w:t></w:r>")
        + f"<w:moveFrom>{paragraph(run('moved'))}</w:moveFrom><w:moveTo>{paragraph(run('here'))}</w:moveTo>"
        + f"<w:sdt><w:sdtPr/><w:sdtContent>{paragraph(run('control'))}</w:sdtContent></w:sdt>"
        + f"<w:tbl>{row}<w:tr><w:tc>{paragraph(run('one'))}{paragraph(run('two'))}</w:tc></w:tr></w:tbl>"
    )
    _, sections = converted(tmp_path, word_of(body), "a.docx")
    assert text_of(sections) == "Seabuck\n\nthorny-plan\n\nhere\n\ncontrol\n\none two\n\n"


def test_notes_and_comments_follow_their_paragraph_once(tmp_path: Path) -> None:
    body = (
        paragraph(run("first"), '<w:footnoteReference w:id="2"/>', '<w:commentReference w:id="0"/>')
        + paragraph(run("second"), '<w:footnoteReference w:id="2"/>')
        + paragraph(run("third"))
    )
    notes = (
        f"<w:footnotes {W}><w:footnote w:id='0' w:type='separator'>{paragraph(run('no'))}</w:footnote>"
        f"<w:footnote w:id='2'>{paragraph(run('the note'))}</w:footnote>"
        f"<w:footnote w:id='3'>{paragraph(run('unreferenced'))}</w:footnote></w:footnotes>"
    )
    comments = f"<w:comments {W}><w:comment w:id='0' w:author='Ada'>{paragraph(run('why'))}</w:comment></w:comments>"
    endnotes = f"<w:endnotes {W}><w:endnote w:id='1'>{paragraph(run('at the end'))}</w:endnote></w:endnotes>"
    related = relations(footnotes="footnotes.xml", comments="comments.xml", endnotes="endnotes.xml")
    data = word_of(body, related, footnotes=notes, comments=comments, endnotes=endnotes)
    heading, sections = converted(tmp_path, data, "a.docx")
    assert text_of(sections).split("\n\n")[:-1] == [
        "first", "the note", "Ada: why", "second", "third", "unreferenced", "at the end"
    ]  # fmt: skip
    assert {row["part"]: row["read"] for row in heading.coverage} == {"footnote": 2, "comment": 1, "endnote": 1}


def test_text_boxes_headers_charts_and_alternatives_are_read_once(tmp_path: Path) -> None:
    box = f"<w:txbxContent>{paragraph(run('boxed'))}</w:txbxContent>"
    body = paragraph(
        run("around"),
        f"<mc:AlternateContent><mc:Choice>{box}</mc:Choice><mc:Fallback>{box}</mc:Fallback></mc:AlternateContent>",
        '<w:drawing><wp:docPr descr="A map of fens"/><c:chart r:id="chart"/></w:drawing>',
        "<w:drawing><a:pic/></w:drawing>",
    )
    header = f"<w:hdr {W}>{paragraph(run('letterhead'))}</w:hdr>"
    related = relations(
        header1="header1.xml", header2="header2.xml", chart="chart.xml", package="book.xlsx", vbaProject="vba.bin"
    )
    chart = "<c:chart xmlns:c='urn:c'><c:v>Yield</c:v><c:v>12</c:v></c:chart>"
    data = word_of(body, related, header1=header, header2=header, chart=chart)
    heading, sections = converted(tmp_path, data, "a.docx")
    assert text_of(sections) == "around A map of fens \n\nboxed\n\nYield | 12\n\nletterhead\n\n"
    assert heading.notes == [
        "1 picture was not read.",
        "1 embedded file was not read (book.xlsx). Upload them by themselves.",
        "1 macro was not read (vba.bin).",
    ]


def test_word_heading_levels_come_from_outline_of_styles_in_any_language(tmp_path: Path) -> None:
    style = "<w:style w:styleId='Rubrik1'><w:name w:val='Rubrik'/><w:pPr><w:outlineLvl w:val='0'/></w:pPr></w:style>"
    body = f"<w:p><w:pPr><w:pStyle w:val='Rubrik1'/></w:pPr>{run('Plan')}</w:p>{paragraph(run('text'))}"
    data = word_of(body, relations(styles="styles.xml"), styles=f"<w:styles {W}>{style}</w:styles>")
    _, [section] = converted(tmp_path, data, "a.docx")
    assert section.path == ("Plan",)


def test_slides_have_notes_comments_and_tables(tmp_path: Path) -> None:
    from pptx import Presentation

    show = Presentation(io.BytesIO(pptx_of(("Soil", "Loam is best."))))
    slide = show.slides[0]
    slide.notes_slide.notes_text_frame.text = "Say it twice"
    slide.shapes.add_table(1, 2, 0, 0, 9, 9).table.cell(0, 1).text = "celled"
    slide.shapes.add_group_shape().shapes.add_textbox(0, 0, 9, 9).text_frame.text = "grouped"
    slide._element.set("show", "0")
    out = io.BytesIO()
    show.save(out)
    heading, sections = converted(tmp_path, out.getvalue(), "a.pptx")
    assert text_of(sections) == "Soil\n\nLoam is best.\n\n | celled\n\ngrouped\n\nSay it twice\n\n"
    assert {row["part"]: row["read"] for row in heading.coverage} == {"slide": 1, "hidden slide": 1, "note": 1}


def test_workbook_shows_numbers_as_formatted_and_names_what_is_hidden(tmp_path: Path) -> None:
    from xlsxwriter import Workbook

    out = io.BytesIO()
    with Workbook(out) as book:
        sheet, other = book.add_worksheet("Rates"), book.add_worksheet("Secret")
        for column, (value, code) in enumerate([
            (7, "000"), (0.075, "0.00 %"), (46145, "dd.mm.yyyy"), (1234.5, '#,##0.00 "EUR"')
        ]):  # fmt: skip
            sheet.write_number(4, 2 + column, value, book.add_format({"num_format": code}))
        sheet.write_comment("C5", "Check this", {"author": "Ada"})
        sheet.write_formula("A9", "=1+1", None, "")
        sheet.insert_textbox("J1", "boxed words")
        sheet.set_header("&CHeaded")
        other.write(0, 0, "hidden words")
        other.hide()
    heading, sections = converted(tmp_path, out.getvalue(), "a.xlsx")
    text = text_of(sections)
    assert "007 | 7.50 % | 03.05.2026 | 1,234.50 EUR" in text
    for words in ("C5: ", "Check this", "boxed words", "Headed", "hidden words"):
        assert words in text
    assert "1 of the sheets that were read is hidden in the workbook: Secret." in heading.notes
    assert any(note.startswith("1 formula without a stored value was not read") for note in heading.notes)


@pytest.mark.parametrize(
    ("value", "code", "text"),
    [
        (7.0, "000", "007"),
        (0.075, "0.00 %", "7.50 %"),
        (0.99999, "0.0%", "100.0%"),
        (1234567.0, "#,##0", "1,234,567"),
        (0.0, '#,##0;-#,##0;"zero"', "zero"),
        (-5.0, "0;(0)", "(5)"),
        (-5.0, "0.0", "-5.0"),
        (1234.5, "[$€-407] #,##0.00", "€ 1,234.50"),
        (12345.678, '_-* #,##0.00 "€"_-;-* #,##0.00 "€"_-', "12,345.68 €"),
        (5551234.0, "[<=9999999]###-####;(###) ###-####", "555-1234"),
        (2125551234.0, "[<=9999999]###-####;(###) ###-####", "(212) 555-1234"),
        (123456789.0, "000-00-0000", "123-45-6789"),
        (1234567.0, '0.0,,"M"', "1.2M"),
        (123456.0, "0.00E+00", "1.23E+05"),
        (3.0, "0.##", "3"),
        (3.1, "0.00#", "3.10"),
        (1.005, "0.00", "1.01"),
        (0.5, "# ?/?", None),
        (12.0, "General", None),
        (1e300, "0.00", None),
        (float("nan"), "0", None),
        (12.0, "0" * 300, None),
        (12.0, ";;;", None),
        (date(2026, 5, 3), "dd.mm.yyyy", "03.05.2026"),
        (date(2026, 5, 3), "[$-409]dddd, mmmm d, yyyy", "Sunday, May 3, 2026"),
        (datetime.fromisoformat("2026-05-03T14:05:09"), "yyyy-mm-dd hh:mm:ss", "2026-05-03 14:05:09"),
        (time(14, 5), "h:mm AM/PM", "2:05 PM"),
        (time(0, 5, 9, 500_000), "mm:ss.0", "05:09.5"),
        (timedelta(hours=30, minutes=5), "[h]:mm", "30:05"),
        (date(2026, 5, 3), "0.00", None),
    ],
)
def test_number_formats(value: Value, code: str, text: str | None) -> None:
    assert shown(value, code) == text


def test_word_file_with_numbered_main_part_is_recognised(tmp_path: Path) -> None:
    data = packed(
        _rels___dot_rels=relations(officeDocument="/word/document2.xml"),
        word__document2_dot_xml=f"<w:document {W}><w:body>{paragraph(run('words'))}</w:body></w:document>",
    )
    assert converted(tmp_path, data, "a.docx")[0].format == "docx"


def test_damaged_part_is_noted_and_the_others_are_read(tmp_path: Path) -> None:
    body = paragraph(run("words"), '<w:footnoteReference w:id="2"/>')
    data = word_of(body, relations(footnotes="footnotes.xml", header="gone.xml"), footnotes="<w:footnotes")
    heading, sections = converted(tmp_path, data, "a.docx")
    assert text_of(sections) == "words\n\n"
    assert heading.notes == ["2 damaged parts were not read (footnotes.xml, gone.xml)."]
