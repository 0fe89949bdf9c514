"""What a converter is: it reads one kind of file, in a child process, as blocks; and the examination of zip files.

    def convert(file: SourceFile) -> Converted:
        text = file.text()
        return Converted([Block(text)], title=first_line_of(text))

To add one, write a module with such a function and name it in `converters/detect.py`. It must be linear in the file's
size, collect its blocks with `collected`, count the parts that it sees and does not read in a `Coverage` (the contract
test plants a value in each), and read each part of a file once however often it is referenced; it may raise
`Unreadable` with a remedy for the owner. Any other error of a library is a refusal too (`converting.py`). Loops over
pages and other units use `file.watched(...)`: a converter that uses DOCUMENT_STALL_S of processor time without progress
is ended.
"""

import os
import re
import time
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from copy import copy
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from convmemory.core.files.charsets import decode_text
from convmemory.core.files.decoding import DecodedBytes, DecodeLimits
from convmemory.documents.converters.coverage import Coverage
from convmemory.documents.structure import Block

# Less than the smallest `DOCUMENT_STALL_S`, one second.
REPORT_S = 0.5
MAX_BLOCKS = 500_000
"""Headings, paragraphs, rows: a document with this many takes seconds to split into sections."""

DAMAGED = "The file is damaged and cannot be read: save it again from the program that made it."

MAX_ENTRIES = 20_000
CHUNK_BYTES = 1024 * 1024
OFFICE_PARTS = {
    "docx": re.compile(r"word/document\d{0,3}\.xml"),
    "pptx": re.compile(r"ppt/presentation\d{0,3}\.xml"),
    "xlsx": re.compile(r"xl/workbook\d{0,3}\.(?:xml|bin)"),
}
# Archives of these kinds begin with an entry that names them.
DECLARED_KINDS = {
    b"application/epub+zip": "epub",
    b"application/vnd.oasis.opendocument.text": "odt",
    b"application/vnd.oasis.opendocument.presentation": "odp",
    b"application/vnd.oasis.opendocument.spreadsheet": "ods",
}
_BROKEN = "The file is damaged and cannot be unpacked: save it again from the program that made it."

T = TypeVar("T")


class Unreadable(Exception):
    """The file cannot be read as a document. `failure` names the reason, the message the remedy."""

    def __init__(self, failure: str, message: str) -> None:
        self.failure = failure
        super().__init__(message)


@dataclass(frozen=True, slots=True)
class ConvertLimits(DecodeLimits):
    """Limits of a conversion, and whether scanned text is recognised (OCR) and keys are hidden."""

    max_bytes: int = 512 * 1024**2  # unpacked, because libraries hold it in memory
    max_pages: int = 10_000
    max_chars: int = 20_000_000
    ocr: bool = False
    hide_keys: bool = True


@dataclass(frozen=True, slots=True)
class SourceFile:
    """The stored file, and its original name. The worker checks when the file `progress` was last touched."""

    path: Path
    name: str
    limits: ConvertLimits = field(default_factory=ConvertLimits)
    progress: Path | None = None
    notes: dict[str, None] = field(default_factory=dict)

    @property
    def suffix(self) -> str:
        """Return the suffix of its name in lower case, with the dot."""
        return Path(self.name).suffix.lower()

    @property
    def stem(self) -> str:
        """Return the name without its suffix, the title of a document without one."""
        return Path(self.name).stem

    def watched(self, items: Iterable[T]) -> Iterator[T]:
        """Yield the items, and touch `progress` from time to time."""
        due_at = 0.0
        for item in items:
            if self.progress is not None and time.monotonic() >= due_at:
                os.utime(self.progress)
                due_at = time.monotonic() + REPORT_S
            yield item

    def text(self) -> str:
        """Return the file as text, whatever its encoding; line endings are unchanged."""
        return self.decoded(self.path.read_bytes())

    def decoded(self, data: bytes, declared: str = "") -> str:
        """Return a text of the file; note what is doubtful about its letters."""
        text, notes = decode_text(data, declared=declared)
        self.notes.update(dict.fromkeys(notes))
        return text


@dataclass(slots=True)
class Converted:
    """A converter's result. `pages` is None for formats without pages.

    `coverage` counts the parts that were read and those that were not, each of which becomes a note; `notes` say what
    else the owner should know. The blocks may be read lazily: both are complete once the last block is.
    """

    blocks: Iterable[Block]
    title: str = ""
    pages: int | None = None
    notes: list[str] = field(default_factory=list)
    coverage: Coverage = field(default_factory=Coverage)


Converter = Callable[[SourceFile], Converted]


def collected(blocks: Iterable[Block], file: SourceFile) -> list[Block]:
    """Return the blocks, and report progress; stop at the first block over the limits of a document.

    Raises: Unreadable.
    """
    kept: list[Block] = []
    chars, limits = 0, file.limits
    for block in file.watched(blocks):
        chars += len(block.text)
        if chars > limits.max_chars:
            raise Unreadable(
                "too_large",
                f"The document has more than {limits.max_chars:,} characters (MAX_DOCUMENT_CHARS): split it.",
            )
        if len(kept) == MAX_BLOCKS:
            raise Unreadable(
                "too_large", f"The document has more than {MAX_BLOCKS:,} headings, paragraphs and rows: split it."
            )
        kept.append(block)
    return kept


def joined_row(cells: Iterable[str]) -> str:
    """Return a row as one line, without empty cells at the end."""
    kept = [" ".join(cell.split()) for cell in cells]
    while kept and not kept[-1]:
        kept.pop()
    return " | ".join(kept)


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
    """Return the format of the document in an archive by its contents, "" for no document. Raises: Unreadable."""
    with open_packed(file) as archive:
        names = set(archive.namelist())
        with suppress(KeyError, zipfile.BadZipFile, NotImplementedError):
            if kind := DECLARED_KINDS.get(archive.read("mimetype")[:80].strip().removesuffix(b"-template")):
                return kind
        for kind, part in OFFICE_PARTS.items():
            if any(map(part.fullmatch, names)):
                return kind
        return "iwork" if any(name.startswith("Index/") and name.endswith(".iwa") for name in names) else ""
