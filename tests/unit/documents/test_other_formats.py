"""RTF, OpenDocument, Outlook's mails and notebooks: letters, structure, and what they leave out."""

from pathlib import Path

import pytest

from tests.support.documents import converted, packed, text_of
from tests.support.other_documents import msg_of, notebook_of, odf_of

PROPERTIES, SUBJECT, BODY = "__properties_version1.0", "__substg1.0_0037001F", "__substg1.0_1000001F"


@pytest.mark.parametrize(
    ("rtf", "text"),
    [
        (r"{\rtf1\ansi\ansicpg1252 M\'fcnchen \u8364? 900\par Second}", "München € 900\n\nSecond\n\n"),
        (r"{\rtf1\ansi\ansicpg1251 \'cf\'f0\'e8\'e2\'e5\'f2}", "Привет\n\n"),
        (r"{\rtf1\ansi{\fonttbl{\f0 A;}{\f1\fcharset128 B;}}\f1 \'93\'fa\'96\'7b\f0 e\'e9}", "日本eé\n\n"),
        (r"{\rtf1\uc2\u26085 ab\u26412 \'61\'62{\uc0\u-10179\u-8704}!}", "日本\U0001f600!\n\n"),
        (r"{\rtf1 a\emdash b\~c\_d\-e\{f\}\\}", "a\u2014b\u00a0c-de{f}\\\n\n"),
        (r"{\rtf1 kept {\deleted gone} and \deleted gone\deleted0  here}", "kept  and  here\n\n"),
        (r"{\rtf1{\info{\title T\'fc}{\author x}}{\*\unknown gone}words\bin4 }}}}more}", "wordsmore\n\n"),
        ("{\\rtf1 {\\b bo\r\nld}\r\nword}", "boldword\n\n"),
    ],
)
def test_rtf_has_letters_of_its_fonts_and_no_control_words(tmp_path: Path, rtf: str, text: str) -> None:
    _, sections = converted(tmp_path, rtf, "note.rtf")
    assert text_of(sections) == text


def test_rtf_has_title_and_headings(tmp_path: Path) -> None:
    rtf = r"{\rtf1{\info{\title A lease}}{\pard\outlinelevel0 Plan\par}\pard text\par}"
    heading, [section] = converted(tmp_path, rtf, "a.rtf")
    assert (heading.title, section.path, section.text) == ("A lease", ("Plan",), "Plan\n\ntext\n\n")


def test_open_document_is_read_with_deletions_left_out(tmp_path: Path) -> None:
    body = (
        "<text:tracked-changes><text:changed-region><text:deletion><text:p>gone</text:p></text:deletion>"
        "</text:changed-region></text:tracked-changes><text:h text:outline-level='2'>Plan</text:h>"
        "<text:p>one<text:s text:c='3'/>two<text:tab/>three<text:note><text:note-citation>1</text:note-citation>"
        "<text:note-body><text:p>noted</text:p></text:note-body></text:note> four</text:p>"
    )
    _, [section] = converted(tmp_path, odf_of("text", body), "a.odt")
    assert section.path == ("Plan",)
    assert section.text == "Plan\n\none   two\tthree four\n\nnoted\n\n"


def test_cells_of_open_document_are_read_as_shown(tmp_path: Path) -> None:
    cells = "".join(
        f"<table:table-cell {attributes}>{text}</table:table-cell>"
        for attributes, text in [
            ("", "<text:p>007</text:p>"),
            ("table:number-columns-repeated='2'", ""),
            ("", "<text:p>7.50 %</text:p>"),
            ("table:number-columns-repeated='16000'", ""),
        ]
    )
    body = f"<table:table table:name='Rates'><table:table-row>{cells}</table:table-row></table:table>"
    heading, [section] = converted(tmp_path, odf_of("spreadsheet", body), "a.ods")
    assert section.text == "Rates\n\n007 |  |  | 7.50 %\n"
    assert heading.pages == 1


def test_encrypted_open_document_and_pages_file_are_refused(tmp_path: Path) -> None:
    encrypted = odf_of("text", "", **{"META-INF__manifest_dot_xml": "<a><encryption-data/></a>"})
    assert converted(tmp_path, encrypted, "a.odt")[0].failure == "encrypted"
    heading, _ = converted(tmp_path, packed(Index__Document_dot_iwa="x"), "a.pages")
    assert (heading.failure, "export it as PDF" in heading.error) == ("unknown", True)


def test_mail_of_outlook_with_enclosed_mail(tmp_path: Path) -> None:
    inner = {PROPERTIES: b"\0" * 24, SUBJECT: "Inner", BODY: "mosswort"}
    data = msg_of({
        PROPERTIES: b"\0" * 32 + (0x00390040).to_bytes(4, "little") + bytes(4) + (134 * 10**15).to_bytes(8, "little"),
        SUBJECT: "Zweite Grüße",
        BODY: "words",
        "__substg1.0_0C1A001F": "Ada",
        "__substg1.0_5D01001F": "ada@example.org",
        "__attach_version1.0_#0": {"__substg1.0_3701000D": inner},
    })  # fmt: skip
    heading, sections = converted(tmp_path, data, "a.msg")
    assert (heading.format, heading.title) == ("msg", "Zweite Grüße")
    assert "From: Ada <ada@example.org>\nDate: 2025-08-18 14:13+00:00\n" in text_of(sections)
    assert "mosswort" in text_of(sections)


def test_cells_of_notebook_are_read_in_order(tmp_path: Path) -> None:
    data = notebook_of(
        {"cell_type": "markdown", "source": ["# Yield of peas\n", "\n", "Text"]},
        {
            "cell_type": "code",
            "source": "print(1)",
            "outputs": [
                {"output_type": "stream", "text": ["1\n"]},
                {"output_type": "display_data", "data": {"text/html": "<table><td>seven"}},
                {"output_type": "error", "ename": "E", "evalue": "bad", "traceback": ["\x1b[0;31mline 1", "E: bad"]},
            ],
        },
    )
    heading, sections = converted(tmp_path, data, "a.ipynb")
    assert heading.title == "Yield of peas"
    assert text_of(sections) == "# Yield of peas\n\nText\n\nprint(1)\n\n1\n\nseven\n\nline 1\nE: bad\n\n"
