"""Sessions of OpenCode: its databases, the output of `opencode export`, and the folder `storage` of versions before
1.2.

In the folder each session, message and part is a file of its own. Exports can be redacted, so that several messages
share one id: such messages are named by their position.

Source: anomalyco/opencode `packages/opencode/src/storage/storage.ts`, `cli/cmd/export.ts`, `session/message-v2.ts`,
and `packages/core/src/session/sql.ts`, `message.ts`.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from convmemory.conversations.importers.base import Checked, FileReport, Reads, Source
from convmemory.conversations.importers.content import Block, record_messages
from convmemory.conversations.importers.json_arrays import column_json, dumped, load_json, objects_in
from convmemory.conversations.importers.sqlite import Database
from convmemory.conversations.importers.values import (
    key_of,
    list_of,
    mapping_of,
    seconds_of,
    text_of,
    time_of,
)
from convmemory.conversations.messages.drafts import ConversationDraft, MessageDraft
from convmemory.conversations.messages.identity import named_by_opening
from convmemory.conversations.messages.parts import Role
from convmemory.core.errors import ConvMemoryError

MAX_FILE_BYTES = 16 * 1024**2
MAX_FILES = 200_000  # a folder with a file per part can have very many

_SESSION_TABLES = ("session_v2", "session")
_TYPE_ROLES: dict[str, Role] = {
    "user": "user",
    "assistant": "assistant",
    "shell": "tool",
    "system": "system",
    "synthetic": "system",
    "compaction": "system",
}
_SILENT_MESSAGES = frozenset({"agent-switched", "model-switched", "agent-selected", "model-selected"})

ROLES: dict[str, Role] = {"user": "user", "assistant": "assistant"}
_SILENT_PARTS = frozenset(
    {"step-start", "step-finish", "snapshot", "patch", "compaction", "agent", "subtask", "retry"}
)  # fmt: skip


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
            # The sessions of a folder, parents before the sessions that they started.
            folder = source.path
            infos = [info for path in _files(folder / "session") if (info := _read(path, folder, report))]
            # The files of parts by message: one folder per message, in the oldest layout one for all.
            parts_folder = folder / "part"
            parts: dict[str, list[Path]] = {}
            for part_path in _files(parts_folder):
                if part_path.parent != parts_folder:
                    parts.setdefault(part_path.parent.name, []).append(part_path)
                    continue
                try:
                    message_id = text_of(mapping_of(load_json(part_path, max_bytes=MAX_FILE_BYTES)).get("messageID"))
                except ConvMemoryError:
                    continue  # reported when its message is read, if it belongs to one
                parts.setdefault(message_id, []).append(part_path)
            for info in sorted(infos, key=lambda info: is_child(info.get("parentID"))):
                paths = _files(folder / "message" / Path(text_of(info.get("id"))).name)
                messages = [message for path in paths if (message := _read(path, folder, report))]
                messages.sort(key=_made)
                read = partial(_read, folder=folder, report=report)
                entries: list[_Entry] = [
                    (message, filter(None, map(read, parts.get(_id(message), [])))) for message in messages
                ]
                yield _draft(info, _numbered(entries, report), former="session")
            return
        if source.is_sqlite:
            yield from database_sessions(source, report)
            return
        value = mapping_of(load_json(source.path))
        messages = list(objects_in(value.get("messages"), "message", report))
        made = [_made(mapping_of(item.get("info")))[0] for item in messages]
        if all(made):  # versions of 2026 list them in another order
            messages = [item for _, item in sorted(zip(made, messages, strict=True), key=lambda pair: pair[0])]
        entries = [(mapping_of(item.get("info")), objects_in(item.get("parts"), "part", report)) for item in messages]
        yield _draft(mapping_of(value.get("info")), _numbered(entries, report), former=source.path.stem)


_Entry = tuple[Mapping[str, Any], Iterator[Mapping[str, Any]]]


def _numbered(entries: list[_Entry], report: FileReport) -> Iterator[MessageDraft]:
    """Yield the messages, each with a unique key."""
    ids = [text_of(info.get("id")) for info, _ in entries]
    counts = Counter(ids)
    for number, (id, (info, parts)) in enumerate(zip(ids, entries, strict=True), 1):
        key = id if id and counts[id] == 1 else f"message:{number}"
        yield from stored_messages(info, parts, key=key, report=report)


def _draft(info: Mapping[str, Any], messages: Iterator[MessageDraft], *, former: str) -> ConversationDraft:
    time = mapping_of(info.get("time"))
    parent = info.get("parentID")
    own_id = key_of(text_of(info.get("id")), max_chars=290)
    draft = ConversationDraft(
        messages=messages,
        source="opencode",
        source_id=own_id,
        title=_given_title(text_of(info.get("title"))),
        agent="opencode",
        project=text_of(info.get("directory")),
        created_at=time_of(time.get("created")),
        parent_source_id=key_of(text_of(parent), max_chars=290) if is_child(parent) else "",
        archived=time_of(time.get("archived")) is not None,
    )
    return draft if own_id else named_by_opening(draft, former_ids=[key_of(former, max_chars=290)])


def _id(value: Mapping[str, Any]) -> str:
    return text_of(value.get("id"))


def _made(message: Mapping[str, Any]) -> tuple[float, str]:
    return (seconds_of(mapping_of(message.get("time")).get("created")), _id(message))


def _read(path: Path, folder: Path, report: FileReport) -> Mapping[str, Any]:
    """Return the object of one file; an empty one, with the reason reported, if there is none."""
    relative_path = path.relative_to(folder).as_posix()
    try:
        value = load_json(path, max_bytes=MAX_FILE_BYTES)
    except ConvMemoryError as error:
        report.skip(relative_path, str(error))
        return {}
    if not isinstance(value, dict):
        report.skip(relative_path, "not an object")
        return {}
    return value


def _files(folder: Path) -> list[Path]:
    paths = (path for path in folder.rglob("*.json") if path.is_file())
    return sorted(path for path, _ in zip(paths, range(MAX_FILES), strict=False))


def is_opencode_database(source: Source) -> bool:
    """Return whether the tables are OpenCode's. Raises: InvalidInput."""
    tables = source.tables
    has_messages = "part" in tables or "session_message" in tables
    return has_messages and not tables.keys().isdisjoint(_SESSION_TABLES)


def database_sessions(source: Source, report: FileReport) -> Iterator[ConversationDraft]:
    """Yield the sessions of a database of OpenCode, or of Kilo, which is based on it. Raises: InvalidInput.

    Two generations of tables can be in one file; a session that is in both is read from the second. Rows are updated
    in place, so messages are named by their ids.
    """
    agent = "kilo" if source.path.stem.startswith("kilo") else "opencode"
    with source.database.opened() as database:
        for session in _sessions(database):
            # The messages of the newest generation that has any; None if neither has.
            if database.has("session_message", "session_id", "type", "data") and _any(
                database, "session_message", session
            ):
                messages = _second_generation(database, session, report)
            elif database.has("message", "session_id", "data") and _any(database, "message", session):
                messages = _first_generation(database, session, report)
            else:
                messages = None
            if messages is not None:
                yield ConversationDraft(
                    messages=messages,
                    source=agent,
                    source_id=key_of(text_of(session["id"]), max_chars=290),
                    title=_given_title(text_of(session["title"])),
                    agent=agent,
                    project=text_of(session["directory"]),
                    created_at=time_of(session["time_created"]),
                    parent_source_id=key_of(text_of(session["parent_id"]), max_chars=290),
                    archived=session["time_archived"] is not None,
                )


def _sessions(database: Database) -> Iterator[Mapping[str, Any]]:
    """Yield every session once, parents before the sessions that they started."""
    seen: set[str] = set()
    for table in _SESSION_TABLES:
        if not database.has(table, "id"):
            continue
        names = ("title", "directory", "parent_id", "time_created", "time_archived", "revert", "version")
        columns, order = f"id, {database.columns(table, names)}", "parent_id IS NOT NULL, time_created, id"
        for row in database.rows("rows", columns=columns, table=table, order=order):
            session = dict(row)
            if text_of(session["id"]) not in seen:
                seen.add(text_of(session["id"]))
                yield session


def _given_title(title: str) -> str:
    """Return the title, unless it is the one of every new session; then the first question is the title."""
    return "" if title.startswith(("New session - ", "Child session - ")) else title


def _any(database: Database, table: str, session: Mapping[str, Any]) -> bool:
    return next(database.rows("opencode_any_message", [session["id"]], table=table), None) is not None


def _first_generation(
    database: Database, session: Mapping[str, Any], report: FileReport
) -> Iterator[MessageDraft]:  # fmt: skip
    """Yield messages with their parts; reverted messages are superseded."""
    reverted = text_of(mapping_of(column_json(session["revert"])).get("messageID"))
    gone = False
    # Merged with the messages here: a query per message would cost a round trip to the child each.
    parts = database.rows("opencode_parts", [session["id"]])
    part = next(parts, None)
    stored = {"table": "message", "by": "session_id", "order": "time_created, id"}
    for row in database.rows("rows_of", [session["id"]], columns="id, data", **stored):
        gone = gone or (bool(reverted) and row["id"] == reverted)
        info = _object(row["data"], f"message {row['id']}", report)
        listed = []
        while part and part["message_id"] == row["id"]:
            listed.append(_object(part["data"], f"part {part['id']}", report))
            part = next(parts, None)
        for draft in stored_messages(info, listed, key=text_of(row["id"]), report=report) if info else ():
            yield replace(draft, superseded=gone)


def _second_generation(
    database: Database, session: Mapping[str, Any], report: FileReport
) -> Iterator[MessageDraft]:  # fmt: skip
    reverted = text_of(mapping_of(column_json(session["revert"])).get("messageID"))
    order = "seq" if database.has("session_message", "seq") else "time_created"
    gone = False
    stored = {"table": "session_message", "by": "session_id", "order": f"{order}, id"}
    for row in database.rows("rows_of", [session["id"]], columns="id, type, time_created, data", **stored):
        gone = gone or (bool(reverted) and row["id"] == reverted)
        kind = text_of(row["type"])
        role = _TYPE_ROLES.get(kind)
        if role is None:
            if kind not in _SILENT_MESSAGES:
                report.unknown(kind or "(no type)")
            continue
        value = _object(row["data"], f"message {row['id']}", report)
        for draft in record_messages(
            role=role,
            blocks=_blocks(kind, value, report),
            key=text_of(row["id"]),
            unknown=report.unknown,
            created_at=time_of(mapping_of(value.get("time")).get("created")) or time_of(row["time_created"]),
            model=model_of(value),
            injected=role == "system",
            raw=dumped(value),
        ):
            yield replace(draft, superseded=gone)


def _blocks(kind: str, value: Mapping[str, Any], report: FileReport) -> Iterator[Block]:
    if kind == "shell":
        yield Block.call(id=value.get("callID"), name="shell", input={"command": value.get("command")})
        yield Block.result(id=value.get("callID"), name="shell", content=value.get("output"))
        return
    yield Block.text(value.get("text") if kind != "compaction" else value.get("summary"))
    for file in value.get("files") or () if isinstance(value.get("files"), list) else ():
        yield Block.attachment(
            mapping_of(file).get("name") or mapping_of(file).get("uri"), mapping_of(file).get("mime")
        )
    for item in map(mapping_of, list_of(value.get("content"))):
        if item.get("type") == "tool":
            yield from tool_blocks(item, id=item.get("id"), name=item.get("name"))
        else:
            yield from part_blocks(item, report)


def _object(text: object, position: str, report: FileReport) -> Mapping[str, Any]:
    value = column_json(text)
    if not isinstance(value, dict):
        report.skip(position, "its data is no JSON object")
        return {}
    return value


def stored_messages(
    info: Mapping[str, Any], parts: Iterable[Mapping[str, Any]], *, key: str, report: FileReport
) -> Iterator[MessageDraft]:
    """Yield the messages of one stored message: its text and calls, and the results of tools."""
    role = ROLES.get(text_of(info.get("role")))
    listed = list(parts)
    if role is None:
        report.skip(f"message {key}", f"unknown role {text_of(info.get('role'))[:40]!r}")
        return
    if role == "user" and not listed:
        listed = [{"type": "text", "text": mapping_of(info.get("summary")).get("body")}]
    typed = [part for part in listed if part.get("synthetic") is not True]
    yield from record_messages(
        role=role,
        blocks=(block for part in listed for block in part_blocks(part, report)),
        key=key,
        unknown=report.unknown,
        created_at=time_of(mapping_of(info.get("time")).get("created")),
        model=model_of(info),
        injected=role == "user" and not any(text_of(part.get("text")).strip() for part in typed),
        raw=dumped({"info": info, "parts": listed}),
    )


def part_blocks(part: Mapping[str, Any], report: FileReport) -> Iterator[Block]:
    """Yield one part of a message."""
    kind = text_of(part.get("type"))
    if kind == "text" and part.get("synthetic") is True and text_of(part.get("text")).startswith("<recalled-memory"):
        return  # our own plug-in added it
    if kind == "text" and part.get("ignored") is not True:
        yield Block.text(part.get("text"))
    elif kind == "reasoning":
        yield Block.thinking(part.get("text"))
    elif kind == "tool":
        yield from tool_blocks(part, id=part.get("callID"), name=part.get("tool"))
    elif kind == "file":
        yield Block.attachment(part.get("filename") or part.get("url"), part.get("mime"))
    elif kind not in _SILENT_PARTS and kind != "text":
        report.unknown(kind or "(no type)")


def tool_blocks(part: Mapping[str, Any], *, id: object, name: object) -> Iterator[Block]:
    """Yield a call with its result, if it has one."""
    state = mapping_of(part.get("state"))
    yield Block.call(id=id, name=name, input=state.get("input"))
    error = state.get("error")
    failed = state.get("status") == "error"
    error_text = error.get("message") if isinstance(error, dict) else error
    answers = (state.get("output"), error_text, state.get("content"), state.get("result"))
    answer = next((value for value in answers if value not in (None, "", [], {})), None)
    if answer is not None:
        yield Block.result(id=id, name=name, content=answer, is_error=failed)


def model_of(info: Mapping[str, Any]) -> str:
    model = mapping_of(info.get("model"))
    return text_of(info.get("modelID")) or text_of(model.get("modelID")) or text_of(model.get("id"))


def is_child(value: object) -> bool:
    """Return whether a session names its parent; a redacted export names none."""
    return bool(text_of(value)) and value != "REDACTED"
