"""Reads files of JSON lines, plain or compressed, one line at a time, whatever state they are in.

Several objects on one line, comments, blank lines, a cut-off last line, invalid UTF-8 and NUL characters are accepted;
unreadable text is passed to `on_issue` with its line number.
"""

import io
import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO, Protocol, cast

import zstandard

from convmemory.core.errors import InvalidInput
from convmemory.core.files.decoding import count_decoded_up_to

MAX_LINE_BYTES = 16 * 1024 * 1024
CHUNK_BYTES = 1024 * 1024
# A record's type is at its beginning, so that long lines can be skipped without parsing them.
LINE_HEAD_BYTES = 400
LINE_TOO_LONG = (
    f"the line is longer than {MAX_LINE_BYTES // 1024**2} MB: divide it, or leave out the files that are embedded in it"
)

_DECODER = json.JSONDecoder(strict=False)  # accepts raw control characters in strings
_SPACE = re.compile(r"\s*")
_FRESH_OBJECT = re.compile(r'\{"(?:type|parentUuid|role|messages)"\s*:')
_MAX_RESUME_ATTEMPTS = 20  # limits the work on a hostile line
_NAMES = {str: "a string", list: "a list", bool: "true or false", int: "a number", float: "a number"}

MAX_VALUES = 1_000_000
"""Values in one piece of JSON: about 100 MB once it is parsed."""

_STRING_OR_SEPARATOR = re.compile(r'"(?:[^"\\]++|\\.)*+"?|[,\[{]', re.DOTALL)

ZSTD_START = b"\x28\xb5\x2f\xfd"
MAX_WINDOW_BYTES = 128 * 1024**2  # of `zstd --long`, the largest that decoders accept by default
MAX_DECOMPRESSED_BYTES = 4 * 1024**3
BUFFER_BYTES = 256 * 1024
_MOST_HEADER_BYTES = 18  # Source: RFC 8878, section 3.1.1
_SKIPPABLE_END = b"\x2a\x4d\x18"


class OnIssue(Protocol):
    """Receives a faulty line's number and the reason; `kept` if its objects are still yielded."""

    def __call__(self, number: int, reason: str, *, kept: bool) -> None: ...


@dataclass(frozen=True, slots=True)
class JsonObject:
    """One object of a file: its position and its source bytes."""

    number: int  # line, from 1
    index: int  # which object on that line, from 0
    offset: int  # of the line's first byte
    value: dict[str, Any]
    raw: bytes

    @property
    def position(self) -> tuple[int, int]:
        return (self.number, self.index)


def ignore_issue(number: int, reason: str, *, kept: bool) -> None:
    """Do nothing: the issues of these lines have been reported, or are none."""


def read_objects(
    path: Path,
    *,
    on_issue: OnIssue = ignore_issue,
    until: int | None = None,
    passing_over: "re.Pattern[bytes] | None" = None,
    passing_over_long: "re.Pattern[bytes] | None" = None,
) -> Iterator[JsonObject]:
    """Yield the objects of the file in order, up to byte `until`. Holds one line in memory.

    Lines in whose first `LINE_HEAD_BYTES` the pattern `passing_over` is found are neither parsed nor reported, whatever
    their length; with `passing_over_long`, those that are too long to be read.

    Raises: InvalidInput if the file cannot be read.
    """
    try:
        with open_transcript(path) as file:
            for number, offset, line in _lines(file, on_issue, until, passing_over, passing_over_long):
                yield from objects_of_line(line, number=number, offset=offset, on_issue=on_issue)
    except OSError as error:
        raise unreadable(path, error) from error


def read_text_lines(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the lines of a text with their numbers; a longer line than `MAX_LINE_BYTES` is divided.

    Raises: InvalidInput if the file cannot be read.
    """
    try:
        with open_transcript(path) as file:
            number = 0
            while line := file.readline(MAX_LINE_BYTES):
                number += 1
                yield number, line.decode("utf-8-sig" if number == 1 else "utf-8", "replace").rstrip("\r\n")
    except OSError as error:
        raise unreadable(path, error) from error


def read_objects_at(path: Path, addresses: Iterable[tuple[int, int, int]], *, until: int) -> Iterator[JsonObject]:
    """Yield the objects at these (offset, line number, index), which a first pass has found."""
    try:
        with path.open("rb") as file:
            for offset, number, index in addresses:
                file.seek(offset)
                line = file.readline(min(until - offset, MAX_LINE_BYTES))
                for item in objects_of_line(line, number=number, offset=offset):
                    if item.index == index:
                        yield item
    except OSError as error:
        raise unreadable(path, error) from error


def unreadable(path: Path, error: OSError) -> InvalidInput:
    """Return the error for a failure of the file system."""
    return InvalidInput(f"{path.name} cannot be read: {error.strerror or error}.")


def _lines(
    file: BinaryIO,
    on_issue: OnIssue,
    until: int | None,
    passing_over: "re.Pattern[bytes] | None",
    passing_over_long: "re.Pattern[bytes] | None",
) -> Iterator[tuple[int, int, bytes]]:
    offset = number = 0
    while until is None or offset < until:
        line = file.readline(MAX_LINE_BYTES + 1)
        if not line:
            return
        number += 1
        start, offset = offset, offset + len(line)
        pattern = passing_over if len(line) <= MAX_LINE_BYTES or passing_over_long is None else passing_over_long
        passed_over = pattern is not None and pattern.search(line, 0, LINE_HEAD_BYTES) is not None
        rest = line
        while len(line) > MAX_LINE_BYTES and rest and not rest.endswith(b"\n"):
            rest = file.readline(CHUNK_BYTES)
            offset += len(rest)
        if passed_over:
            continue
        if len(line) > MAX_LINE_BYTES:
            on_issue(number, LINE_TOO_LONG, kept=False)
            continue
        yield number, start, line if until is None else line[: until - start]


def objects_of_line(
    line: bytes, *, number: int, offset: int = 0, on_issue: OnIssue = ignore_issue
) -> Iterator[JsonObject]:
    """Yield the JSON objects of one line; any other text on it is passed to `on_issue`."""
    # The line as text without NUL characters, and a note on the repair, "" if there was none.
    kept = line.removeprefix(b"\xef\xbb\xbf") if number == 1 else line
    repair = ""
    if b"\0" in kept:
        kept = kept.replace(b"\0", b"")
        repair = "NUL characters were left out" if kept.strip() else "nothing but NUL characters"
    try:
        text = kept.decode("utf-8").strip()
    except UnicodeDecodeError:
        text, repair = kept.decode("utf-8", "replace").strip(), "invalid UTF-8 was replaced"
    if repair:
        on_issue(number, repair, kept=bool(text))
    if not text or text.startswith("//"):
        return
    if has_too_many_values(text):
        on_issue(number, too_many_values("the line"), kept=False)
        return
    at = index = 0
    while at < len(text):
        value, end, problem = _decode_at(text, at)
        if problem:
            resumed = _resume_at(text, at + 1)
            on_issue(
                number,
                f"the last line is cut off or {problem}" if resumed is None and not line.endswith(b"\n") else problem,
                kept=False,
            )
            at = len(text) if resumed is None else resumed
            continue
        whole = at == 0 and end == len(text)
        if isinstance(value, dict):
            raw = line.strip() if whole else text[at:end].encode("utf-8", "replace")
            yield JsonObject(number=number, index=index, offset=offset, value=value, raw=raw)
            index += 1
        else:
            on_issue(number, f"{_NAMES.get(type(value), 'null')} where an object belongs", kept=False)
        at = _after_space(text, end)


def _decode_at(text: str, at: int) -> tuple[Any, int, str]:
    """Return the JSON value at `at`, its end, and a problem if there is none."""
    try:
        value, end = _DECODER.raw_decode(text, at)
    except json.JSONDecodeError as error:
        return None, at, f"not valid JSON: {error.msg} at column {error.pos + 1}"
    except RecursionError:
        return None, at, "not readable: nested too deeply"
    except ValueError:
        return None, at, "not readable: a number with too many digits"
    return value, end, ""


def _resume_at(text: str, at: int) -> int | None:
    """Return the start of a whole object that extends to the end of the line: a second writer continued the line."""
    for attempt, match in enumerate(_FRESH_OBJECT.finditer(text, at)):
        if attempt == _MAX_RESUME_ATTEMPTS:
            return None
        _, end, problem = _decode_at(text, match.start())
        if not problem and _after_space(text, end) == len(text):
            return match.start()
    return None


def _after_space(text: str, at: int) -> int:
    match = _SPACE.match(text, at)
    return match.end() if match else at


def has_too_many_values(text: str) -> bool:
    """Return whether `text` contains more than `MAX_VALUES` JSON values, in linear time and before it is parsed.

    A parsed value can take 70 bytes of memory where its text takes two: `{},{},…` would cost an empty object for every
    three bytes.
    """
    # One of these precedes every value except the outermost; inside strings they separate nothing.
    if text.count(",") + text.count("[") + text.count("{") <= MAX_VALUES:
        return False
    separators = (match for match in _STRING_OR_SEPARATOR.finditer(text) if text[match.start()] != '"')
    return next(islice(separators, MAX_VALUES, None), None) is not None


def too_many_values(what: str) -> str:
    """Return the reason for not parsing `what`."""
    return f"{what} holds more than {MAX_VALUES:,} values: write one message or conversation a line"


def open_transcript(path: Path) -> BinaryIO:
    """Return the file's bytes, decompressed if it is a zstd file. Reading raises OSError, and TooLarge for an upload.

    Decompression is a stream with a bounded window and a bounded length, which counts with the other decoders of the
    upload. A truncated frame raises OSError at its end, like any other file that cannot be read.
    """
    file = path.open("rb")
    if file.read(len(ZSTD_START)) != ZSTD_START:
        file.seek(0)
        return file
    file.seek(0)
    return cast("BinaryIO", io.BufferedReader(_ZstdReader(file), BUFFER_BYTES))


class _ZstdReader(io.RawIOBase):
    """A zstd file of one or more frames as a stream of at most `MAX_DECOMPRESSED_BYTES`."""

    def __init__(self, file: BinaryIO) -> None:
        super().__init__()
        self._file = file
        window = zstandard.ZstdDecompressor(max_window_size=MAX_WINDOW_BYTES)
        self._stream = window.stream_reader(file, read_across_frames=True)
        self._read = 0
        self._is_whole = False

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: object) -> int:
        view = memoryview(buffer).cast("B")  # type: ignore[arg-type]
        try:
            count = self._stream.readinto(view)
        except zstandard.ZstdError as error:
            raise OSError(0, f"it is a damaged or unfinished zstd file ({error}): compress it again") from error
        if not count and len(view) and not self._is_whole:
            self._is_whole = _ends_with_a_frame(self._file)
            if not self._is_whole:
                raise OSError(0, "it is a zstd file that is cut off: compress it again")
        self._read += count
        if self._read > MAX_DECOMPRESSED_BYTES:
            raise OSError(0, f"it decompresses to more than {MAX_DECOMPRESSED_BYTES // 1024**3} GB: divide it")
        count_decoded_up_to(self._read, of=str(self._file.name))
        return count

    def close(self) -> None:
        self._file.close()
        super().close()


def _ends_with_a_frame(file: BinaryIO) -> bool:
    """Return whether the file's last zstd frame is complete: the stream reader takes the end of the file for its end.

    Source: RFC 8878, section 3.1.
    """
    size, at = file.seek(0, 2), 0
    while at < size:
        file.seek(at)
        head = file.read(_MOST_HEADER_BYTES)
        if head[1:4] == _SKIPPABLE_END and head[0] & 0xF0 == 0x50:
            at += 8 + int.from_bytes(head[4:8], "little")
            continue
        try:
            checksum_bytes = 4 if zstandard.get_frame_parameters(head).has_checksum else 0
            at = _end_of_blocks(file, at + zstandard.frame_header_size(head)) + checksum_bytes
        except (zstandard.ZstdError, EOFError):
            return False
    return at == size


def _end_of_blocks(file: BinaryIO, at: int) -> int:
    """Return the end of the frame's last block. Raises: EOFError."""
    while True:
        file.seek(at)
        header = file.read(3)
        if len(header) < 3:
            raise EOFError
        value = int.from_bytes(header, "little")
        is_repeated_byte = (value >> 1) & 3 == 1
        at += 3 + (1 if is_repeated_byte else value >> 3)
        if value & 1:
            return at
