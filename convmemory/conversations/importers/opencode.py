"""Sessions of OpenCode: its databases, the output of `opencode export`, and the folder `storage` of versions before
1.2.

In the folder each session, message and part is a file of its own. Exports can be redacted, so that several messages
share one id: such messages are named by their position.

Source: anomalyco/opencode `packages/opencode/src/storage/storage.ts`, `cli/cmd/export.ts`.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from convmemory.conversations.drafts import ConversationDraft, MessageDraft
from convmemory.conversations.importers.base import Checked, FileReport, Reads, Source
from convmemory.conversations.importers.opencode_database import database_sessions, is_opencode_database
from convmemory.conversations.importers.opencode_parts import is_child, stored_messages
from convmemory.conversations.importers.values import key_of, mapping_of, text_of, time_of
from convmemory.conversations.importers.whole_json import load_json, objects_in
from convmemory.core.errors import ConvMemoryError

MAX_FILE_BYTES = 16 * 1024**2
MAX_FILES = 200_000  # a folder with a file per part can have very many


@dataclass(frozen=True, slots=True)
class OpenCodeImporter:
    """Reads one database or export, or a folder of sessions."""

    name: str = "opencode"
    checked: Checked = Checked("OpenCode", "2.0")
    reads: Reads = Reads(suffixes=frozenset({".db", ".json"}), folders=True)

    def sniff(self, source: Source) -> int | None:
        """See `Importer.sniff`."""
        if source.is_folder:
            return 90 if all((source.path / name).is_dir() for name in ("session", "message", "part")) else None
        if source.is_sqlite:
            return 90 if is_opencode_database(source) else None
        head = source.head
        named = b'"sessionID"' in head or b'"projectID"' in head or b'"modelID"' in head
        return 85 if b'"info"' in head and b'"messages"' in head and named else None

    def parse(self, source: Source, report: FileReport) -> Iterator[ConversationDraft]:
        """See `Importer.parse`."""
        if source.is_folder:
            yield from _tree(source.path, report)
            return
        if source.is_sqlite:
            yield from database_sessions(source, report)
            return
        value = mapping_of(load_json(source.path))
        messages = list(objects_in(value.get("messages"), "message", report))
        entries = [(mapping_of(item.get("info")), objects_in(item.get("parts"), "part", report)) for item in messages]
        yield _draft(mapping_of(value.get("info")), _numbered(entries, report), fallback=source.path.stem)


_Entry = tuple[Mapping[str, Any], Iterator[Mapping[str, Any]]]


def _numbered(entries: list[_Entry], report: FileReport) -> Iterator[MessageDraft]:
    """Yield the messages, each with a unique key."""
    ids = [text_of(info.get("id")) for info, _ in entries]
    counts = Counter(ids)
    for number, (id, (info, parts)) in enumerate(zip(ids, entries, strict=True), 1):
        key = id if id and counts[id] == 1 else f"message:{number}"
        yield from stored_messages(info, parts, key=key, report=report)


def _draft(info: Mapping[str, Any], messages: Iterator[MessageDraft], *, fallback: str) -> ConversationDraft:
    time = mapping_of(info.get("time"))
    parent = info.get("parentID")
    return ConversationDraft(
        messages=messages,
        source="opencode",
        source_id=key_of(text_of(info.get("id")) or fallback, max_chars=290),
        title=text_of(info.get("title")),
        agent="opencode",
        project=text_of(info.get("directory")),
        created_at=time_of(time.get("created")),
        parent_source_id=key_of(text_of(parent), max_chars=290) if is_child(parent) else "",
        archived=time_of(time.get("archived")) is not None,
    )


def _tree(folder: Path, report: FileReport) -> Iterator[ConversationDraft]:
    """Yield the sessions of a folder, parents before the sessions that they started."""
    infos = [info for path in _files(folder / "session") if (info := _read(path, folder, report))]
    parts = _parts_by_message(folder / "part")
    for info in sorted(infos, key=lambda info: is_child(info.get("parentID"))):
        paths = _files(folder / "message" / Path(text_of(info.get("id"))).name)
        messages = [message for path in paths if (message := _read(path, folder, report))]
        messages.sort(key=_made)
        entries = [(message, _read_all(parts.get(_id(message), []), folder, report)) for message in messages]
        yield _draft(info, _numbered(entries, report), fallback="session")


def _id(value: Mapping[str, Any]) -> str:
    return text_of(value.get("id"))


def _made(message: Mapping[str, Any]) -> tuple[float, str]:
    made = time_of(mapping_of(message.get("time")).get("created"))
    return (made.timestamp() if made else 0.0, _id(message))


def _parts_by_message(folder: Path) -> dict[str, list[Path]]:
    """Return the files of parts by message: one folder per message, in the oldest layout one for all."""
    found: dict[str, list[Path]] = {}
    for path in _files(folder):
        if path.parent != folder:
            found.setdefault(path.parent.name, []).append(path)
            continue
        try:
            message = text_of(mapping_of(load_json(path, max_bytes=MAX_FILE_BYTES)).get("messageID"))
        except ConvMemoryError:
            continue  # reported when its message is read, if it belongs to one
        found.setdefault(message, []).append(path)
    return found


def _read_all(paths: list[Path], folder: Path, report: FileReport) -> Iterator[Mapping[str, Any]]:
    for path in paths:
        part = _read(path, folder, report)
        if part:
            yield part


def _read(path: Path, folder: Path, report: FileReport) -> Mapping[str, Any]:
    """Return the object of one file; an empty one, with the reason reported, if there is none."""
    place = path.relative_to(folder).as_posix()
    try:
        value = load_json(path, max_bytes=MAX_FILE_BYTES)
    except ConvMemoryError as error:
        report.skip(place, str(error))
        return {}
    if not isinstance(value, dict):
        report.skip(place, "not an object")
        return {}
    return value


def _files(folder: Path) -> list[Path]:
    found = (path for path in folder.rglob("*.json") if path.is_file())
    return sorted(path for path, _ in zip(found, range(MAX_FILES), strict=False))
