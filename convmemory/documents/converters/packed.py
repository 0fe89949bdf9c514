"""Examines zip files before anything unpacks them: their unpacked size, and which kind of document they are."""

import zipfile
from contextlib import suppress

from convmemory.documents.converters.base import SourceFile, Unreadable

MAX_ENTRIES = 20_000
OFFICE_PARTS = {"docx": "word/document.xml", "pptx": "ppt/presentation.xml", "xlsx": "xl/workbook.xml"}
_BROKEN = "The file is damaged and cannot be unpacked: save it again from the program that made it."


def open_packed(file: SourceFile) -> zipfile.ZipFile:
    """The archive, whose unpacked size is within the limits. Raises: Unreadable.

    `zipfile` reads no more of an entry than the archive declares, so the declared sizes can be trusted.
    """
    try:
        archive = zipfile.ZipFile(file.path)
    except (zipfile.BadZipFile, OSError, ValueError) as error:
        raise Unreadable("broken", _BROKEN) from error
    size = sum(entry.file_size for entry in archive.infolist())
    packed = file.path.stat().st_size
    limits = file.limits
    too_dense = size > limits.ratio_from_bytes and size > packed * limits.max_ratio
    if len(archive.infolist()) > MAX_ENTRIES or size > limits.max_unpacked_bytes or too_dense:
        raise Unreadable(
            "too_large",
            f"The file unpacks to {size // 1024**2:,} MB from {packed / 1024**2:,.1f} MB, as files made to fill memory "
            "do: save it again from the program that made it, without embedded media, or in parts.",
        )
    if any(entry.flag_bits & 1 for entry in archive.infolist()):
        raise Unreadable("encrypted", "The file is encrypted: save it without a password, and upload that.")
    return archive


def kind_of_packed(file: SourceFile) -> str:
    """docx, pptx, xlsx, epub or "", by the contents of the archive. Raises: Unreadable."""
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
