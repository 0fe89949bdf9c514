"""What this product exports: the archive of a user, as a zip file or unpacked, and JSON of conversations.

Reads the tables of conversations, messages, raw sources, marks and events in parallel, because each is in the order of
the conversations; only one row of each is in memory. The other tables are for people and other programs.
docs/export-format.md describes the format.
"""

import json
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any

from convmemory.conversations.importers.base import Checked, FileReport, Reads, Source
from convmemory.conversations.importers.json_arrays import read_elements
from convmemory.conversations.importers.lines import MAX_VALUES, has_too_many_values, unreadable
from convmemory.conversations.importers.values import list_of, mapping_of, value_without_payloads
from convmemory.conversations.messages.drafts import ConversationDraft, EventDraft, MessageDraft
from convmemory.conversations.messages.parts import (
    ROLES,
    AttachmentPart,
    Part,
    ToolCallPart,
    part_from_json,
    unpack_lines,
)
from convmemory.core.errors import InvalidInput
from convmemory.core.files.decoding import count_decoded
from convmemory.core.marks import mark_of
from convmemory.core.numbers import MAX_BIGINT

FORMAT = "convmemory-export"
FORMAT_VERSION = 1

JSON_FORMAT = "convmemory-conversations"

MANIFEST = "manifest.json"
MAX_MANIFEST_BYTES = 1024 * 1024
MAX_ROW_BYTES = 64 * 1024 * 1024  # raw sources are in hexadecimal digits
MIN_YEAR, MAX_YEAR = 1900, 2200  # earlier versions stored any time that the API was sent
DIVIDE = "take its row out of the archive and import that conversation from its own file."

Row = Mapping[str, Any]
_KINDS: Mapping[str, type] = {"input": dict, "is_error": bool, "size_bytes": int}  # of a part's fields that are no text
WRONG = (KeyError, TypeError, ValueError, AttributeError, OverflowError, InvalidInput)


def table_file(table: str) -> str:
    """Return the path of a table's rows in the archive."""
    return f"tables/{table}.jsonl"


@dataclass(frozen=True, slots=True)
class ExportImporter:
    """Reads an archive of this product, from this or another installation."""

    name: str = "convmemory"
    checked: Checked = Checked("convmemory's archive", str(FORMAT_VERSION))
    reads: Reads = Reads(suffixes=frozenset({".zip"}), folders=True)

    def sniff(self, source: Source) -> int | None:
        """See `Importer.sniff`."""
        if source.is_folder:
            if not (source.path / MANIFEST).is_file():
                return None
        elif not source.head.startswith(b"PK"):
            return None
        try:
            with _opened(source) as archive:
                return 100 if archive.manifest().get("format") == FORMAT else None
        except InvalidInput:
            return None

    def parse(self, source: Source, report: FileReport) -> Iterator[ConversationDraft]:
        """See `Importer.parse`."""
        with _opened(source) as archive:
            version = archive.manifest().get("version")
            if version != FORMAT_VERSION:
                raise InvalidInput(
                    f"The archive has format version {version!r}, this installation reads {FORMAT_VERSION}."
                )
            messages = _Grouped(_with_sources(archive))
            events = _Grouped((row, b"") for row in archive.rows("conversations_event"))
            for row in archive.rows("conversations_conversation"):
                if row.get("trashed_at"):
                    report.skip(f"conversation {row.get('id')}", "it was in the trash of its owner")
                    continue
                try:
                    number = int(row["id"])
                    placed = ((f"message {item.get('id')}", item, raw) for item, raw in messages.of(number))
                    yield conversation_of_row(
                        row, messages=messages_of_rows(placed, report), events=_events(events.of(number), report)
                    )
                except WRONG as error:
                    report.skip(f"conversation {row.get('id')}", reason_of(error))


class _Archive:
    """The files of a zip or of a folder, as streams of rows."""

    def __init__(self, source: Source, stack: ExitStack) -> None:
        self._path = source.path
        self._zip: zipfile.ZipFile | None = None
        if not source.is_folder:
            with _readable(self._path):
                self._zip = stack.enter_context(zipfile.ZipFile(source.path))

    def manifest(self) -> Row:
        with _readable(self._path), self._file(MANIFEST) as file:
            return _loaded(file.read(MAX_MANIFEST_BYTES), MANIFEST)

    def rows(self, table: str) -> Iterator[Row]:
        """Yield the rows of a table in order; none if the archive has no such table."""
        name = table_file(table)
        # A dictionary, where `namelist()` would be searched from its beginning.
        if not (name in self._zip.NameToInfo if self._zip else (self._path / name).is_file()):
            return
        with _readable(self._path), self._file(name) as file:
            number = 0
            while line := file.readline(MAX_ROW_BYTES + 1):
                number += 1
                if self._zip:
                    count_decoded(len(line))
                yield _loaded(line, f"{name}:{number}")

    def _file(self, name: str) -> IO[bytes]:
        return self._zip.open(name) if self._zip else (self._path / name).open("rb")


@contextmanager
def _opened(source: Source) -> Iterator[_Archive]:
    with ExitStack() as stack:
        yield _Archive(source, stack)


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    """Convert errors of the file system and of the zip to InvalidInput."""
    try:
        yield
    except OSError as error:
        raise unreadable(path, error) from error
    except (zipfile.BadZipFile, zlib.error, EOFError, KeyError, NotImplementedError, RuntimeError) as error:
        raise InvalidInput(f"{path.name} is a damaged archive: {error}. Export it again.") from error


class _Grouped:
    """Rows in the order of their conversations, yielded conversation by conversation."""

    def __init__(self, rows: Iterable[tuple[Row, bytes]]) -> None:
        self._rows = iter(rows)
        self._next = next(self._rows, None)

    def of(self, conversation_id: int) -> Iterator[tuple[Row, bytes]]:
        """Yield the rows of this conversation; unread rows of earlier ones are skipped."""
        while self._next is not None and int(self._next[0]["conversation_id"]) <= conversation_id:
            current, self._next = self._next, next(self._rows, None)
            if int(current[0]["conversation_id"]) == conversation_id:
                yield current


def _with_sources(archive: _Archive) -> Iterator[tuple[Row, bytes]]:
    """Yield messages with their raw sources and marks; most messages have no row in one of these tables."""
    sources, marks = archive.rows("conversations_messagesource"), archive.rows("conversations_turnmark")
    source, mark = next(sources, None), next(marks, None)
    for row in archive.rows("conversations_message"):
        raw = b""
        if source is not None and source["message_id"] == row["id"]:
            # PostgreSQL writes bytes in JSON as `\x` and hexadecimal digits.
            raw, source = unpack_lines(bytes.fromhex(source["data"].removeprefix("\\x"))) or b"", next(sources, None)
        if mark is not None and mark["message_id"] == row["id"]:
            yield {**row, "mark": mark}, raw
            mark = next(marks, None)
        else:
            yield row, raw


def conversation_of_row(
    row: Row, *, messages: Iterable[MessageDraft], events: Iterable[EventDraft]
) -> ConversationDraft:
    """Return the conversation of a row in an export. Raises: one of `WRONG`."""
    return ConversationDraft(
        messages=messages,
        events=events,
        source=str(row["source"]),
        source_id=str(row["source_id"]) or f"export:{int(row['id'])}:{row['created_at']}",
        title=str(row["title"]),
        agent=str(row["agent"]),
        project=str(row["project"]),
        repository=str(row.get("repository", "")),
        worktree=str(row.get("worktree", "")),
        created_at=_time(row["created_at"]),
        updated_at=_time(row["updated_at"]),
        archived_at=_time(row["archived_at"]),
        parent_source_id=str(row["parent_source_id"]),
    )


def messages_of_rows(rows: Iterable[tuple[str, Row, bytes]], report: FileReport) -> Iterator[MessageDraft]:
    """Yield the messages of rows in an export, which come with positions and sources; report invalid ones."""
    for position, row, raw in rows:
        try:
            yield message_of_row(row, raw)
        except WRONG as error:
            report.skip(position, reason_of(error))


def message_of_row(row: Row, raw: bytes) -> MessageDraft:
    """Return the message of a row in an export, or of one that the API shows. Raises: one of `WRONG`."""
    if row["role"] not in ROLES:
        raise ValueError(f"unknown role {row['role']!r}")
    if not isinstance(row["parts"], list):
        raise TypeError("its parts are no list")
    mark = mapping_of(row.get("mark"))
    return MessageDraft(
        role=row["role"],
        parts=tuple(map(_part_of, row["parts"])),
        name=str(row.get("name") or ""),
        created_at=_time(row.get("created_at")),
        model=str(row.get("model") or ""),
        source_key=str(row.get("source_key") or "") or f"position:{row.get('position')}",
        injected=row["role"] == "user" and not row.get("is_real_user", True),
        superseded=row.get("superseded") is True,
        raw=raw,
        mark=mark_of(str(mark.get("kind", "")), str(mark.get("note", ""))),
    )


def _part_of(value: Row) -> Part:
    """Return the part whose fields have the types of stored ones. Raises: one of `WRONG`."""
    part = part_from_json(value)
    for name in part.__slots__:
        kind = _KINDS.get(name, str)
        if not isinstance(getattr(part, name), kind):
            raise TypeError(f"the {name} of a {part.type} is no {kind.__name__}")
    if isinstance(part, AttachmentPart) and not 0 <= part.size_bytes <= MAX_BIGINT:
        raise ValueError("the size_bytes of an attachment are out of range")
    if isinstance(part, ToolCallPart):
        return replace(part, input=value_without_payloads(part.input))  # to a bounded depth
    return part


def _events(rows: Iterable[tuple[Row, bytes]], report: FileReport) -> Iterator[EventDraft]:
    for row, _ in rows:
        try:
            yield EventDraft(
                line_number=int(row["line_number"]),
                type=str(row["type"]),
                level=str(row["level"]),
                tool=str(row["tool"]),
                turn_number=row["turn_number"],
                created_at=_time(row["created_at"]),
                payload=dict(row["payload"]),
            )
        except WRONG as error:
            report.skip(f"event {row.get('id')}", reason_of(error))


def _loaded(line: bytes, position: str) -> Row:
    if len(line) > MAX_ROW_BYTES:
        raise InvalidInput(f"{position} is longer than {MAX_ROW_BYTES // 1024**2} MB: {DIVIDE}")
    try:
        text = line.decode()
        if has_too_many_values(text):
            raise InvalidInput(f"{position} holds more than {MAX_VALUES:,} values: {DIVIDE}")
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidInput(f"{position} cannot be read: {error}. Export the archive again.") from error
    if not isinstance(value, dict):
        raise InvalidInput(f"{position} is no JSON object. Export the archive again.")
    return value


def _time(value: str | None) -> datetime | None:
    """Return the time; None for one that no zone can show. Raises: one of `WRONG`."""
    if value is None:
        return None
    time = datetime.fromisoformat(value)
    time = time if time.tzinfo else time.replace(tzinfo=UTC)
    return time.astimezone(UTC) if MIN_YEAR < time.year < MAX_YEAR else None


def reason_of(error: Exception) -> str:
    """Return the report's reason for an invalid row."""
    return f"{type(error).__name__}: {error}"


@dataclass(frozen=True, slots=True)
class OwnJsonImporter:
    """Reads the JSON that this or another installation exports (`exports/json_file.py`).

    It is an array of conversations, read one at a time; a long one has several entries.
    """

    name: str = "convmemory-json"
    checked: Checked = Checked("convmemory's JSON", str(FORMAT_VERSION))
    reads: Reads = Reads(suffixes=frozenset({".json"}))

    def sniff(self, source: Source) -> int | None:
        """See `Importer.sniff`."""
        start = source.head[:200]
        return 100 if f'"{JSON_FORMAT}"'.encode() in start else None

    def parse(self, source: Source, report: FileReport) -> Iterator[ConversationDraft]:
        """See `Importer.parse`."""
        for element in read_elements(source.path, report=report, names=("conversations",)):
            row = mapping_of(element.value)
            try:
                yield conversation_of_row(row, messages=_json_messages(row, element.number, report), events=())
            except WRONG as error:
                report.skip(f"conversation {element.number}", reason_of(error))


def _json_messages(conversation: Row, number: int, report: FileReport) -> Iterator[MessageDraft]:
    listed = enumerate(list_of(conversation.get("messages")), 1)
    yield from messages_of_rows(((f"conversation {number}, message {at}", row, b"") for at, row in listed), report)
