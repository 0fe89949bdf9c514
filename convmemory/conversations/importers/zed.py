"""Threads of Zed: the agent's in `threads/threads.db`, one zstd-compressed JSON document each, and text threads.

Messages have no times and, before 0.3.0, another format; both are read. A text thread, `conversations/*.zed.json`, is
one text with the byte at which each message starts.

Source: zed-industries/zed `crates/agent/src/db.rs`, `crates/agent/src/legacy_thread.rs`,
`crates/assistant_text_thread/src/text_thread.rs`.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from convmemory.conversations.importers.base import Checked, FileReport, Reads, Source
from convmemory.conversations.importers.content import Block, record_messages
from convmemory.conversations.importers.json_arrays import (
    column_json,
    dumped,
    load_json,
    objects_in,
)
from convmemory.conversations.importers.sqlite import decompressed
from convmemory.conversations.importers.threads import MessageKeys, named
from convmemory.conversations.importers.values import key_of, list_of, mapping_of, text_of, time_of
from convmemory.conversations.messages.drafts import ConversationDraft, MessageDraft
from convmemory.conversations.messages.parts import Role
from convmemory.core.errors import InvalidInput

THREAD_VERSION = "0.3.0"
_TEXT_THREAD = re.compile(rb'"zed"\s*:\s*"context"')
_COLUMNS = ("parent_id", "folder_paths", "created_at")
_ROLES: dict[str, Role] = {"user": "user", "assistant": "assistant", "system": "system"}


@dataclass(frozen=True, slots=True)
class ZedImporter:
    """Reads one database of threads."""

    name: str = "zed"
    checked: Checked = Checked("Zed's thread format", THREAD_VERSION)
    reads: Reads = Reads(suffixes=frozenset({".db", ".json"}))

    def sniff(self, source: Source) -> int | None:
        """See `Importer.sniff`."""
        if not source.is_sqlite:
            return 92 if _TEXT_THREAD.search(source.head) and b'"text"' in source.head else None
        columns = source.tables.get("threads", frozenset())
        return 90 if columns.issuperset({"id", "summary", "data_type", "data"}) else None

    def parse(self, source: Source, report: FileReport) -> Iterator[ConversationDraft]:
        """See `Importer.parse`."""
        if not source.is_sqlite:
            thread = mapping_of(load_json(source.path))
            draft = ConversationDraft(
                messages=_messages_of_text(thread, report),
                source=self.name,
                title=text_of(thread.get("summary")),
                agent=self.name,
            )
            yield named(draft, text_of(thread.get("id")))
            return
        with source.database.opened() as database:
            columns = f"id, summary, updated_at, data_type, data, {database.columns('threads', _COLUMNS)}"
            for row in database.rows("rows", columns=columns, table="threads", order="updated_at, id"):
                id = text_of(row["id"])
                try:
                    # The document of a thread, decompressed within limits.
                    kind = text_of(row["data_type"])
                    data = row["data"]
                    if isinstance(data, str):
                        data = data.encode("utf-8", "replace")
                    if not isinstance(data, bytes) or kind not in ("zstd", "json"):
                        raise InvalidInput(f"its data is of type {kind[:40]!r}, which is not known")
                    if kind == "zstd":
                        data = decompressed(data)
                    thread = column_json(data.decode("utf-8", "replace"))
                    if not isinstance(thread, dict):
                        raise InvalidInput("its data is no JSON object, or holds too many values")
                except InvalidInput as error:
                    report.skip(f"thread {id}", str(error))
                    continue
                report.written_by(text_of(thread.get("version")), self.checked)
                yield ConversationDraft(
                    messages=_messages(thread, report),
                    source=self.name,
                    source_id=key_of(id, max_chars=290),
                    title=text_of(row["summary"]) or text_of(thread.get("title")),
                    agent=self.name,
                    project=text_of(row["folder_paths"]).strip().partition("\n")[0],
                    created_at=time_of(row["created_at"]) or time_of(row["updated_at"]),
                    parent_source_id=key_of(text_of(row["parent_id"]), max_chars=290),
                )


def _messages_of_text(thread: Mapping[str, Any], report: FileReport) -> Iterator[MessageDraft]:
    """Yield the messages of a text thread; versions before 0.4.0 name their roles in a table."""
    text = text_of(thread.get("text")).encode("utf-8", "replace")
    listed = list(objects_in(thread.get("messages"), "message", report))
    starts = [start for value in listed if type(start := value.get("start")) is int and 0 <= start <= len(text)]
    if len(starts) < len(listed):
        raise InvalidInput("The messages of the text thread do not say where they start.")
    metadata, keys = mapping_of(thread.get("message_metadata")), MessageKeys()
    if not listed:
        return
    ordered = sorted(zip(starts, listed, strict=True), key=lambda pair: pair[0])
    for (start, value), end in zip(ordered, [*sorted(starts)[1:], len(text)], strict=True):
        described = mapping_of(value.get("metadata")) or mapping_of(metadata.get(str(value.get("id"))))
        role, spoken = (
            _ROLES.get(text_of(described.get("role")).lower()),
            text[start:end].decode("utf-8", "replace").strip(),
        )
        if not spoken:
            continue
        if role is None:
            report.unknown(f"role {text_of(described.get('role'))}")
        yield from record_messages(
            role=role or "system",
            blocks=[Block.text(spoken)],
            key=keys.key(role or "system", spoken),
            unknown=report.unknown,
            injected=role not in ("user", "assistant"),
            raw=dumped(value),
        )
    if text[: min(starts, default=len(text))].strip():
        report.skip("the beginning of the text", "it belongs to no message")


def _messages(thread: Mapping[str, Any], report: FileReport) -> Iterator[MessageDraft]:
    keys = MessageKeys()
    model = text_of(mapping_of(thread.get("model")).get("model"))
    values = thread.get("messages")
    # "Resume" is a marker without content.
    listed = [value for value in values if value != "Resume"] if isinstance(values, list) else []
    for value in objects_in(listed, "message", report):
        role, inner = _role(value)
        if role is None:
            report.unknown(next(iter(value), "(empty)"))
            continue
        raw = dumped(value)
        key = text_of(inner.get("id")) or keys.key(role, raw.decode())
        yield from record_messages(
            role=role, blocks=_blocks(inner, report), key=key, unknown=report.unknown, model=model, raw=raw,
            injected=role == "system",
        )  # fmt: skip


def _role(value: Mapping[str, Any]) -> tuple[Role | None, Mapping[str, Any]]:
    """Return the role and the message: of `{"User": {…}}`, or of `{"role": "user", …}` in older threads."""
    if "role" in value:
        return _ROLES.get(text_of(value["role"])), value
    if "User" in value:
        return "user", mapping_of(value["User"])
    return ("assistant", mapping_of(value["Agent"])) if "Agent" in value else (None, {})


def _blocks(message: Mapping[str, Any], report: FileReport) -> Iterator[Block]:
    for name in ("content", "segments"):
        for item in map(mapping_of, list_of(message.get(name))):
            if "type" not in item:
                yield from _content(item, report)
            elif item["type"] == "text":
                yield Block.text(item.get("text"))
            elif item["type"] == "thinking":
                yield Block.thinking(item.get("text"))
    for call in map(mapping_of, list_of(message.get("tool_uses"))):
        yield Block.call(id=call.get("id"), name=call.get("name"), input=call.get("input"))
    results = message.get("tool_results")
    for result in map(mapping_of, results.values() if isinstance(results, dict) else results or ()):
        content = result.get("content")
        inner = mapping_of(content)
        output = inner.get("Text", content) if "Image" not in inner else "an image"
        if isinstance(output, Mapping):
            output = output.get("text")
        yield Block.result(
            id=result.get("tool_use_id"), name=result.get("tool_name"), content=output or result.get("output") or "",
            is_error=result.get("is_error") is True,
        )  # fmt: skip


def _content(item: Mapping[str, Any], report: FileReport) -> Iterator[Block]:
    kind, value = next(iter(item.items()), ("(empty)", None))
    inner = mapping_of(value)
    if kind == "Text":
        yield Block.text(value)
    elif kind == "Thinking":
        yield Block.thinking(text_of(inner.get("text")))
    elif kind == "ToolUse":
        yield Block.call(id=inner.get("id"), name=inner.get("name"), input=inner.get("input") or inner.get("raw_input"))
    elif kind == "Mention":
        # The target of a mention: a file's path, or a thread's name.
        uri = inner.get("uri")
        if isinstance(uri, str):
            address = uri
        else:
            mentioned = mapping_of(next(iter(mapping_of(uri).values()), None))
            names = (text_of(mentioned.get(key)) for key in ("abs_path", "path", "name", "url"))
            address = next(filter(None, names), "mention")
        yield Block.attachment(address)
    elif kind == "Image":
        yield Block.attachment("image")
    elif kind != "RedactedThinking":
        report.unknown(kind)
