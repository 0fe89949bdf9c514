"""Databases of OpenCode and of Kilo, which is based on it: `opencode.db`, `kilo.db`.

Two generations of tables can be in one file; a session that is in both is read from the second. Rows are updated in
place, so messages are named by their ids.

Source: anomalyco/opencode `packages/core/src/session/sql.ts`, `packages/core/src/session/message.ts`.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from convmemory.conversations.drafts import ConversationDraft, MessageDraft
from convmemory.conversations.importers.base import FileReport, Source
from convmemory.conversations.importers.blocks import (
    Block,
    attachment_block,
    call_block,
    record_messages,
    result_block,
    text_block,
)  # fmt: skip
from convmemory.conversations.importers.opencode_parts import model_of, part_blocks, stored_messages, tool_blocks
from convmemory.conversations.importers.sqlite import Database
from convmemory.conversations.importers.values import key_of, mapping_of, text_of, time_of
from convmemory.conversations.importers.whole_json import column_json, dumped
from convmemory.conversations.parts import Role

_SESSION_TABLES = ("session_v2", "session")
_ROLES: dict[str, Role] = {
    "user": "user",
    "assistant": "assistant",
    "shell": "tool",
    "system": "system",
    "synthetic": "system",
    "compaction": "system",
}
_SILENT = frozenset({"agent-switched", "model-switched", "agent-selected", "model-selected"})


def is_opencode_database(source: Source) -> bool:
    """Return whether the tables are OpenCode's. Raises: InvalidInput."""
    tables = source.tables
    has_messages = "part" in tables or "session_message" in tables
    return has_messages and not tables.keys().isdisjoint(_SESSION_TABLES)


def database_sessions(source: Source, report: FileReport) -> Iterator[ConversationDraft]:
    """Yield the sessions of a database. Raises: InvalidInput."""
    agent = "kilo" if source.path.stem.startswith("kilo") else "opencode"
    with source.database.opened() as database:
        for session in _sessions(database):
            messages = _messages(database, session, report)
            if messages is not None:
                yield _draft(session, messages, agent)


def _sessions(database: Database) -> Iterator[Mapping[str, Any]]:
    """Yield every session once, parents before the sessions that they started."""
    seen: set[str] = set()
    for table in _SESSION_TABLES:
        if not database.has(table, "id"):
            continue
        names = ("title", "directory", "parent_id", "time_created", "time_archived", "revert", "version")
        for row in database.rows("opencode_sessions", columns=database.columns(table, names), table=table):
            session = dict(row)
            if text_of(session["id"]) not in seen:
                seen.add(text_of(session["id"]))
                yield session


def _draft(session: Mapping[str, Any], messages: Iterator[MessageDraft], agent: str) -> ConversationDraft:
    return ConversationDraft(
        messages=messages,
        source=agent,
        source_id=key_of(text_of(session["id"]), max_chars=290),
        title=text_of(session["title"]),
        agent=agent,
        project=text_of(session["directory"]),
        created_at=time_of(session["time_created"]),
        parent_source_id=key_of(text_of(session["parent_id"]), max_chars=290),
        archived=session["time_archived"] is not None,
    )


def _messages(
    database: Database, session: Mapping[str, Any], report: FileReport
) -> Iterator[MessageDraft] | None:  # fmt: skip
    """Return the messages of the newest generation that has any; None if neither has."""
    if database.has("session_message", "session_id", "type", "data") and _any(database, "session_message", session):
        return _second_generation(database, session, report)
    if database.has("message", "session_id", "data") and _any(database, "message", session):
        return _first_generation(database, session, report)
    return None


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
    for row in database.rows("opencode_messages", [session["id"]]):
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
    for row in database.rows("opencode_session_messages", [session["id"]], order=order):
        gone = gone or (bool(reverted) and row["id"] == reverted)
        kind = text_of(row["type"])
        role = _ROLES.get(kind)
        if role is None:
            if kind not in _SILENT:
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
        yield call_block(id=value.get("callID"), name="shell", input={"command": value.get("command")})
        yield result_block(id=value.get("callID"), name="shell", content=value.get("output"))
        return
    yield text_block(value.get("text") if kind != "compaction" else value.get("summary"))
    for file in value.get("files") or () if isinstance(value.get("files"), list) else ():
        yield attachment_block(
            mapping_of(file).get("name") or mapping_of(file).get("uri"), mapping_of(file).get("mime")
        )
    content = value.get("content")
    for item in map(mapping_of, content if isinstance(content, list) else []):
        if item.get("type") == "tool":
            yield from tool_blocks(item, id=item.get("id"), name=item.get("name"))
        else:
            yield from part_blocks(item, report)


def _object(text: object, place: str, report: FileReport) -> Mapping[str, Any]:
    value = column_json(text)
    if not isinstance(value, dict):
        report.skip(place, "its data is no JSON object")
        return {}
    return value
