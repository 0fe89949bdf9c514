"""Reads sessions of JetBrains' Junie: `~/.junie/sessions/session-<time>-<id>/events.jsonl`.

A prompt is an event of its own. What the agent does comes as blocks, each written again whenever it changes: the last
state of a block counts, at its first place. Nothing in the file has an id or, in most versions, a time.

Source: the events that Haehnchen/idea-de-espend-ml-llm reads.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import PurePath
from typing import Any

from convmemory.conversations.importers.base import Checked, FileReport, Reads, Source
from convmemory.conversations.importers.content import Block, record_messages
from convmemory.conversations.importers.lines import JsonObject, read_objects, read_objects_at
from convmemory.conversations.importers.threads import MessageKeys, named
from convmemory.conversations.importers.values import list_of, mapping_of, text_of, time_of
from convmemory.conversations.messages.drafts import ConversationDraft, MessageDraft

_PROMPT, _EVENT = "UserPromptEvent", "SessionA2uxEvent"
MAX_LISTED = 10_000  # sessions of the list next to their folders
_SESSION = re.compile(r"session-\d{6}-\d{6}-\w{2,16}")
_BLOCKS = "BlockUpdatedEvent"
_FAILURE, _TITLE = "AgentFailureEvent", "AgentTaskNameUpdatedEvent"
# The state of the program, and what blocks say again.
_SILENT = frozenset(
    {
        *("AgentCurrentStatusUpdatedEvent", "AgentStateUpdatedEvent", "LlmResponseMetadataEvent", _TITLE),
        *("AgentPatchCreatedEvent", "TaskState", "SendToAgentEvent"),
    }
)


@dataclass(frozen=True, slots=True)
class JunieImporter:
    """Reads one session."""

    name: str = "junie"
    checked: Checked = Checked("Junie", "2026-02")
    reads: Reads = Reads()

    def sniff(self, source: Source) -> int | None:
        """See `Importer.sniff`."""
        kinds = {text_of(item.value.get("kind")) for item in source.head_objects}
        return None if kinds.isdisjoint((_PROMPT, _EVENT)) else 92

    def parse(self, source: Source, report: FileReport) -> Iterator[ConversationDraft]:
        """See `Importer.parse`."""
        addresses: dict[str, tuple[int, int, int]] = {}
        title = model = ""
        for item in read_objects(source.path, on_issue=report.line_issue):
            kind, event = _event(item.value)
            if kind == _TITLE:
                title = text_of(event.get("taskName")) or text_of(event.get("name")) or title
            for usage in map(mapping_of, list_of(event.get("modelUsage"))):
                model = text_of(usage.get("model")) or model
            if kind in (_PROMPT, _FAILURE) or kind.endswith(_BLOCKS):
                step = text_of(event.get("stepId")) if kind != _PROMPT else ""
                addresses[f"{kind}:{step}" if step else f"{item.number}.{item.index}"] = (
                    item.offset,
                    item.number,
                    item.index,
                )
            elif kind not in _SILENT:
                report.unknown(kind or "(no kind)")
        if not addresses:
            report.note("a session without any message")
            return
        records = read_objects_at(source.path, addresses.values(), until=source.path.stat().st_size)
        draft = ConversationDraft(
            messages=_messages(records, model, report), source=self.name, title=title, agent=self.name
        )
        folder = next(filter(_SESSION.fullmatch, reversed(PurePath(source.label).parts)), "")
        index = source.path.parent.with_name("index.jsonl")
        if folder and not title and index.is_file():
            rows = (row.value for row in islice(read_objects(index), MAX_LISTED))
            title = next((text_of(row.get("taskName")) for row in rows if row.get("sessionId") == folder), "")
            draft = replace(draft, title=title)
        # Not shared with another session: its name has a time and random letters.
        yield replace(named(draft, folder), has_weak_id=not folder)


def _messages(records: Iterator[JsonObject], model: str, report: FileReport) -> Iterator[MessageDraft]:
    keys = MessageKeys()
    for item in records:
        kind, event = _event(item.value)
        step = text_of(event.get("stepId"))
        prompt = text_of(event.get("prompt"))
        yield from record_messages(
            role="user" if kind == _PROMPT else "assistant",
            blocks=[Block.text(prompt)] if kind == _PROMPT else _blocks(kind, event),
            key=f"{kind}:{step}"
            if step and kind != _PROMPT
            else keys.key(kind, prompt or text_of(event.get("message"))),
            unknown=report.unknown,
            created_at=time_of(item.value.get("timestamp")) or time_of(item.value.get("createdAt")),
            model=model,
            raw=item.raw,
        )


def _event(value: Mapping[str, Any]) -> tuple[str, Mapping[str, Any]]:
    """Return the kind of a record, and what it holds."""
    kind = text_of(value.get("kind"))
    inner = mapping_of(mapping_of(value.get("event")).get("agentEvent"))
    return (text_of(inner.get("kind")), inner) if kind == _EVENT else (kind, value)


def _blocks(kind: str, event: Mapping[str, Any]) -> Iterator[Block]:
    if kind == f"Result{_BLOCKS}":
        yield Block.text(event.get("result"))
        return
    if kind == _FAILURE:
        yield Block.text(event.get("message"))
        return
    name = kind.removesuffix(_BLOCKS) or "tool"
    arguments = {key: event[key] for key in ("text", "command", "files", "changes") if event.get(key)}
    yield Block.call(id=event.get("stepId"), name=name, input=arguments)
    shown = [text_of(event.get(key)) for key in ("output", "details")]
    output = "\n".join(filter(None, dict.fromkeys(shown))) or text_of(event.get("presentableOutput"))
    if output:
        yield Block.result(id=event.get("stepId"), name=name, content=output, is_error=event.get("status") == "FAILED")
