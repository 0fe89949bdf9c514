"""Each converter reads what is planted in every kind of part of a file, or a note names the part."""

import io
import json
from pathlib import Path

import pytest

from convmemory.documents.converters.detect import CONVERTERS
from tests.support.documents import converted, epub_of, packed, text_of, xlsx_of
from tests.support.other_documents import msg_of, notebook_of, odf_of
from tests.unit.documents.test_mail_parts import mail_of
from tests.unit.documents.test_office_parts import W, paragraph, relations, run, word_of
from tests.unit.documents.test_pdf_parts import PICTURE, lines, pdf_with

WORD = "quillfeather"
"""Stands in every part that is read."""


def word(body: str, kind: str = "", part: str = "", root: str = "") -> bytes:
    """A Word file of a body, with one more part of this kind."""
    parts = {kind: f"<w:{root} {W}>{part}</w:{root}>"} if part else {}
    return word_of(paragraph(run("words")) + body, relations(**({kind: f"{kind}.xml"} if kind else {})), **parts)


def slides(shapes: str, kind: str = "", part: str = "", **more: str) -> bytes:
    """A presentation of one slide."""
    names = 'xmlns:p="urn:p" xmlns:a="urn:a" xmlns:r="urn:r" xmlns:c="urn:c"'
    text = "<p:sp><p:txBody><a:p><a:r><a:t>words</a:t></a:r></a:p></p:txBody></p:sp>"
    parts = {f"ppt__slides__{kind}_dot_xml": f"<p:part {names}>{part}</p:part>"} if part else {}
    return packed(
        _rels___dot_rels=relations(officeDocument="ppt/presentation.xml"),
        ppt__presentation_dot_xml=f"<p:show {names}><p:sldIdLst><p:sldId r:id='slide'/></p:sldIdLst></p:show>",
        ppt___rels__presentation_dot_xml_dot_rels=relations(slide="slides/one.xml"),
        ppt__slides__one_dot_xml=f"<p:sld {names}><p:spTree>{text}{shapes}</p:spTree></p:sld>",
        ppt__slides___rels__one_dot_xml_dot_rels=relations(**({kind: f"{kind}.xml"} if kind else {}), **more),
        **parts,
    )


def shape(text: str, kind: str = "") -> str:
    placeholder = f"<p:nvSpPr><p:nvPr><p:ph type='{kind}'/></p:nvPr></p:nvSpPr>" if kind else ""
    return f"<p:sp>{placeholder}<p:txBody><a:p><a:r><a:t>{text}</a:t></a:r></a:p></p:txBody></p:sp>"


def workbook(part: str) -> bytes:
    from xlsxwriter import Workbook

    out = io.BytesIO()
    with Workbook(out) as book:
        sheet, other = book.add_worksheet("One"), book.add_worksheet(WORD if part == "name" else "Two")
        sheet.write(0, 0, "words")
        if part == "comment":
            sheet.write_comment("A1", WORD)
        elif part == "text box":
            sheet.insert_textbox("C3", WORD)
        elif part == "chart":
            chart = book.add_chart({"type": "pie"})
            chart.set_title({"name": WORD})
            chart.add_series({"values": "=One!$A$1:$A$2"})
            sheet.insert_chart("C3", chart)
        elif part == "header":
            sheet.set_header(f"&C&B{WORD}")
        elif part == "hidden sheet":
            other.write(0, 0, WORD)
            other.very_hidden()
        elif part == "long cell":
            sheet.write(1, 0, "x" * 30_000 + WORD)
        elif part == "wide row":
            sheet.write(1, 900, WORD)
        elif part == "formula":
            sheet.write_formula("A2", "=1+1", None, "")
        elif part == "picture":
            sheet.insert_image("C3", "a.png", {"image_data": io.BytesIO(PNG)})
    return out.getvalue()


PNG = (
    b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x01\0\0\0\x01\x08\0\0\0\0:~\x9bU\0\0\0\nIDATx\x9cc\xf8\x0f\0\x01\x01\x01\0\x1b"
    b"\xb6\xeeV\0\0\0\0IEND\xaeB`\x82"
)


def mail(**changes: str) -> bytes:
    message = mail_of(changes.get("subject", "words"), changes.get("text", "words"))
    if "cc" in changes:
        message["Cc"] = f"{WORD}@example.org"
    if "html" in changes:
        message.add_alternative(f"<p>{'many words ' * 9}{WORD}", subtype="html")
    if "enclosed" in changes:
        message.add_attachment(mail_of("Inner", WORD))
    if "attachment" in changes:
        message.add_attachment(b"x", maintype="a", subtype="b", filename="a.bin")
    return bytes(message)


def odt(body: str, **more: str) -> bytes:
    return odf_of("text", f"<text:p>words</text:p>{body}", **more)


def odp(slide: str) -> bytes:
    return odf_of("presentation", f"<draw:page>{slide}</draw:page>")


def ods(cell: str, name: str = "A", **more: str) -> bytes:
    row = f"<table:table-row><table:table-cell>{cell}</table:table-cell></table:table-row>"
    return odf_of("spreadsheet", f"<table:table table:style-name='h' table:name='{name}'>{row}</table:table>", **more)


def code(**output: object) -> bytes:
    return notebook_of({"cell_type": "code", "source": "words", "outputs": [output]})


def page_of(body: str) -> str:
    return f"<html><body><p>words</p>{body}</body></html>"


SUBJECT, BODY = "__substg1.0_0037001F", "__substg1.0_1000001F"
MESSAGE: dict[str, object] = {
    "__properties_version1.0": b"\0" * 32, SUBJECT: "words", BODY: "words",
}  # fmt: skip
HIDDEN = "<style:style style:name='h'><style:table-properties table:display='false'/></style:style>"
P = f"<text:p>{WORD}</text:p>"
CELL = f"<table:table-cell>{P}</table:table-cell>"
MASTER = (
    f"<office:master-styles><style:master-page><style:header>{P}</style:header></style:master-page>"
    "</office:master-styles>"
)
CASES: dict[str, dict[str, tuple[str, bytes | str]]] = {
    "pdf": {
        "text": ("a.pdf", pdf_with([(lines(WORD), "")])),
        "form field": (
            "a.pdf", pdf_with([(lines("words"), "/Annots[4 0 R]")], f"<</Subtype/Widget/FT/Tx/V({WORD})>>".encode())
        ),
        "comment": (
            "a.pdf", pdf_with([(lines("words"), "/Annots[4 0 R]")], f"<</Subtype/Text/Contents({WORD})>>".encode())
        ),
        "1 picture was not read (page 1)": ("a.pdf", pdf_with([(lines("words") + PICTURE % (50, 50), "")])),
        "1 of 2 pages was not read (page 2)": ("a.pdf", pdf_with([(lines("words"), ""), (PICTURE % (600, 700), "")])),
    },
    "docx": {
        "insertion": ("a.docx", word(paragraph(f"<w:ins>{run(WORD)}</w:ins>"))),
        "content control": ("a.docx", word(f"<w:sdt><w:sdtContent>{paragraph(run(WORD))}</w:sdtContent></w:sdt>")),
        "table": ("a.docx", word(f"<w:tbl><w:tr><w:tc>{paragraph(run(WORD))}</w:tc></w:tr></w:tbl>")),
        "field": ("a.docx", word(paragraph(f"<w:fldSimple>{run(WORD)}</w:fldSimple>"))),
        "link": ("a.docx", word(paragraph(f"<w:hyperlink>{run(WORD)}</w:hyperlink>"))),
        "formula": ("a.docx", word(paragraph(f"<m:oMath xmlns:m='urn:m'><m:t>{WORD}</m:t></m:oMath>"))),
        "text box": ("a.docx", word(paragraph(f"<w:txbxContent>{paragraph(run(WORD))}</w:txbxContent>"))),
        "alternative text": ("a.docx", word(paragraph(f"<w:drawing><wp:docPr descr='{WORD}'/></w:drawing>"))),
        "header": ("a.docx", word("", "header", paragraph(run(WORD)), "hdr")),
        "footer": ("a.docx", word("", "footer", paragraph(run(WORD)), "ftr")),
        **{
            kind: ("a.docx", word("", f"{kind}s", f"<w:{kind} w:id='5'>{paragraph(run(WORD))}</w:{kind}>", f"{kind}s"))
            for kind in ("footnote", "endnote", "comment")
        },
        "chart": ("a.docx", word(paragraph("<w:drawing><c:chart r:id='chart'/></w:drawing>"), "chart", WORD, "v")),
        "diagram": (
            "a.docx", word(paragraph("<w:drawing><c:x r:dm='diagramData'/></w:drawing>"), "diagramData", WORD, "t")
        ),
        "1 picture was not read": ("a.docx", word(paragraph("<w:pict><w:imagedata/></w:pict>"))),
        "1 embedded file was not read": ("a.docx", word("", "oleObject")),
        "1 macro was not read": ("a.docx", word("", "vbaProject")),
        "1 symbol was not read": ("a.docx", word(paragraph("<w:r><w:sym w:char='F0FC'/></w:r>"))),
    },
    "pptx": {
        "title": ("a.pptx", slides(shape(WORD, "title"))),
        "text box": ("a.pptx", slides(shape(WORD))),
        "group": ("a.pptx", slides(f"<p:grpSp>{shape(WORD)}</p:grpSp>")),
        "table": ("a.pptx", slides(f"<a:tbl><a:tr><a:tc><a:t>{WORD}</a:t></a:tc></a:tr></a:tbl>")),
        "alternative text": ("a.pptx", slides(f"<p:pic><p:cNvPr descr='{WORD}'/></p:pic>")),
        "notes": ("a.pptx", slides("", "notesSlide", shape(WORD, "body"))),
        "comments": ("a.pptx", slides("", "comments", f"<p:cm><p:text>{WORD}</p:text></p:cm>")),
        "layout": ("a.pptx", slides("", "slideLayout", shape(WORD))),
        "chart": ("a.pptx", slides("<c:chart r:id='chart'/>", "chart", f"<c:v>{WORD}</c:v>")),
        "1 picture was not read (slide 1)": ("a.pptx", slides("<p:pic/>")),
        "1 recording was not read (slide 1)": ("a.pptx", slides("", video="a.mp4")),
        "1 embedded file was not read (slide 1)": ("a.pptx", slides("", package="a.xlsx")),
    },
    "xlsx": {
        **{
            part: ("a.xlsx", workbook(part))
            for part in ("name", "comment", "text box", "chart", "header", "hidden sheet", "long cell", "wide row")
        },
        "hidden in the workbook: Two": ("a.xlsx", workbook("hidden sheet")),
        "1 formula without a stored value was not read (sheet One)": ("a.xlsx", workbook("formula")),
        "1 picture was not read (sheet One)": ("a.xlsx", workbook("picture")),
        "cell": ("a.xlsx", xlsx_of(A=[["words"], [WORD]])),
    },
    "odt": {
        "heading": ("a.odt", odt(f"<text:h text:outline-level='1'>{WORD}</text:h>")),
        "span": ("a.odt", odt(f"<text:p>a<text:span>b</text:span>{WORD}</text:p>")),
        "list": ("a.odt", odt(f"<text:list><text:list-item>{P}</text:list-item></text:list>")),
        "table": ("a.odt", odt(f"<table:table><table:table-row>{CELL}</table:table-row></table:table>")),
        "note": ("a.odt", odt(f"<text:p>x<text:note><text:note-body>{P}</text:note-body></text:note></text:p>")),
        "comment": ("a.odt", odt(f"<text:p>x<office:annotation>{P}</office:annotation></text:p>")),
        "text box": ("a.odt", odt(f"<text:p><draw:frame><draw:text-box>{P}</draw:text-box></draw:frame></text:p>")),
        "alternative text": ("a.odt", odt(f"<text:p><draw:frame><svg:desc>{WORD}</svg:desc></draw:frame></text:p>")),
        "header": ("a.odt", odt("", styles=MASTER)),
        "1 picture was not read": ("a.odt", odt("<text:p><draw:frame><draw:image/></draw:frame></text:p>")),
        "1 embedded object was not read": ("a.odt", odt("<text:p><draw:object/><draw:image/></text:p>")),
        "1 macro was not read": ("a.odt", odt("", Basic__a_dot_xml="x")),
    },
    "odp": {
        "text box": ("a.odp", odp(f"<draw:frame><draw:text-box>{P}</draw:text-box></draw:frame>")),
        "notes": ("a.odp", odp(f"<presentation:notes>{P}</presentation:notes>")),
        "1 picture was not read (slide 1)": ("a.odp", odp(f"{P}<draw:image/>")),
    },
    "ods": {
        "cell": ("a.ods", ods(P)),
        "name": ("a.ods", ods("", WORD)),
        "comment": ("a.ods", ods(f"<office:annotation>{P}</office:annotation>")),
        "Hidden in the spreadsheet, and read: A": ("a.ods", ods(P, automatic=HIDDEN)),
    },
    "rtf": {
        "text": ("a.rtf", rf"{{\rtf1 {WORD}}}"),
        "table": ("a.rtf", rf"{{\rtf1 \trowd a\cell {WORD}\cell\row}}"),
        "header": ("a.rtf", rf"{{\rtf1 {{\header {WORD}}} words}}"),
        "footnote": ("a.rtf", rf"{{\rtf1 words{{\footnote {WORD}}}}}"),
        "comment": ("a.rtf", rf"{{\rtf1 words{{\*\annotation {WORD}}}}}"),
        "field": ("a.rtf", rf"{{\rtf1 {{\field{{\*\fldinst HYPERLINK}}{{\fldrslt {WORD}}}}}}}"),
        "text box": ("a.rtf", rf"{{\rtf1 words{{\shp{{\*\shpinst{{\sp x}}{{\shptxt {WORD}}}}}}}}}"),
        "1 picture was not read": ("a.rtf", r"{\rtf1 words {\pict ffd8}}"),
        "1 embedded file was not read": ("a.rtf", r"{\rtf1 words {\object{\*\objdata 00}}}"),
    },
    "epub": {
        "chapter": ("a.epub", epub_of(a=f"<p>{WORD}</p>")),
        "1 picture was not read": ("a.epub", epub_of(a="<p>words</p><img src='a.png'/>")),
    },
    "html": {
        "paragraph": ("a.html", page_of(f"<p>{WORD}")),
        "alternative text": ("a.html", page_of(f"<img alt='{WORD}'>")),
        "form": ("a.html", page_of(f"<form><textarea>{WORD}</textarea></form>")),
        "field": ("a.html", page_of(f"<input value='{WORD}'>")),
        "button": ("a.html", page_of(f"<button>{WORD}</button>")),
        "drawing": ("a.html", page_of(f"<svg><text>{WORD}</text></svg>")),
        "formula": ("a.html", page_of(f"<math><mi>{WORD}</mi></math>")),
        "1 embedded part was not read": ("a.html", page_of("<iframe src='b.html'></iframe>")),
        "1 navigation menu was not read": ("a.html", page_of(f"<nav>{WORD}</nav>")),
        "2 hidden parts were not read": ("a.html", page_of(f"<p hidden>{WORD}</p><noscript>{WORD}</noscript>")),
        "1 picture was not read": ("a.html", page_of("<img src='a.png'>")),
        "1 recording was not read": ("a.html", page_of("<video src='a.mp4'></video>")),
    },
    "email": {
        "subject": ("a.eml", mail(subject=WORD)),
        "recipient": ("a.eml", mail(cc="")),
        "text": ("a.eml", mail(text=WORD)),
        "longer version": ("a.eml", mail(html="")),
        "enclosed mail": ("a.eml", mail(enclosed="")),
        "second mail": ("a.mbox", b"From a b\n" + mail() + b"\nFrom c d\n" + mail(text=WORD)),
        "1 attachment was not read (a.bin)": ("a.eml", mail(attachment="")),
    },
    "msg": {
        "subject": ("a.msg", msg_of(MESSAGE | {SUBJECT: WORD})),
        "text": ("a.msg", msg_of(MESSAGE | {BODY: WORD})),
        "sender": ("a.msg", msg_of(MESSAGE | {"__substg1.0_0C1A001F": WORD})),
        "page": ("a.msg", msg_of(MESSAGE | {"__substg1.0_10130102": f"<p>{'words ' * 9}{WORD}".encode()})),
        "1 attachment was not read (a.bin)": (
            "a.msg", msg_of(MESSAGE | {"__attach_version1.0_#0": {"__substg1.0_3707001F": "a.bin"}})
        ),
    },
    "notebook": {
        "text": ("a.ipynb", notebook_of({"cell_type": "markdown", "source": ["# A\n", WORD]})),
        "code": ("a.ipynb", notebook_of({"cell_type": "code", "source": WORD})),
        "output": ("a.ipynb", code(output_type="stream", text=WORD)),
        "result": ("a.ipynb", code(data={"text/plain": [WORD]})),
        "error": ("a.ipynb", code(output_type="error", evalue=WORD)),
        "1 picture was not read (cell 1)": ("a.ipynb", code(data={"image/png": "x"})),
    },
    "markdown": {"text": ("a.md", f"# A\n\n{WORD}"), "front matter": ("a.md", f"---\ntitle: {WORD}\n---\ntext")},
    "code": {"comment": ("a.py", f"# {WORD}\nx = 1\n")},
    "csv": {"cell": ("a.csv", f"a,b\n1,{WORD}\n")},
    "text": {"text": ("a.txt", json.dumps(WORD))},
}  # fmt: skip


def test_every_converter_has_planted_parts() -> None:
    assert set(CASES) == set(CONVERTERS)


@pytest.mark.parametrize(("format", "part"), [(format, part) for format, parts in CASES.items() for part in parts])
def test_planted_part_is_read_or_named(tmp_path: Path, format: str, part: str) -> None:
    name, content = CASES[format][part]
    heading, sections = converted(tmp_path, content, name)
    assert (heading.format, heading.failure) == (format, ""), heading.error
    if "not read" in part or "idden in" in part:
        assert any(part in note for note in heading.notes), heading.notes
    else:
        assert WORD in text_of(sections), text_of(sections)


def test_documentation_names_every_format() -> None:
    page = (Path(__file__).parents[2] / "docs/documents.md").read_text(encoding="utf-8")
    assert {line.split("`")[1] for line in page.splitlines() if line.startswith("| `")} == set(CONVERTERS)
