"""Files of every format, made here, and reading them as a worker does."""

import io
import zipfile
from collections.abc import Sequence
from email.message import EmailMessage
from pathlib import Path

from django.contrib.auth.models import User

from convmemory.accounts.callers import Caller
from convmemory.accounts.models import Archive
from convmemory.core.processes.child_process import Ending
from convmemory.documents import library, processing
from convmemory.documents.converters.base import ConvertLimits
from convmemory.documents.converting import Heading, read_heading, read_section, write_sections
from convmemory.documents.models import Document
from convmemory.documents.structure import SectionDraft
from search.adapters.documents import KIND
from search.indexing.active import index_source
from search.models import Source
from tests.factories import caller_for
from tests.support.slow_files import pdf_file

GUIDE = """# Garden guide

Welcome to the garden.

## Tomatoes

Tomatoes need six hours of sun. Water them at the root in the morning.

## Compost

Turn the compost heap every second week. Coffee grounds are welcome, meat is not.
"""
EPUB_CONTAINER = '<container><rootfiles><rootfile full-path="OEBPS/book.opf"/></rootfiles></container>'


def pdf_of(pages: Sequence[Sequence[tuple[int, str]]], *, extra: bytes = b"") -> bytes:
    """A PDF whose pages hold lines of (type size, text)."""
    objects: list[bytes] = [b"<</Type/Catalog/Pages 2 0 R>>", b"", b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>"]
    kids = []
    for lines in pages:
        y, commands = 780, []
        for size, text in lines:
            escaped = text.replace("\\", "\\\\").replace("(", "\\(").replace(")", "\\)")
            commands.append(f"BT /F1 {size} Tf 50 {y} Td ({escaped}) Tj ET")
            y -= size + 8
        stream = "\n".join(commands).encode("latin-1")
        objects.append(b"<</Length %d>>stream\n%s\nendstream" % (len(stream), stream))
        page = b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 595 842]/Resources<</Font<</F1 3 0 R>>>>/Contents %d 0 R>>"
        objects.append(page % len(objects))
        kids.append(b"%d 0 R" % len(objects))
    objects[1] = b"<</Type/Pages/Kids[%s]/Count %d>>" % (b" ".join(kids), len(kids))
    return pdf_file(objects, extra)


def encrypted_pdf() -> bytes:
    """A PDF that wants a password."""
    key = b"<" + b"41" * 32 + b">"
    handler = b"/Encrypt<</Filter/Standard/V 1/R 2/O %s/U %s/P -44>>/ID[<00><00>]" % (key, key)
    return pdf_of([[(12, "secret")]], extra=handler)


def docx_of(*blocks: tuple[str, str]) -> bytes:
    """A Word file of (style, text); the style "table" makes a table of rows separated by "/" and cells by "|"."""
    from docx import Document as Word

    word = Word()
    for style, text in blocks:
        if style == "table":
            rows = [row.split("|") for row in text.split("/")]
            table = word.add_table(len(rows), len(rows[0]))
            for at, cells in enumerate(rows):
                for column, cell in enumerate(cells):
                    table.cell(at, column).text = cell
        else:
            word.add_paragraph(text, style=style)
    return _saved(word)


def pptx_of(*slides: tuple[str, str]) -> bytes:
    """Slides of (title, text)."""
    from pptx import Presentation

    show = Presentation()
    for title, text in slides:
        slide = show.slides.add_slide(show.slide_layouts[1])
        slide.shapes.title.text = title
        slide.placeholders[1].text = text
    return _saved(show)


def _saved(file: object) -> bytes:
    out = io.BytesIO()
    file.save(out)  # type: ignore[attr-defined]
    return out.getvalue()


def xlsx_of(**sheets: Sequence[Sequence[object]]) -> bytes:
    from xlsxwriter import Workbook

    out = io.BytesIO()
    book = Workbook(out)
    for name, rows in sheets.items():
        sheet = book.add_worksheet(name)
        for number, row in enumerate(rows):
            sheet.write_row(number, 0, row)
    book.close()
    return out.getvalue()


def packed(**entries: str | bytes) -> bytes:
    """A zip file; in the names `__` stands for a slash and `_dot_` for a dot."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in entries.items():
            archive.writestr(name.replace("__", "/").replace("_dot_", "."), content)
    return out.getvalue()


def epub_of(**chapters: str) -> bytes:
    """A book with these chapters of HTML."""
    items = "".join(f'<item id="{name}" href="{name}.xhtml"/>' for name in chapters)
    spine = "".join(f'<itemref idref="{name}"/>' for name in chapters)
    book = (
        '<package xmlns="http://www.idpf.org/2007/opf" xmlns:dc="http://purl.org/dc/elements/1.1/"><metadata>'
        f"<dc:title>A book</dc:title></metadata><manifest>{items}</manifest><spine>{spine}</spine></package>"
    )
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr("mimetype", "application/epub+zip")
        archive.writestr("META-INF/container.xml", EPUB_CONTAINER)
        archive.writestr("OEBPS/book.opf", book)
        for name, text in chapters.items():
            archive.writestr(f"OEBPS/{name}.xhtml", f"<html><body>{text}</body></html>")
    return out.getvalue()


def email_of(subject: str, text: str, *, attachment: str = "") -> bytes:
    message = EmailMessage()
    message["From"], message["To"], message["Subject"] = "ada@example.org", "bob@example.org", subject
    message.set_content(text)
    if attachment:
        message.add_attachment(b"%PDF-", maintype="application", subtype="pdf", filename=attachment)
    return bytes(message)


def converted(
    tmp_path: Path, content: bytes | str, name: str, limits: ConvertLimits | None = None
) -> tuple[Heading, list[SectionDraft]]:
    """The result of converting a file, as a worker reads it."""
    source, target = tmp_path / "file", tmp_path / "sections.jsonl"
    source.write_bytes(content.encode() if isinstance(content, str) else content)
    write_sections(path=source, name=name, target=target, limits=limits or ConvertLimits())
    first, *others = target.read_text(encoding="utf-8").splitlines()
    return read_heading(first), [read_section(line) for line in others]


def text_of(sections: Sequence[SectionDraft]) -> str:
    return "".join(section.text for section in sections)


def upload(owner: User | Archive, content: bytes | str, name: str = "guide.md") -> Document:
    """A stored document that waits to be read."""
    data = content.encode() if isinstance(content, str) else content
    stored = library.store_file(archive_id=owner.pk, file=io.BytesIO(data), name=name)
    return library.add_document(caller=caller_for(owner), stored=stored).document


def replace(owner: User, document: Document, content: str, name: str = "guide.md") -> None:
    """A stored next version that waits to be read."""
    stored = library.store_file(archive_id=owner.pk, file=io.BytesIO(content.encode()), name=name)
    library.replace_document(caller=Caller.of(owner), document_id=document.pk, stored=stored)


def convert_here(document: Document, target: Path) -> Ending:
    """Stands for the child process."""
    file = document.next_file or document.file
    write_sections(
        path=Path(file.path), name=document.next_name or document.name, target=target, limits=ConvertLimits()
    )
    return Ending.DONE


def read(document: Document) -> Document:
    """The document after a worker has read it."""
    processing.process_document(archive_id=document.archive_id, document_id=document.pk)
    document.refresh_from_db()
    return document


def indexed(document: Document) -> Document:
    """The document after workers have read and indexed it."""
    read(document)
    for pk in Source.objects.filter(kind=KIND, object_id=document.pk).values_list("pk", flat=True):
        index_source(archive_id=document.archive_id, source_id=pk)
    return document
