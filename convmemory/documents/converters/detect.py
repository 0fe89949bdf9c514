"""Chooses the converter for a file by its content; the name only distinguishes formats of plain text."""

import re
from itertools import takewhile

from convmemory.core.files.charsets import charset_of
from convmemory.documents.converters import (
    base,
    compound,
    mail,
    notebook,
    odf,
    outlook,
    pdf,
    plain,
    rtf,
    slides,
    web,
    word,
    workbook,
)
from convmemory.documents.converters.base import Converter, SourceFile, Unreadable

HEAD_BYTES = 4_096
PICTURES = (b"\x89PNG", b"\xff\xd8\xff", b"GIF8", b"II*\x00", b"MM\x00*", b"BM")
HTML_MARKS = ("<!doctype html", "<html", "<head", "<body")
MAIL_HEADERS = frozenset({"from", "to", "subject", "date", "message-id", "mime-version", "received", "return-path"})
_HEADER = re.compile(r"([\w-]{1,70}):")
_POSTMARK = re.compile(r"from [^\n]{1,200}\n(?=>?[\w-]{1,70}:)")
OLD_OFFICE = ("EncryptedPackage", "Workbook", "WordDocument", "PowerPoint Document", outlook.PROPERTIES)
NO_DOCUMENT = "This is no document: upload PDF, Office, OpenDocument, RTF, EPUB, HTML, e-mail or text files."

CONVERTERS: dict[str, Converter] = {
    "pdf": pdf.convert,
    "docx": word.convert_docx,
    "pptx": slides.convert_pptx,
    "xlsx": workbook.convert_sheets,
    "epub": web.convert_epub,
    "odt": odf.convert_text,
    "odp": odf.convert_slides,
    "ods": odf.convert_sheets,
    "rtf": rtf.convert_rtf,
    "notebook": notebook.convert_notebook,
    "html": web.convert_html,
    "email": mail.convert_email,
    "msg": outlook.convert_msg,
    "markdown": plain.convert_markdown,
    "code": plain.convert_code,
    "csv": plain.convert_csv,
    "text": plain.convert_text,
}
"""The converters by the stored name of the format."""

SUFFIXES = {
    ".html": "html",
    ".htm": "html",
    ".xhtml": "html",
    ".eml": "email",
    ".mht": "email",
    ".mhtml": "email",
    ".mbox": "email",
    ".csv": "csv",
    ".tsv": "csv",
}


def format_of(file: SourceFile) -> str:
    """Return the format's name. Raises: Unreadable, with a remedy, if no converter reads it."""
    with file.path.open("rb") as stream:
        head = stream.read(HEAD_BYTES)
    if not head:
        raise Unreadable("empty", "The file is empty: choose another one.")
    # Viewers accept a PDF whose header follows within the first 1,024 bytes.
    if b"%PDF-" in head[:1024]:
        return "pdf"
    if head.startswith(b"PK\x03\x04"):
        if kind := base.kind_of_packed(file):
            if kind not in CONVERTERS:
                raise Unreadable(
                    "unknown",
                    "This is a file of Pages, Numbers or Keynote: export it as PDF or Office, and upload that.",
                )
            return kind
        raise Unreadable("unknown", "This archive is no document: unpack it, and upload the documents that it holds.")
    if head.startswith(compound.SIGNATURE):
        return _kind_of_compound(file)
    if head.startswith(b"{\\rtf"):
        return "rtf"
    if head.startswith(PICTURES):
        raise Unreadable("unknown", "This is a picture: put it into a PDF, run OCR over that, and upload the result.")
    charset = charset_of(head).name
    # A NUL byte means a binary file, except in UTF-16 and UTF-32.
    if b"\x00" in head and not charset.startswith(("utf-16", "utf-32")):
        raise Unreadable("unknown", NO_DOCUMENT)
    return _kind_of_text(head.decode(charset, "replace"), file)


def _kind_of_compound(file: SourceFile) -> str:
    data = file.path.read_bytes()
    try:
        opened = compound.CompoundFile(data)
        names = set(opened.folder(opened.entries[0]))
    except Unreadable:  # a damaged one, of which the names may be left
        names = {name for name in OLD_OFFICE if name.encode("utf-16-le") in data}
    if "EncryptedPackage" in names:
        raise Unreadable("encrypted", "The file is encrypted: save it without a password, and upload that.")
    if outlook.PROPERTIES in names:
        return "msg"
    if names & {"Workbook", "Book"} or file.suffix in (".xls", ".xlt"):
        return "xlsx"
    raise Unreadable("unknown", "This is a file of an old Office version: save it as .docx or .pptx, and upload that.")


def _kind_of_text(head: str, file: SourceFile) -> str:
    if file.suffix in plain.MARKDOWN_SUFFIXES:
        return "markdown"
    if file.suffix in plain.CODE_SUFFIXES:
        return "code"
    if file.suffix == ".ipynb" and head.lstrip().startswith("{"):
        return "notebook"
    start = head.lstrip("\ufeff \t\r\n").lower()
    if start.startswith(HTML_MARKS):
        return "html"
    if _begins_like_mail(start):
        return "email"
    return SUFFIXES.get(file.suffix, "text")


def _begins_like_mail(start: str) -> bool:
    """Return whether a text begins with the headers of a mail, or with a mailbox's line before them."""
    postmark = _POSTMARK.match(start)
    lines = start[postmark.end() if postmark else 0 :].splitlines()
    named = [_HEADER.match(line) for line in takewhile(str.strip, lines) if line[0] not in " \t"]
    names = {header[1] for header in named if header}
    # Three of four lines at least are headers: prose can begin with "From:" and "To:", too.
    return len(names & MAIL_HEADERS) >= (1 if postmark else 2) and 4 * sum(map(bool, named)) >= 3 * len(named)
