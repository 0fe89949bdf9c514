"""Defines a converter: it reads one kind of file and returns its text as blocks, in a child process under limits.

    def convert(file: SourceFile) -> Converted:
        text = file.text()
        return Converted([Block(text)], title=first_line_of(text))

To add one, write a module with such a function and name it in `converters/detect.py`. It must be linear in the file's
size, collect its blocks with `collected`, and read each part of a file once however often it is referenced; it may
raise `Unreadable` with a remedy for the owner. Any other error of a library is a refusal too (`converting.py`). Loops
over pages and other units use `file.watched(...)`: a converter that uses DOCUMENT_STALL_S of processor time without
progress is ended.
"""

import os
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from convmemory.core.decoding import DecodeLimits
from convmemory.documents.structure import Block

# Less than the smallest `DOCUMENT_STALL_S`, one second.
REPORT_S = 0.5
MAX_BLOCKS = 500_000
"""Headings, paragraphs, rows: a document with this many takes seconds to split into sections."""

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
        return decode(self.path.read_bytes())


@dataclass(slots=True)
class Converted:
    """A converter's result. `pages` is None for formats without pages; `notes` say which parts were left out."""

    blocks: Iterable[Block]
    title: str = ""
    pages: int | None = None
    notes: list[str] = field(default_factory=list)


Converter = Callable[[SourceFile], Converted]


def collected(blocks: Iterable[Block], file: SourceFile) -> list[Block]:
    """Return the blocks, and report progress; stop at the first block over the limits of a document.

    Raises: Unreadable.
    """
    found: list[Block] = []
    chars, limits = 0, file.limits
    for block in file.watched(blocks):
        chars += len(block.text)
        if chars > limits.max_chars:
            raise Unreadable(
                "too_large",
                f"The document has more than {limits.max_chars:,} characters (MAX_DOCUMENT_CHARS): split it.",
            )
        if len(found) == MAX_BLOCKS:
            raise Unreadable(
                "too_large", f"The document has more than {MAX_BLOCKS:,} headings, paragraphs and rows: split it."
            )
        found.append(block)
    return found


def decode(data: bytes) -> str:
    """Decode text of unknown encoding: by its byte order mark, as UTF-8, or as Windows-1252."""
    for mark, encoding in ((b"\xef\xbb\xbf", "utf-8-sig"), (b"\xff\xfe", "utf-16"), (b"\xfe\xff", "utf-16")):
        if data.startswith(mark):
            return data.decode(encoding, "replace")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return data.decode("cp1252", "replace")
