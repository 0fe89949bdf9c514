"""Sessions of Goose: `~/.local/share/goose/sessions/sessions.db`, before 1.10 one `.jsonl` file each.

Source: block/goose `crates/goose/src/session/session_manager.rs`, schema versions 1 to 15, and
`crates/goose/src/conversation/message.rs`.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

from convmemory.conversations.importers.base import Checked, FileReport, Reads, Source
from convmemory.conversations.importers.content import Block, record_messages
from convmemory.conversations.importers.json_arrays import column_json, dumped
from convmemory.conversations.importers.lines import read_objects
from convmemory.conversations.importers.sqlite import Database
from convmemory.conversations.importers.values import key_of, mapping_of, text_of, time_of
from convmemory.conversations.messages.drafts import ConversationDraft, MessageDraft
from convmemory.conversations.messages.identity import named_by_opening
from convmemory.conversations.messages.parts import Role

_HEADER_KEYS = frozenset({"working_dir", "message_count", "accumulated_total_tokens", "total_tokens"})
_COLUMNS = ("name", "description", "working_dir", "created_at", "model_config_json", "parent_session_id")

_ROLES: dict[str, Role] = {"user": "user", "assistant": "assistant"}
_SILENT = frozenset(
    {"redactedThinking", "toolConfirmationRequest", "actionRequired", "systemNotification", "contextLengthExceeded"}
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class GooseImporter:
    """Reads a database of sessions, or one session's file."""

    name: str = "goose"
    checked: Checked = Checked("Goose", "1.30")
    reads: Reads = Reads(suffixes=frozenset({".db", ".jsonl"}))

    def sniff(self, source: Source) -> int | None:
        """See `Importer.sniff`."""
        if source.is_sqlite:
            tables = source.tables
            goose = "content_json" in tables.get("messages", ()) and "working_dir" in tables.get("sessions", ())
            return 90 if goose else None
        first = next(iter(source.head_objects), None)
        is_header = first is not None and len(_HEADER_KEYS & first.value.keys()) >= 2
        return 85 if is_header or b'"toolRequest"' in source.head else None

    def parse(self, source: Source, report: FileReport) -> Iterator[ConversationDraft]:
        """See `Importer.parse`."""
        if not source.is_sqlite:
            lines = read_objects(source.path, on_issue=report.line_issue)
            first = next(lines, None)
            is_header = first is not None and "role" not in first.value
            header = first.value if first is not None and is_header else {}
            rest = lines if first is None or is_header else chain([first], lines)
            own_id = key_of(text_of(header.get("id")) or text_of(header.get("session_id")), max_chars=290)
            messages = (
                goose_messages(
                    item.value,
                    key=text_of(item.value.get("id")) or f"line:{item.number}.{item.index}",
                    raw=item.raw,
                    model="",
                    report=report,
                )
                for item in rest
            )
            draft = ConversationDraft(
                messages=chain.from_iterable(messages),
                source="goose",
                source_id=own_id,
                has_weak_id=True,
                title=text_of(header.get("description")),
                agent="goose",
                project=text_of(header.get("working_dir")),
            )
            former = key_of(source.path.stem, max_chars=290)
            yield replace(draft, former_ids=(former,)) if own_id else named_by_opening(draft, former_ids=[former])
            return
        with source.database.opened() as database:
            columns = f"id, {database.columns('sessions', _COLUMNS)}"
            for row in database.rows("rows", columns=columns, table="sessions", order="created_at, id"):
                model = mapping_of(column_json(row["model_config_json"]))
                yield ConversationDraft(
                    messages=_stored(database, text_of(row["id"]), text_of(model.get("model_name")), report),
                    source=self.name,
                    source_id=key_of(text_of(row["id"]), max_chars=290),
                    title=text_of(row["name"]) or text_of(row["description"]),
                    agent=self.name,
                    project=text_of(row["working_dir"]),
                    created_at=time_of(row["created_at"]),
                    parent_source_id=key_of(text_of(row["parent_session_id"]), max_chars=290),
                )


def _stored(database: Database, session: str, model: str, report: FileReport) -> Iterator[MessageDraft]:
    optional = database.columns("messages", ("message_id", "metadata_json"))
    columns, order = f"id, role, content_json, created_timestamp, {optional}", "created_timestamp, id"
    for row in database.rows("rows_of", [session], columns=columns, table="messages", by="session_id", order=order):
        value = {
            "role": row["role"],
            "content": column_json(row["content_json"]),
            "created": row["created_timestamp"],
            "metadata": column_json(row["metadata_json"]),
        }
        key = text_of(row["message_id"]) or f"row:{row['id']}"
        yield from goose_messages(value, key=key, raw=dumped(value), model=model, report=report)


def goose_messages(
    value: Mapping[str, Any], *, key: str, raw: bytes, model: str, report: FileReport
) -> Iterator[MessageDraft]:
    """Yield the messages of one record `{role, created, content, metadata}`; invisible ones become system messages."""
    role = _ROLES.get(text_of(value.get("role")).lower())
    content = value.get("content")
    if role is None or not isinstance(content, list):
        report.skip(key, "a message without a known role or content")
        return
    hidden = mapping_of(value.get("metadata")).get("userVisible") is False
    yield from record_messages(
        role="system" if hidden else role,
        blocks=(block for item in map(mapping_of, content) for block in _blocks(item, report)),
        key=key,
        unknown=report.unknown,
        created_at=time_of(value.get("created")),
        model=model,
        injected=hidden,
        raw=raw,
    )


def _blocks(item: Mapping[str, Any], report: FileReport) -> Iterator[Block]:
    kind = text_of(item.get("type"))
    if kind == "text":
        yield Block.text(item.get("text"))
    elif kind in ("thinking", "reasoning"):
        yield Block.thinking(text_of(item.get("thinking")) or text_of(item.get("text")))
    elif kind in ("toolRequest", "frontendToolRequest"):
        # Newer versions wrap the call as `{status, value}`.
        outcome = mapping_of(item.get("toolCall"))
        call = mapping_of(outcome["value"]) if "value" in outcome else outcome
        yield Block.call(id=item.get("id"), name=call.get("name"), input=call.get("arguments"))
    elif kind == "toolResponse":
        outcome = mapping_of(item.get("toolResult"))
        value = outcome.get("value")
        content = value.get("content") if isinstance(value, Mapping) else value
        failed = outcome.get("status") == "error" or mapping_of(value).get("isError") is True
        yield Block.result(id=item.get("id"), content=content or outcome.get("error") or "", is_error=failed)
    elif kind == "image":
        yield Block.attachment("image", item.get("mimeType"))
    elif kind not in _SILENT:
        report.unknown(kind or "(no type)")
