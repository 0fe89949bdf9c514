"""Chooses the converter for a file by its content; the name only distinguishes formats of plain text."""

from convmemory.documents.converters import base, pdf, plain, slides, web, word, workbook
from convmemory.documents.converters.base import Converter, SourceFile, Unreadable

HEAD_BYTES = 4_096
OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
ENCRYPTED_OFFICE = "EncryptedPackage".encode("utf-16-le")
PICTURES = (b"\x89PNG", b"\xff\xd8\xff", b"GIF8", b"II*\x00", b"MM\x00*", b"BM")
HTML_MARKS = (b"<!doctype html", b"<html", b"<head", b"<body")
MAIL_MARKS = (b"from:", b"return-path:", b"received:", b"delivered-to:", b"mime-version:", b"message-id:")

CONVERTERS: dict[str, Converter] = {
    "pdf": pdf.convert,
    "docx": word.convert_docx,
    "pptx": slides.convert_pptx,
    "xlsx": workbook.convert_sheets,
    "epub": web.convert_epub,
    "html": web.convert_html,
    "email": web.convert_email,
    "markdown": plain.convert_markdown,
    "code": plain.convert_code,
    "csv": plain.convert_csv,
    "text": plain.convert_text,
}
"""The converters by the stored name of the format."""

SUFFIXES = {".html": "html", ".htm": "html", ".xhtml": "html", ".eml": "email", ".csv": "csv", ".tsv": "csv"}


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
            return kind
        raise Unreadable("unknown", "This archive is no document: unpack it, and upload the documents that it holds.")
    if head.startswith(OLE):
        if ENCRYPTED_OFFICE in file.path.read_bytes():
            raise Unreadable("encrypted", "The file is encrypted: save it without a password, and upload that.")
        if file.suffix in (".xls", ".xlt"):
            return "xlsx"
        raise Unreadable(
            "unknown", "This is a file of an old Office version: save it as .docx or .pptx, and upload that."
        )
    if head.startswith(PICTURES):
        raise Unreadable("unknown", "This is a picture: put it into a PDF, run OCR over that, and upload the result.")
    # A NUL byte means a binary file, except in UTF-16, which begins with a byte order mark.
    if b"\x00" in head and not head.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise Unreadable("unknown", "This is no document: upload PDF, Office, EPUB, HTML, e-mail or text files.")
    return _kind_of_text(head, file)


def _kind_of_text(head: bytes, file: SourceFile) -> str:
    if file.suffix in plain.MARKDOWN_SUFFIXES:
        return "markdown"
    if file.suffix in plain.CODE_SUFFIXES:
        return "code"
    start = head.lstrip().lower()
    if start.startswith(HTML_MARKS):
        return "html"
    if start.startswith(MAIL_MARKS) and b"\nsubject:" in start:
        return "email"
    return SUFFIXES.get(file.suffix, "text")
