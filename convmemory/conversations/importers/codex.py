"""Codex CLI: rollouts of `~/.codex/sessions`, plain or compressed, in the legacy, the 2025 and the paginated format.

A conversation is a thread, in one file or several: a paginated thread is a chain of files, each of which names how much
of the one before it is valid. Records after that position, and rolled back ones, are superseded. Messages are named by
turn and text, so that a thread that comes again in another format is the same conversation.

Source: openai/codex, codex-rs/protocol `protocol.rs` and `items.rs`, codex-rs/thread-store `rollout_lineage.rs`.
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any

from convmemory.conversations.importers.base import Checked, FileReport, Reads, Source
from convmemory.conversations.importers.codex_scan import (
    Recovered,
    Scan,
    is_harness_text,
    joined,
    parted,
    prompt_of,
    read_records,
    scan_rollout,
    turn_ids,
)
from convmemory.conversations.importers.codex_threads import Page, find_thread, pages_of, thread_of
from convmemory.conversations.importers.content import Block, content_parts, first_time, result_text, tool_call
from convmemory.conversations.importers.lines import JsonObject
from convmemory.conversations.importers.threads import MessageKeys, ToolNames
from convmemory.conversations.importers.values import key_of, list_of, mapping_of, text_of, time_of
from convmemory.conversations.messages.drafts import ConversationDraft, MessageDraft
from convmemory.conversations.messages.identity import MAX_ID_CHARS, named_by_opening
from convmemory.conversations.messages.parts import AttachmentPart, Role, TextPart, ToolResultPart

AGENT = "codex"
NO_ANSWER = "(The answer is no longer in the rollout, which a compaction rewrote.)"

_ENVELOPE = frozenset({"session_meta", "response_item", "event_msg", "turn_context", "compacted", "world_state"})
_BARE = frozenset({"function_call", "function_call_output", "tool_call", "tool_result", "function_result"})
_LONG_LINE = re.compile(rb'"type"\s*:\s*"(?:session_meta|response_item|event_msg|turn_context|compacted)"')

_CALLS = frozenset(
    {
        *("function_call", "custom_tool_call", "local_shell_call", "tool_call", "web_search_call", "tool_search_call"),
        "image_generation_call",
    }
)
_RESULTS = frozenset(
    {"function_call_output", "custom_tool_call_output", "tool_result", "function_result", "tool_search_output"}
)
_PASSED_OVER = frozenset({"ghost_snapshot", "compaction", "compaction_trigger", "context_compaction", "error", "other"})
_KNOWN_KINDS = frozenset(
    {
        *("session_meta", "turn_context", "event_msg", "state", "compacted", "world_state"),
        *("inter_agent_communication_metadata", "token_usage_record"),
    }
)


@dataclass(frozen=True, slots=True)
class CodexImporter:
    """Reads one rollout; with the last one of a paginated thread also the ones before it."""

    name: str = "codex"
    checked: Checked = Checked("Codex CLI", "0.169.0")
    reads: Reads = Reads(suffixes=frozenset({".jsonl", ".json", ".jsonl.zst"}))

    def sniff(self, source: Source) -> int | None:
        """See `Importer.sniff`."""
        for item in source.head_objects:
            value, kind = item.value, text_of(item.value.get("type"))
            if kind in _ENVELOPE and isinstance(value.get("payload"), Mapping):
                return 95
            if kind in _BARE and "role" not in value and "uuid" not in value:
                return 70
            if "record_type" in value or {"id", "timestamp", "instructions"} <= value.keys():
                return 80
        return 60 if source.is_one_long_line and _LONG_LINE.search(source.head, 0, 400) else None

    def parse(self, source: Source, report: FileReport) -> Iterator[ConversationDraft]:
        """See `Importer.parse`."""
        page = thread_of(source.path)
        pages = pages_of(page, report)
        newest = pages[-1][0]
        if newest.path != page.path:
            report.note(f"the thread continues in {newest.name}: it is read with that file")
            return
        scan = scan_rollout(page.path, report)
        if scan.is_empty and len(pages) == 1:
            report.note("a session without any message")
            return
        parent = find_thread(page.path, scan.parent_id) if scan.parent_id else None
        scan.inherited = turn_ids(parent) if parent else frozenset()
        draft = ConversationDraft(
            messages=_messages(pages, scan, report),
            source=self.name,
            source_id=key_of(page.thread_id, max_chars=MAX_ID_CHARS),
            title=scan.title if len(pages) == 1 else scan.name,
            agent=AGENT,
            project=scan.cwd,
            repository=scan.repository,
            created_at=scan.created_at if len(pages) == 1 else None,
            parent_source_id=key_of(scan.parent_id, max_chars=MAX_ID_CHARS),
        )
        yield named_by_opening(draft, former_ids=[draft.source_id]) if page.is_nameless else draft
        # A newer version alone is no reason to look: only what it wrote that was not read.
        if report.unknown_types or report.skipped:
            report.written_by(scan.version, self.checked)


def _messages(pages: list[tuple[Page, bool]], scan: Scan, report: FileReport) -> Iterator[MessageDraft]:
    """Yield the messages of the thread's files in order; `scan` is of the newest one."""
    seen: set[str] = set()
    keys = MessageKeys()
    newest = pages[-1][0]
    known_digests: set[str] = set()  # digests of the prompts of earlier files
    for page, is_current in pages:
        page_report = report if page is newest else FileReport(path=page.name)
        page_scan = scan if page is newest else scan_rollout(page.path, page_report)
        gone = [item for item in page_scan.recovered if item.digest not in known_digests and not scan.inherited]
        known_digests.update(page_scan.digests)
        if prompts := sum(item.is_prompt for item in gone):
            report.note(f"{prompts} prompts are only in a compaction of {page.name}, without their answers")
        reader = RecordReader(page_report, page_scan, keys)
        for number, record in chain(((record.number, record) for record in read_records(page.path)), [(None, None)]):
            beyond = record is not None and page.counts_until is not None and record.offset >= page.counts_until
            recovered: list[MessageDraft] = []
            while gone and (number is None or gone[0].number < number):
                recovered.extend(_recovered(gone.pop(0)))
            read = reader.read(record, superseded=beyond or not is_current) if record is not None else ()
            for draft in chain(recovered, read):
                # Files of a thread can repeat each other's messages.
                if draft.source_key not in seen:
                    seen.add(draft.source_key)
                    yield draft


def _recovered(item: Recovered) -> Iterator[MessageDraft]:
    parts, key = tuple(content_parts(item.text)), f"compacted:{item.digest}"
    if not item.is_prompt:
        yield MessageDraft("system", parts, source_key=key, injected=True)
        return
    yield MessageDraft("user", parts, source_key=key, is_copy=True)
    # A prompt without an answer would be a turn with the next one.
    yield MessageDraft("assistant", (TextPart(NO_ANSWER),), source_key=f"{key}:answer", is_copy=True)


@dataclass(slots=True)
class RecordReader:
    """Converts the records of one file, in order, to messages; `keys` names the messages of all files of a thread."""

    report: FileReport
    scan: Scan
    keys: MessageKeys
    _superseded: set[str] = field(init=False)
    _prompts: int = 0
    _turn_id: str = ""
    _model: str = ""
    _tools: ToolNames = field(default_factory=ToolNames)

    def __post_init__(self) -> None:
        self._superseded = self.scan.superseded()

    def read(self, record: JsonObject, *, superseded: bool = False) -> Iterator[MessageDraft]:
        """Yield the record's messages; `superseded` marks all of them."""
        kind, payload = parted(record.value)
        passed = mapping_of(payload.get("internal_chat_message_metadata_passthrough"))
        if kind in ("turn_context", "event_msg", "response_item"):
            self._turn_id = text_of(payload.get("turn_id")) or text_of(passed.get("turn_id")) or self._turn_id
        if kind == "turn_context":
            self._model = text_of(payload.get("model")) or self._model
        drafts = self._drafts(kind, payload)
        if self._turn_id in self.scan.inherited:
            return
        gone = superseded or str(self._prompts) in self._superseded
        at = time_of(record.value.get("timestamp")) or first_time(record.value)
        for draft in drafts:
            usage = self.scan.usages.get(record.number) if draft.role == "assistant" else None
            yield replace(self._tools.added_to(draft), created_at=at, raw=record.raw, superseded=gone, usage=usage)

    def _drafts(self, kind: str, payload: Mapping[str, Any]) -> Iterator[MessageDraft]:
        prompt = prompt_of(kind, payload)
        if prompt and self.scan.counts(*prompt):
            self._prompts += 1
            files = _files(mapping_of(payload.get("item")) or payload)
            key = self.keys.key("user", prompt[1], scope=self._turn_id)
            return iter([MessageDraft("user", (*content_parts(prompt[1]), *files), source_key=key)])
        if kind == "event_msg":
            return self._event(payload)
        if kind in ("response_item", "bare"):
            return self._response(payload)
        if kind not in _KNOWN_KINDS:
            self.report.unknown(kind or "(no type)")
        return iter(())

    def _event(self, payload: Mapping[str, Any]) -> Iterator[MessageDraft]:
        """Yield messages from events, which show what the person saw, if the model's items lack them."""
        if payload.get("type") == "item_completed":
            yield from self._item(mapping_of(payload.get("item")))
        elif payload.get("type") == "agent_message" and not self.scan.has_answers:
            yield from self._assistant_message(text_of(payload.get("message")))

    def _assistant_message(self, text: str) -> Iterator[MessageDraft]:
        if text.strip():
            key = self.keys.key("assistant", text, scope=self._turn_id)
            yield MessageDraft("assistant", tuple(content_parts(text)), model=self._model, source_key=key)

    def _response(self, payload: Mapping[str, Any]) -> Iterator[MessageDraft]:
        """Yield the messages of an item that was sent to, or came from, the model."""
        kind = text_of(payload.get("type")) or ("message" if "role" in payload else "")
        if kind in ("message", "agent_message"):
            role = "assistant" if kind == "agent_message" else text_of(payload.get("role"))
            text = joined(payload.get("content")) or text_of(payload.get("message"))
            content = payload.get("content")
            if not isinstance(content, (str, list)):
                said_parts = []
            else:
                if isinstance(content, list):
                    content = [block for block in content if mapping_of(block).get("type") != "encrypted_content"]
                said_parts = content_parts(content, unknown=self.report.unknown)
            parts = said_parts or ([TextPart(text)] if text.strip() else [])
            # A prompt is in another record, too.
            if parts and (role != "user" or is_harness_text(text)):
                stored: Role = "assistant" if role == "assistant" else "system"
                yield MessageDraft(
                    role=stored,
                    parts=tuple(parts),
                    model=self._model if stored == "assistant" else "",
                    source_key=self.keys.key(role or "message", text, scope=self._turn_id),
                    injected=stored == "system",
                )
        elif kind == "reasoning":
            yield from self._thinking([*_texts(payload.get("summary")), *_texts(payload.get("content"))])
        elif kind in _CALLS:
            yield self._call(payload, kind)
        elif kind in _RESULTS:
            output = next((payload[key] for key in ("output", "result", "tools") if payload.get(key) is not None), "")
            inner = mapping_of(output)
            call_id = key_of(text_of(payload.get("call_id")) or text_of(payload.get("id")))
            part = ToolResultPart(
                call_id=call_id,
                text=result_text(inner.get("content", output)),
                name=text_of(payload.get("name")),
                is_error=inner.get("success") is False,
            )
            key = f"result:{call_id}" if call_id else self.keys.key("result", part.text, scope=self._turn_id)
            yield MessageDraft("tool", (part,), source_key=key_of(key))
        elif kind not in _PASSED_OVER:
            self.report.unknown(kind or "(no type)")

    def _thinking(self, texts: list[str]) -> Iterator[MessageDraft]:
        text = "\n\n".join(texts)
        if text.strip():
            key = self.keys.key("thinking", text, scope=self._turn_id)
            parts = tuple(content_parts([Block.thinking(text)]))
            yield MessageDraft("assistant", parts, model=self._model, source_key=key)

    def _call(self, payload: Mapping[str, Any], kind: str) -> MessageDraft:
        name = text_of(payload.get("name")) or text_of(mapping_of(payload.get("function")).get("name"))
        arguments = next(
            (payload[key] for key in ("arguments", "input", "action") if payload.get(key) is not None), None
        )
        call_id = text_of(payload.get("call_id")) or text_of(payload.get("id"))
        call = tool_call({"id": call_id, "name": name or kind.removesuffix("_call"), "input": arguments})
        key = f"call:{call.id}" if call.id else self.keys.key("call", json.dumps(payload, default=str))
        return MessageDraft("assistant", (call,), model=self._model, source_key=key_of(key))

    def _item(self, item: Mapping[str, Any]) -> Iterator[MessageDraft]:
        kind = text_of(item.get("type"))
        if kind in ("AgentMessage", "Plan") and (kind == "Plan" or not self.scan.has_answers):
            text = joined(item.get("content")) or text_of(item.get("text"))
            yield from self._assistant_message(text)
        elif kind == "Reasoning" and not self.scan.has_answers:
            yield from self._thinking([*_texts(item.get("summary_text")), *_texts(item.get("raw_content"))])
        elif kind in ("CommandExecution", "FileChange", "McpToolCall", "Extension") and not self.scan.has_calls:
            name = key_of(text_of(item.get("id")))
            keys = ("command", "changes", "arguments", "query", "action")
            arguments = {key: item[key] for key in keys if item.get(key) not in (None, "")}
            call = tool_call({"id": name, "name": text_of(item.get("tool")) or kind, "input": arguments})
            answers = ("aggregated_output", "stdout", "result", "results")
            answer = next((item[key] for key in answers if item.get(key)), "")
            yield MessageDraft("assistant", (call,), model=self._model, source_key=key_of(f"call:{name}"))
            text = result_text(mapping_of(answer).get("content", answer))
            result = ToolResultPart(call_id=name, text=text, name=call.name, is_error=item.get("status") == "failed")
            yield MessageDraft("tool", (result,), source_key=key_of(f"result:{name}"))


def _files(payload: Mapping[str, Any]) -> Iterator[AttachmentPart]:
    """Yield images that came with a prompt: paths are named, bytes are not stored."""
    for key in ("local_images", "images", "content"):
        for value in list_of(payload.get(key)):
            block = mapping_of(value)
            if key == "content" and block.get("type") in (None, "text", "input_text"):
                continue
            name = text_of(value) or text_of(block.get("path"))
            is_data = not name or name.startswith("data:")
            yield AttachmentPart(name="image" if is_data else name[:300], media_type="image")


def _texts(value: object) -> list[str]:
    blocks = list_of(value)
    texts = [text_of(block) or text_of(mapping_of(block).get("text")) for block in blocks]
    return [text for text in texts if text]
