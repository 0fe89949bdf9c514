"""Reads formats that are declared as data: where conversations, messages, speakers, texts and times lie.

A `Declaration` is one row of the tables in `chat_formats.py`, `library_formats.py` and `agent_formats.py`; its paths
are those of `places.py`. `DeclaredImporter` reads any of them: JSON documents of any size, JSON lines, tables of SQLite
databases and CSV.
"""

import csv
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from itertools import chain, islice, takewhile
from pathlib import Path, PurePath
from typing import Any

from convmemory.conversations.importers.base import CSV, HEAD_BYTES, Checked, FileReport, Reads, Source
from convmemory.conversations.importers.declaration import SUPERSEDED, Declaration, Run, Tables
from convmemory.conversations.importers.declared_content import is_message, readable_role
from convmemory.conversations.importers.declared_messages import EntryReader, PlacedEntry, name_of
from convmemory.conversations.importers.json_arrays import column_json, dumped, load_json, read_elements_at
from convmemory.conversations.importers.lines import (
    CHUNK_BYTES,
    MAX_LINE_BYTES,
    ignore_issue,
    objects_of_line,
    open_transcript,
    read_objects,
    unreadable,
)
from convmemory.conversations.importers.places import beginning_of, first, values_at
from convmemory.conversations.importers.values import (
    SHOWN_DATE,
    DayOrder,
    day_order,
    key_of,
    list_of,
    mapping_of,
    marker,
    seconds_of,
    text_of,
    time_of,
)
from convmemory.conversations.messages.drafts import ConversationDraft
from convmemory.conversations.messages.identity import MAX_ID_CHARS, is_global_id, named_by_opening, with_distinct_id
from convmemory.core.errors import InvalidInput, TooLarge

MAX_OPENING = 50  # entries that are searched for what describes the conversation
MAX_HELD_BYTES = 128 * 1024**2  # of messages that are sorted into conversations, and of tables that are joined
MAX_SIBLING_BYTES = 4 * 1024**2
FOLDERS_ABOVE = 5
# Of 16 letters and digits, or of a time with microseconds or random digits: no two conversations have such an id.
_RANDOM_ID = re.compile(
    r"(?=[a-zA-Z]{0,64}[0-9])(?=[0-9]{0,64}[a-zA-Z])[a-zA-Z0-9]{16,64}|\b\d{10}\.\d{6}\b|\b\d{8}_\d{6}_[0-9a-f]{4,12}\b"
)
_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", re.IGNORECASE)
SNIFFED_ENTRIES = 20

_Entry = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class DeclaredImporter:
    """Reads one declared format."""

    declaration: Declaration

    @property
    def name(self) -> str:
        return self.declaration.name

    @property
    def checked(self) -> Checked:
        return self.declaration.checked

    @property
    def reads(self) -> Reads:
        return Reads(suffixes=self.declaration.suffixes)

    def sniff(self, source: Source) -> int | None:
        """See `Importer.sniff`. Claims a file in whose beginning it can read a message."""
        of = self.declaration
        if source.is_sqlite != (of.tables is not None):
            return None
        if of.tables is not None:
            tables = of.tables
            needed = {
                tables.messages or tables.conversations: {tables.by, *(mark.decode() for mark in of.marks)} - {""}
            }
            if tables.conversations:
                needed.setdefault(tables.conversations, set()).add(tables.key)
            return (
                of.score
                if all(source.tables.get(table, frozenset()) >= columns for table, columns in needed.items())
                else None
            )
        if any(mark in source.head for mark in of.foreign):
            return None
        if not all(any(mark in source.head for mark in marks.split(b"|")) for marks in of.marks):
            return None
        return of.score if any(self._is_readable(entry) for entry in self._first_entries(source)) else None

    def _first_entries(self, source: Source) -> Iterator[_Entry]:
        if _is_csv(self.declaration, source):
            yield from islice(_csv_rows(source.head.decode("utf-8-sig", "replace").splitlines(keepends=True)), 2)
            return
        if not _is_document(source):
            yield from (item.value for item in source.head_objects[:SNIFFED_ENTRIES])
        if not source.head_objects or _is_document(source):
            beginning = beginning_of(source.head)
            for at in self.declaration.at:
                values = values_at(beginning, at)
                listed = values[0] if len(values) == 1 and isinstance(values[0], list) else values
                yield from map(mapping_of, listed[:SNIFFED_ENTRIES])
                if not listed and at and len(source.head) == HEAD_BYTES:
                    elements = read_elements_at(source.path, at.split("."), report=FileReport(path=""))
                    yield from (mapping_of(element.value) for element in islice(elements, SNIFFED_ENTRIES))

    def _is_readable(self, entry: _Entry) -> bool:
        of = self.declaration
        if of.entries == "messages":
            return is_message(of, entry)
        messages = [item for _, item, _ in islice(_placed(of, messages_of(of, entry), ""), SNIFFED_ENTRIES)]
        names = tuple(joined.by for joined in of.joined)  # of records elsewhere, which hold the text
        return any(
            is_message(of, message) or (readable_role(of, message) and first(message, names) is not None)
            for message in messages or [entry]
        )

    def parse(self, source: Source, report: FileReport) -> Iterator[ConversationDraft]:
        """See `Importer.parse`. Raises: also TooLarge."""
        reader = _Reader(self.declaration, source, report)
        entries = reader.entries()
        has_conversation = False
        for draft in reader.conversations(entries):
            has_conversation = True
            yield draft
        if not has_conversation and not report.skipped:
            report.note("a file without any message")


@dataclass(slots=True)
class _Reader:
    """One file that is being read."""

    of: Declaration
    source: Source
    report: FileReport
    _used: dict[str, str] = field(default_factory=dict)
    _held: int = 0
    _records: dict[str, dict[str, Any]] = field(default_factory=dict)
    _sibling: Mapping[str, Any] = field(default_factory=dict)
    _order: DayOrder = ""

    def entries(self) -> Iterator[PlacedEntry]:
        """Yield the entries of the file: position, value and source bytes."""
        # Read the file that describes the conversation, if it is there.
        if self.of.sibling:
            path = (self.source.path.parent / self.of.sibling).resolve()
            if path.is_file() and path.stat().st_size <= MAX_SIBLING_BYTES:
                try:
                    described = load_json(path)
                    rows = [row for row in map(mapping_of, list_of(described)) if self.source.path.stem in row.values()]
                    self._sibling = next(iter(rows), mapping_of(described))
                except (InvalidInput, TooLarge) as error:
                    self.report.note(f"{self.of.sibling} next to it was not read: {error}")
        if SHOWN_DATE.search(self.source.head):
            with open_transcript(self.source.path) as file:
                self._order = day_order(iter(partial(file.read, CHUNK_BYTES), b""))
        if self.of.tables is not None:
            return self._rows(self.of.tables)
        if _is_csv(self.of, self.source):
            return self._lines_of_csv()
        for joined in self.of.joined:
            records = self._records.setdefault(joined.into, {})
            for at in joined.at:
                steps = list(takewhile(lambda step: step not in ("*", "@json"), at.split(".")))
                deeper = ".".join(at.split(".")[len(steps) :])
                for element in read_elements_at(self.source.path, steps, report=FileReport(path="")):
                    for value in map(mapping_of, values_at(element.value, deeper)):
                        self._hold(len(json.dumps(value, default=str)))
                        records.setdefault(str(value.get(joined.key)), value)
        if not _is_document(self.source):
            lines = read_objects(self.source.path, on_issue=self.report.line_issue)
            return (
                (f"{item.number}.{item.index}" if item.index else str(item.number), item.value, item.raw)
                for item in lines
            )
        return self._elements()

    def _elements(self) -> Iterator[PlacedEntry]:
        for at in self.of.at:
            has_elements = False
            steps = [step for step in at.split(".") if step]
            for element in read_elements_at(self.source.path, steps, report=self.report):
                has_elements = True
                position = f"element {element.number}" if element.number else element.text[:40]
                if isinstance(element.value, Mapping):
                    yield (
                        position,
                        {"id": element.name, **element.value} if element.name else element.value,
                        element.raw,
                    )
                else:
                    self.report.skip(position, "neither a message nor a conversation")
            if has_elements:
                return

    def _rows(self, tables: Tables) -> Iterator[PlacedEntry]:
        with self.source.database.opened() as database:
            for table in filter(None, (tables.conversations, tables.messages)):
                if table not in database.tables:
                    raise InvalidInput(f"The database has no table {table}, in which {self.of.checked} keeps messages.")

            def rows(table: str, by: str, value: object, order: str) -> Iterator[dict[str, Any]]:
                names = ", ".join(f'"{name}"' for name in sorted(database.tables[table]) if name.isidentifier())
                parameters = [value] if by else []
                statement = "rows_of" if by else "rows"
                for row in database.rows(statement, parameters, columns=names, table=table, by=by, order=order):
                    values = {
                        name: marker("", len(item)) if isinstance(item, bytes | bytearray) else item
                        for name, item in row.items()
                    }
                    yield {**values, **{name: column_json(values.get(name)) for name in tables.json}}

            if not tables.conversations:
                for number, row in enumerate(rows(tables.messages, "", "", tables.order), 1):
                    yield f"row {number}", row, dumped(row)
                return
            for number, row in enumerate(rows(tables.conversations, "", "", tables.key), 1):
                if tables.messages:
                    row["messages"] = rows(tables.messages, tables.by, row[tables.key], tables.order)
                yield f"row {number}", row, b""

    def _lines_of_csv(self) -> Iterator[PlacedEntry]:
        try:
            with self.source.path.open(encoding="utf-8-sig", errors="replace", newline="") as file:
                for number, row in enumerate(_csv_rows(iter(partial(file.readline, MAX_LINE_BYTES), "")), 2):
                    yield f"row {number}", row, dumped(row)
        except (OSError, csv.Error) as error:
            if isinstance(error, OSError):
                raise unreadable(self.source.path, error) from error
            raise InvalidInput(f"The file is no readable CSV: {error}.") from error

    def _joined(self, entry: _Entry) -> _Entry:
        for joined in self.of.joined:
            reference = values_at(entry, joined.by) if "*" in joined.by else entry.get(joined.by)
            records = self._records[joined.into]
            if isinstance(reference, list):
                entry = {**entry, joined.into: [records.get(str(name), {}) for name in reference]}
            elif str(reference) in records:
                entry = {**entry, joined.into: records[str(reference)]}
        return entry

    def _hold(self, size: int) -> None:
        self._held += size
        if self._held > MAX_HELD_BYTES:
            raise TooLarge(
                f"More than {MAX_HELD_BYTES // 1024**2} MB of the file belong together and must be read at once: "
                "export it in parts."
            )

    def conversations(self, entries: Iterator[PlacedEntry]) -> Iterator[ConversationDraft]:
        """Yield the conversations of the entries."""
        head = next(entries, None)
        if head is None:
            return
        entries = chain([head], entries)
        if self.of.group:
            groups: dict[str, list[PlacedEntry]] = {}
            for position, entry, raw in entries:
                name = first(entry, self.of.group)
                self._hold(len(raw))
                groups.setdefault(str(name or "") if isinstance(name, str | int) else "", []).append(
                    (position, entry, raw)
                )
            for name, listed in groups.items():
                if any(is_message(self.of, entry) for _, entry, _ in listed):
                    yield from self._conversation("", self._joined(listed[0][1]), iter(listed), group=name)
                else:
                    for position, _, _ in listed:
                        self.report.skip(position, "no message of a known kind")
        elif self.of.entries == "messages":
            opening = list(islice(entries, MAX_OPENING))
            header: dict[str, Any] = {}
            for _, entry, _ in opening:
                if not self.of.header or first(entry, (self.of.header,)) is not None:
                    header = {**entry, **header}
            yield from self._conversation("", header, chain(opening, entries))
        elif messages_of(self.of, head[1]) is None and is_message(self.of, head[1]):
            yield from self._conversation("", {}, entries)  # messages without a conversation around them
        else:
            for position, entry, _ in entries:
                yield from self._listed_conversation(position, entry)

    def _listed_conversation(self, position: str, entry: _Entry) -> Iterator[ConversationDraft]:
        threads = entry.get(self.of.threads) if self.of.threads else None
        for number, thread in enumerate(list_of(threads), 1):
            if isinstance(thread, Mapping):
                yield from self._listed_conversation(f"{position}, thread {number}", {**thread, self.of.threads: None})
        listed = messages_of(self.of, entry)
        if listed is None and any(values_at(entry, at) for at in self.of.messages):
            self.report.note(f"{position}: a conversation without messages")
            return
        if listed is None:
            self.report.skip(position, "it holds no messages")
            return
        yield from self._conversation(f"{position}, ", self._joined(entry), _placed(self.of, listed, ""))

    def _conversation(
        self, prefix: str, value: _Entry, entries: Iterator[PlacedEntry], *, group: str = ""
    ) -> Iterator[ConversationDraft]:
        of = self.of
        header = {**value, "sibling": self._sibling}
        conversation_id = group or name_of(first(header, of.id)) or (_folder_id(self.source) if of.folder_id else "")
        opening = list(entries if of.by_time else islice(entries, MAX_OPENING))
        if of.by_time:
            opening.sort(key=lambda item: seconds_of(first(item[1], of.time), self._order))
        if not opening:
            self.report.note(f"{prefix}{conversation_id}: a conversation without messages")
            return
        created = None if group or of.by_time else time_of(first(header, of.created), self._order)
        times = (time_of(first(entry, of.time), self._order) for _, entry, _ in opening)
        reader = EntryReader(of, self.report, header, prefix, self._joined, self._order)
        draft = ConversationDraft(
            messages=reader.read(chain(opening, entries)),
            source=of.source or of.name,
            source_id=key_of(conversation_id, max_chars=MAX_ID_CHARS),
            has_weak_id=not (is_global_id(conversation_id) or _RANDOM_ID.search(conversation_id)),
            title=text_of(first(header, of.title)),
            agent=of.agent or of.source or of.name,
            project=text_of(first(header, of.project)).removeprefix("file://"),
            created_at=created or next((time for time in times if time), None),
            parent_source_id=key_of(name_of(first(header, of.started_by)), max_chars=MAX_ID_CHARS),
            archived=bool(first(header, of.archived)),
            unless_source=of.unless,
            is_fork=of.repeats_parent and first(header, of.started_by) is not None,
        )
        if not conversation_id:
            draft = named_by_opening(draft)
        yield with_distinct_id(draft, self._used) if draft.has_weak_id else draft


def messages_of(of: Declaration, entry: _Entry) -> object:
    """Return the messages of a conversation's entry, None if it has none."""
    if of.tables is not None and of.tables.messages:
        return entry.get("messages")
    if of.runs:
        return list(_in_runs(of.runs, entry)) or None
    listed = next((values for at in of.messages if "*" in at and (values := values_at(entry, at))), None)
    listed = first(entry, of.messages) if listed is None else listed
    if not of.forks or not isinstance(listed, list):
        return listed
    forked = chain.from_iterable(filter(lambda value: isinstance(value, list), values_at(entry, of.forks)))
    return [*listed, *({**mapping_of(message), SUPERSEDED: True} for message in forked)]


def _in_runs(runs: Iterable[Run], entry: _Entry) -> Iterator[_Entry]:
    """Yield the messages of lists that follow one another, each once; one that is also in a current list is current."""
    listed: list[tuple[Run, _Entry]] = []
    for run in runs:
        value = first(entry, (run.at,))
        for item in value if isinstance(value, list) else [value]:
            listed.append((run, item if isinstance(item, Mapping) else {"role": run.role, "content": item}))
    current = {_role_and_text(message) for run, message in listed if not run.superseded}
    seen: set[tuple[str, str]] = set()
    for _, message in listed:
        name = _role_and_text(message)
        if message.get("content") and name not in seen:
            seen.add(name)
            yield {**message, SUPERSEDED: name not in current}


def _role_and_text(message: _Entry) -> tuple[str, str]:
    return str(message.get("role")), str(message.get("content"))


def _placed(of: Declaration, listed: object, prefix: str) -> Iterator[PlacedEntry]:
    """Yield the messages of a list with their positions; of an object, itself or its values, named by their keys."""
    items: Iterable[tuple[object, object]] = ()
    if isinstance(listed, Mapping):
        items = [(1, listed)] if is_message(of, listed) else listed.items()
    elif isinstance(listed, Iterable) and not isinstance(listed, str):
        items = enumerate(listed, 1)
    for key, item in items:
        if isinstance(item, Mapping):
            value = {**item, "id": item.get("id", key)} if isinstance(key, str) else item
            yield f"{prefix}message {key}", value, b""


def _folder_id(source: Source) -> str:
    """Return the id in the name of the nearest folder that has one, as the report names it; else an empty string."""
    folders = reversed(PurePath(source.label).parts[-FOLDERS_ABOVE - 1 : -1])
    return next((match[0] for match in map(_UUID.search, folders) if match), "")


def _is_document(source: Source) -> bool:
    """Return whether the file is one JSON value: an array, or an object that its first line does not close."""
    head = source.head.lstrip(b"\xef\xbb\xbf \t\r\n\0")
    if not head.startswith(b"{"):
        return True
    line, line_break, rest = head.partition(b"\n")
    is_whole = any(True for _ in objects_of_line(line, number=0, on_issue=ignore_issue)) if line_break else False
    return not is_whole or (not rest.strip() and not source.path.name.lower().endswith(("jsonl", "ndjson")))


def _is_csv(of: Declaration, source: Source) -> bool:
    return of.is_csv or source.plain_name.endswith(CSV)


def csv_sample(path: Path, most: int) -> list[dict[str, Any]]:
    """Return the first rows of a CSV file."""
    with path.open(encoding="utf-8-sig", errors="replace", newline="") as file:
        return list(islice(_csv_rows(iter(partial(file.readline, MAX_LINE_BYTES), "")), most))


def _csv_rows(lines: Iterable[str]) -> Iterator[dict[str, Any]]:
    csv.field_size_limit(MAX_LINE_BYTES)
    heading, rest = next(iter(rows := iter(lines)), ""), rows
    delimiter = max(",;\t", key=heading.count)  # spreadsheets write semicolons where numbers have commas
    for row in csv.DictReader(chain([heading], rest), delimiter=delimiter):
        yield {str(name): value for name, value in row.items()}
