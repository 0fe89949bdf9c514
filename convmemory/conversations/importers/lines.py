"""Reads files of JSON lines one line at a time, even if they are damaged.

Several objects on one line, comments, blank lines, a cut-off last line, invalid UTF-8 and NUL characters are accepted;
unreadable text is passed to `on_issue` with its line number.
"""

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Protocol

from convmemory.conversations.importers.bounds import has_too_many_values, too_many_values
from convmemory.conversations.importers.compressed import open_transcript
from convmemory.core.errors import InvalidInput

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
    def place(self) -> tuple[int, int]:
        return (self.number, self.index)


def ignore_issue(number: int, reason: str, *, kept: bool) -> None:
    """Do nothing, for a second pass over a file whose issues have been reported."""


def read_objects(
    path: Path,
    *,
    on_issue: OnIssue = ignore_issue,
    until: int | None = None,
    passing_over: "re.Pattern[bytes] | None" = None,
) -> Iterator[JsonObject]:
    """Yield the objects of the file in order, up to byte `until`. Holds one line in memory.

    Lines in whose first `LINE_HEAD_BYTES` the pattern `passing_over` is found are neither parsed nor reported, whatever
    their length.

    Raises: InvalidInput if the file cannot be read.
    """
    try:
        with open_transcript(path) as file:
            for number, offset, line in _lines(file, on_issue, until, passing_over):
                yield from objects_of_line(line, number=number, offset=offset, on_issue=on_issue)
    except OSError as error:
        raise unreadable(path, error) from error


def read_objects_at(path: Path, places: Iterable[tuple[int, int, int]], *, until: int) -> Iterator[JsonObject]:
    """Yield the objects at these (offset, line number, index), which a first pass has found."""
    try:
        with path.open("rb") as file:
            for offset, number, index in places:
                file.seek(offset)
                line = file.readline(min(until - offset, MAX_LINE_BYTES))
                for found in objects_of_line(line, number=number, offset=offset):
                    if found.index == index:
                        yield found
    except OSError as error:
        raise unreadable(path, error) from error


def unreadable(path: Path, error: OSError) -> InvalidInput:
    """Return the error for a failure of the file system."""
    return InvalidInput(f"{path.name} cannot be read: {error.strerror or error}.")


def _lines(
    file: BinaryIO, on_issue: OnIssue, until: int | None, passing_over: "re.Pattern[bytes] | None"
) -> Iterator[tuple[int, int, bytes]]:
    offset = number = 0
    while until is None or offset < until:
        line = file.readline(MAX_LINE_BYTES + 1)
        if not line:
            return
        number += 1
        start, offset = offset, offset + len(line)
        passed_over = passing_over is not None and passing_over.search(line, 0, LINE_HEAD_BYTES) is not None
        if len(line) > MAX_LINE_BYTES:
            offset += _skip_rest_of_line(file, line)
        if passed_over:
            continue
        if len(line) > MAX_LINE_BYTES:
            on_issue(number, LINE_TOO_LONG, kept=False)
            continue
        yield number, start, line if until is None else line[: until - start]


def _skip_rest_of_line(file: BinaryIO, line: bytes) -> int:
    skipped = 0
    while line and not line.endswith(b"\n"):
        line = file.readline(CHUNK_BYTES)
        skipped += len(line)
    return skipped


def objects_of_line(
    line: bytes, *, number: int, offset: int = 0, on_issue: OnIssue = ignore_issue
) -> Iterator[JsonObject]:
    """Yield the JSON objects of one line; any other text on it is passed to `on_issue`."""
    text, repair = _decoded(line.removeprefix(b"\xef\xbb\xbf") if number == 1 else line)
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
            on_issue(number, _cut_off_or(problem, line, resumed), kept=False)
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


def _decoded(line: bytes) -> tuple[str, str]:
    """Return the line as text without NUL characters, and a note on the repair, "" if there was none."""
    repair = ""
    if b"\0" in line:
        line = line.replace(b"\0", b"")
        repair = "NUL characters were left out" if line.strip() else "nothing but NUL characters"
    try:
        return line.decode("utf-8").strip(), repair
    except UnicodeDecodeError:
        return line.decode("utf-8", "replace").strip(), "invalid UTF-8 was replaced"


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


def _cut_off_or(problem: str, line: bytes, resumed: int | None) -> str:
    if resumed is None and not line.endswith(b"\n"):
        return f"the last line is cut off or {problem}"
    return problem


def _after_space(text: str, at: int) -> int:
    match = _SPACE.match(text, at)
    return match.end() if match else at
