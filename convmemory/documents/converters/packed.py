"""Checks zip files before a library unpacks them: their unpacked size, and the kind of document they contain."""

import zipfile
import zlib
from contextlib import suppress
from copy import copy
from typing import Any

from convmemory.core.decoding import DecodedBytes
from convmemory.documents.converters.base import SourceFile, Unreadable

MAX_ENTRIES = 20_000
CHUNK_BYTES = 1024 * 1024
OFFICE_PARTS = {"docx": "word/document.xml", "pptx": "ppt/presentation.xml", "xlsx": "xl/workbook.xml"}
_BROKEN = "The file is damaged and cannot be unpacked: save it again from the program that made it."


def open_packed(file: SourceFile) -> zipfile.ZipFile:
    """Open the archive, whose unpacked size is within the limits. Raises: Unreadable.

    `zipfile` reads no more of an entry than the archive declares, so the declared sizes can be trusted. Other libraries
    read on: see `require_declared_sizes`.
    """
    try:
        archive = zipfile.ZipFile(file.path)
    except (zipfile.BadZipFile, OSError, ValueError) as error:
        raise Unreadable("broken", _BROKEN) from error
    size = sum(entry.file_size for entry in archive.infolist())
    packed = file.path.stat().st_size
    if len(archive.infolist()) > MAX_ENTRIES or size > DecodedBytes(packed, file.limits).max_count:
        raise Unreadable(
            "too_large",
            f"The file unpacks to {size // 1024**2:,} MB from {packed / 1024**2:,.1f} MB, as files made to fill memory "
            "do: save it again from the program that made it, without embedded media, or in parts.",
        )
    if any(entry.flag_bits & 1 for entry in archive.infolist()):
        raise Unreadable("encrypted", "The file is encrypted: save it without a password, and upload that.")
    return archive


def require_declared_sizes(archive: zipfile.ZipFile) -> None:
    """Refuse an archive with an entry that unpacks to more than it declares. Raises: Unreadable."""
    try:
        for entry in archive.infolist():
            longer = copy(entry)
            # One byte more than declared: `zipfile` then reads a longer entry beyond its declared size.
            longer.file_size += 1
            with archive.open(longer) as stream:
                size = 0
                while chunk := stream.read(CHUNK_BYTES):
                    size += len(chunk)
            if size > entry.file_size:
                raise Unreadable("broken", _BROKEN)
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, OSError) as error:
        raise Unreadable("broken", _BROKEN) from error


def parsed_xml(data: bytes) -> Any:
    """Return the root of a part of the archive; entities are not resolved. Raises: SyntaxError."""
    from lxml import etree

    return etree.fromstring(data, etree.XMLParser(resolve_entities=False, no_network=True, huge_tree=False))


def kind_of_packed(file: SourceFile) -> str:
    """Return docx, pptx, xlsx, epub or "", by the contents of the archive. Raises: Unreadable."""
    with open_packed(file) as archive:
        names = set(archive.namelist())
        with suppress(KeyError, zipfile.BadZipFile, NotImplementedError):
            if archive.read("mimetype")[:64].strip() == b"application/epub+zip":
                return "epub"
        for kind, part in OFFICE_PARTS.items():
            if part in names:
                return kind
        is_other_workbook = "xl/workbook.bin" in names or ("content.xml" in names and file.suffix == ".ods")
    return "xlsx" if is_other_workbook else ""
