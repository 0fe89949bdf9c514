"""Reads a large JSON document element by element: an array, or an object that contains it under a known name.

Holds one element in memory, and some text around it. A broken element, or one that is cut off at the end, is reported
and skipped; the others are read.
"""

import codecs
import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, BinaryIO

from convmemory.conversations.importers.base import FileReport
from convmemory.conversations.importers.lines import (
    MAX_VALUES,
    has_too_many_values,
    open_transcript,
    too_many_values,
    unreadable,
)
from convmemory.conversations.importers.values import list_of, value_without_payloads
from convmemory.core.errors import InvalidInput, TooLarge

MAX_ELEMENT_CHARS = 64 * 1024**2  # an element is in memory as a whole
CHUNK_BYTES = 1024**2
HEAD_CHARS = 1024**2  # within which an object must name its array

MAX_DOCUMENT_BYTES = 64 * 1024 * 1024

MAX_BROKEN = 1_000  # elements; each costs a scan of the text around it

_DECODER = json.JSONDecoder(strict=False)
_SPACE = re.compile(r"[\s\0]*+")
_BETWEEN = re.compile(r"[\s\0,]*+")
_SCALAR = re.compile(r"[^\s,\[\]{}]*+")
_MARK = re.compile(r'"(?:[^"\\]++|\\.)*+("?)|[\[\]{}]', re.DOTALL)
_TOO_MANY = f"it holds more than {MAX_VALUES:,} values, which is more than one conversation can have"
_TOO_LONG = f"it is longer than {MAX_ELEMENT_CHARS // 1024**2} MB: export it without the files that are embedded in it"


@dataclass(frozen=True, slots=True)
class ArrayElement:
    """One element: its number from 1, its value, and its source text; `name` if it is a member of an object."""

    number: int
    value: Any
    text: str
    name: str = ""

    @property
    def raw(self) -> bytes:
        return self.text.encode("utf-8", "replace")


def read_elements(
    path: Path, *, report: FileReport, names: Collection[str] = (), after: str = ""
) -> Iterator[ArrayElement]:
    """Yield the elements of the document's array, or the one object that the document is.

    If an object has an array under one of `names`, its elements are read. The document begins after the text `after`,
    which is in the first megabyte. Raises: InvalidInput.
    """
    try:
        with open_transcript(path) as file:
            text = _Text(file)
            if after:
                text.skip_past(after)
            yield from _Document(text, report).elements(frozenset(names))
    except OSError as error:
        raise unreadable(path, error) from error


def read_elements_at(path: Path, steps: Sequence[str], *, report: FileReport) -> Iterator[ArrayElement]:
    """Yield the elements of the array at the end of nested member names, or the one object there.

    A name that ends in `*` matches all members with that beginning, each of which is an element. Members before the
    named ones are skipped without being held in memory. Raises: InvalidInput.
    """
    try:
        with open_transcript(path) as file:
            yield from _Document(_Text(file), report).elements_at(steps)
    except OSError as error:
        raise unreadable(path, error) from error


class _Text:
    """The file's text from the reading position on, as much of it as was needed so far."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._decoder = codecs.getincrementaldecoder("utf-8-sig")("replace")
        self.text = ""
        self.at = 0
        self.ended = False
        self.has_too_many_values = False

    @property
    def cut_off(self) -> str:
        """Return what is said of an element in which the file ends."""
        return f"the file ends here, after {self._file.tell():,} bytes: export it again to get the rest"

    def more(self) -> bool:
        """Read on, doubling the remaining text, and drop the text already read; False at the end of the file."""
        if self.ended:
            return False
        left = self.text[self.at :]
        # Doubling keeps the copying linear in the length of an element.
        data = self._file.read(max(CHUNK_BYTES, len(left)))
        self.ended = not data
        self.text, self.at = left + self._decoder.decode(data, final=self.ended), 0
        self.has_too_many_values = has_too_many_values(self.text)
        return not self.ended

    def skip(self, pattern: "re.Pattern[str]") -> str:
        """Skip the text that the pattern matches; return the character there, or "" at the end."""
        while True:
            match = pattern.match(self.text, self.at)
            self.at = match.end() if match else self.at
            if self.at < len(self.text):
                return self.text[self.at]
            if not self.more():
                return ""

    def skip_past(self, mark: str) -> None:
        """Skip the text up to the end of this mark, which is in the first `HEAD_CHARS`. Raises: InvalidInput."""
        while (at := self.text.find(mark)) < 0 and len(self.text) < HEAD_CHARS and self.more():
            pass
        if at < 0:
            raise InvalidInput(f"There is no {mark!r} at the beginning of the file.")
        self.at = at + len(mark)

    def end_of_value(self) -> int | None:
        """Return the end of the value at `at`, by its brackets alone; None if it does not end, or is too long."""
        depth, position = 0, self.at
        while True:
            for match in _MARK.finditer(self.text, position):
                mark = match[0]
                if mark in "[{":
                    depth += 1
                elif mark in "]}":
                    depth -= 1
                elif not match[1]:
                    break  # a string that continues in the next chunk
                position = match.end()
                if depth <= 0:
                    return position
            offset = position - self.at
            if len(self.text) - self.at > MAX_ELEMENT_CHARS or not self.more():
                return None
            position = self.at + offset

    def skip_value(self) -> bool:
        """Move behind the value that begins here without holding it in memory; False if the file ends before."""
        first = self.skip(_SPACE)
        if first not in ('"', "[", "{"):
            return self.skip(_SCALAR) != ""
        depth = 0
        while True:
            for match in _MARK.finditer(self.text, self.at):
                mark = match[0]
                if mark in "[{":
                    depth += 1
                elif mark in "]}":
                    depth -= 1
                elif not match[1]:
                    self.at = match.start()
                    break  # a string that continues in the next chunk
                self.at = match.end()
                if depth <= 0:
                    return True
            else:
                self.at = max(self.at, len(self.text) - 1)  # a string that begins with the last character
            if len(self.text) - self.at > MAX_ELEMENT_CHARS or not self.more():
                return False


class _Document:
    def __init__(self, text: _Text, report: FileReport) -> None:
        self._text = text
        self._report = report
        self._broken = 0

    def elements(self, names: frozenset[str]) -> Iterator[ArrayElement]:
        first = self._text.skip(_SPACE)
        if first == "[" or (first == "{" and names and self._enter_member(names)):
            yield from self._array()
        elif first == "{":
            element = self._value(1, "the document")
            if element:
                yield element
        elif first:
            raise InvalidInput("The file is no JSON document: it begins with neither [ nor {.")

    def elements_at(self, steps: Sequence[str]) -> Iterator[ArrayElement]:
        first = self._text.skip(_SPACE)
        if not steps:
            if first == "[":
                yield from self._array()
            elif first and (element := self._value(1, "the document")):
                yield element
            return
        number = 0
        for name in self._members() if first == "{" else ():
            if name == steps[0]:
                yield from self.elements_at(steps[1:])
                return
            if steps[0].endswith("*") and name.startswith(steps[0][:-1]):
                number += 1
                if element := self._value(number, name[:80]):
                    yield replace(element, name=name)
            elif not self._text.skip_value():
                break
        if not self._text.skip(_SPACE):
            self._skip_rest(number)

    def _members(self) -> Iterator[str]:
        """Yield the names of the object that begins here; the caller moves behind each value."""
        text = self._text
        text.at += 1
        while text.skip(_BETWEEN) == '"':
            name = self._value(0, "the name of a member")
            if name is None or text.skip(_SPACE) != ":":
                return
            text.at += 1
            text.skip(_SPACE)
            yield name.value

    def _enter_member(self, names: frozenset[str]) -> bool:
        """Move to the array under one of the names, if the object's first bytes contain one; else stay."""
        while len(self._text.text) - self._text.at < HEAD_CHARS and self._text.more():
            pass
        text, at = self._text.text, self._text.at + 1
        while (member := _member(text, at)) is not None:
            name, start = member
            if name in names and text.startswith("[", start):
                self._text.at = start
                return True
            try:
                _, at = _DECODER.raw_decode(text, start) if not self._text.has_too_many_values else (None, len(text))
            except (ValueError, RecursionError):
                return False
        return False

    def _array(self) -> Iterator[ArrayElement]:
        self._text.at += 1
        number = 0
        while (char := self._text.skip(_BETWEEN)) not in ("", "]"):
            number += 1
            if char in ":}":
                self._report.skip(f"element {number}", f"{char!r} where a value belongs")
                self._text.at += 1
                continue
            element = self._value(number, f"element {number}")
            if element:
                yield element
            elif self._broken > MAX_BROKEN:
                raise InvalidInput(f"More than {MAX_BROKEN} elements of the file are no JSON: export it again.")
        if not char:
            self._skip_rest(number)

    def _skip_rest(self, number: int) -> None:
        """Report that the file ends too early, unless that was reported of the last element."""
        reason = self._text.cut_off
        if all(issue.reason != reason for issue in self._report.issues[-1:]):
            self._report.skip(f"after element {number}", reason)

    def _value(self, number: int, position: str) -> ArrayElement | None:
        """Return the value that begins here, or report its error."""
        text = self._text
        while not text.has_too_many_values:
            problem = ""
            try:
                value, end = _DECODER.raw_decode(text.text, text.at)
            except (ValueError, RecursionError) as error:
                problem = f"not readable JSON: {error}"
                if isinstance(error, json.JSONDecodeError) and self._may_continue(error):
                    continue
                break
            else:
                if end == len(text.text) and text.text[-1] not in '"]}' and text.more():
                    continue  # a number may continue in the next chunk
                source, text.at = text.text[text.at : end], end
                return ArrayElement(number, value, source)
        else:
            problem = ""
        return self._by_its_brackets(number, position, problem)

    def _may_continue(self, error: json.JSONDecodeError) -> bool:
        """Return whether the error can come from the end of the text, and more could be read."""
        text = self._text
        # An error in the last characters can be a token that the end of the chunk cuts.
        near_end = error.msg.startswith("Unterminated") or error.pos >= len(text.text) - 16
        return near_end and len(text.text) - text.at <= MAX_ELEMENT_CHARS and text.more()

    def _by_its_brackets(self, number: int, position: str, problem: str) -> ArrayElement | None:
        """Find the value's end without parsing it, and parse it alone if only the text around it was too large."""
        text = self._text
        end = text.end_of_value()
        if end is None:
            too_long = len(text.text) - text.at > MAX_ELEMENT_CHARS
            self._report.skip(position, _TOO_LONG if too_long else text.cut_off)
            self._text.at = len(self._text.text)
            while self._text.more():
                self._text.at = len(self._text.text)
            return None
        source, text.at = text.text[text.at : end], end
        if not problem:
            if has_too_many_values(source):
                problem = _TOO_MANY
            else:
                try:
                    return ArrayElement(number, json.loads(source, strict=False), source)
                except (ValueError, RecursionError) as error:
                    problem = f"not readable JSON: {error}"
        self._report.skip(position, problem)
        self._broken += 1
        return None


def _member(text: str, at: int) -> tuple[str, int] | None:
    """Return the next member's name and the start of its value; None without one."""
    match = _BETWEEN.match(text, at)
    at = match.end() if match else at
    if not text.startswith('"', at):
        return None
    try:
        name, at = _DECODER.raw_decode(text, at)
    except ValueError:
        return None
    match = _SPACE.match(text, at)
    at = match.end() if match else at
    if not text.startswith(":", at):
        return None
    match = _SPACE.match(text, at + 1)
    return name, match.end() if match else at + 1


def load_json(path: Path, *, max_bytes: int = MAX_DOCUMENT_BYTES) -> Any:
    """Return the file's value. Raises: TooLarge, InvalidInput with the position of the error."""
    try:
        size = path.stat().st_size
        if size > max_bytes:
            raise TooLarge(
                f"A JSON document of {size // 1024**2} MB is read only up to {max_bytes // 1024**2} MB: divide it, or "
                "write it as JSON lines, one message or conversation a line."
            )
        text = path.read_bytes().decode("utf-8-sig", "replace")
    except OSError as error:
        raise unreadable(path, error) from error
    if has_too_many_values(text):
        raise TooLarge(f"{too_many_values('The JSON document')}.")
    return parse_json(text)


def parse_json(text: str) -> Any:
    """Return the value of a text whose size has been checked. Raises: InvalidInput."""
    try:
        return json.loads(text, strict=False)
    except json.JSONDecodeError as error:
        if error.msg.startswith("Unterminated") or not text[error.pos :].strip():
            line, column = text.count("\n") + 1, len(text) - text.rfind("\n") - 1
            reason = f"The JSON is cut off: it ends in the middle of a value, at line {line:,}, column {column:,}."
        else:
            reason = f"Not valid JSON: {error.msg} at line {error.lineno:,}, column {error.colno:,}."
        raise InvalidInput(f"{reason} Export or copy it again.") from error
    except (ValueError, RecursionError) as error:
        raise InvalidInput(f"Not readable JSON: {error}.") from error


def column_json(text: object) -> Any:
    """Return the JSON value in a column of a database, None if it is not readable."""
    if not isinstance(text, str) or has_too_many_values(text):
        return None
    try:
        return parse_json(text)
    except InvalidInput:
        return None


def objects_in(value: object, what: str, report: FileReport) -> Iterator[Mapping[str, Any]]:
    """Yield the objects of a list; other items are reported as skipped."""
    for number, item in enumerate(list_of(value), 1):
        if isinstance(item, Mapping):
            yield item
        else:
            report.skip(f"{what} {number}", "not an object")


def json_bytes(value: object) -> bytes:
    """Return the value as JSON for storage."""
    return json.dumps(value, ensure_ascii=False).encode("utf-8", "replace")


def dumped(value: object) -> bytes:
    """Return the value as JSON for storage, without payloads and levels that are nested too deeply."""
    return json_bytes(value_without_payloads(value))
