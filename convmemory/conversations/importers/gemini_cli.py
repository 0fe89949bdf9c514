"""Sessions of Gemini CLI: one JSON document, or since 0.40 lines that rewrite and rewind earlier ones.

The project's folder is not in the file; `.project_root` next to the chats names it.

Source: google-gemini/gemini-cli `chatRecordingService.ts`, `utils/paths.ts`.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from convmemory.conversations.importers.agent_formats import HARNESS
from convmemory.conversations.importers.base import Checked, FileReport, Reads, Source
from convmemory.conversations.importers.content import Block, record_messages
from convmemory.conversations.importers.json_arrays import dumped, load_json, objects_in
from convmemory.conversations.importers.lines import read_objects
from convmemory.conversations.importers.threads import Timeline, named
from convmemory.conversations.importers.values import list_of, mapping_of, text_of, time_of
from convmemory.conversations.messages.drafts import ConversationDraft, MessageDraft
from convmemory.conversations.messages.parts import Role

MAX_PATH_CHARS = 4096
FOLDERS_ABOVE = 3  # `.project_root` is at most this far above a chat

_ROLES: dict[str, Role] = {
    "user": "user",
    "gemini": "assistant",
    "model": "assistant",
    "info": "system",
    "error": "system",
    "warning": "system",
}
_HOOK, _HOOK_END = "<hook_context>", "</hook_context>"
# A message, or the times of a session that may have none.
_READABLE = re.compile(rb'"type"\s*:\s*"(?:user|gemini|info|error|warning)"|"(?:startTime|lastUpdated)"\s*:')


@dataclass(frozen=True, slots=True)
class GeminiCliImporter:
    """Reads one session file."""

    name: str = "gemini-cli"
    checked: Checked = Checked("Gemini CLI", "0.61")
    reads: Reads = Reads()

    def sniff(self, source: Source) -> int | None:
        """See `Importer.sniff`."""
        head = source.head
        if (b'"projectHash"' in head or b'"startTime"' in head) and b'"sessionId"' in head and _READABLE.search(head):
            return 90
        return 60 if b'"history"' in head and b'"parts"' in head and b'"role"' in head else None

    def parse(self, source: Source, report: FileReport) -> Iterator[ConversationDraft]:
        """See `Importer.parse`."""
        twin = source.path.with_suffix(".jsonl")
        if source.path.suffix == ".json" and twin.exists():
            report.note(f"{twin.name} next to it holds the session with what followed: that one is read")
            return
        session = _Session(report)
        if source.path.suffix == ".json":
            session.read_document(mapping_of(load_json(source.path)))
        else:
            session.read_lines(source)
        if not session.records:
            report.note("a session without any message")
            return
        header = session.header
        project = ""
        for folder in list(source.path.resolve().parents)[:FOLDERS_ABOVE]:
            path = folder / ".project_root"
            if path.is_file():
                with path.open("rb") as file:
                    project = text_of(file.read(MAX_PATH_CHARS).decode("utf-8", "replace").strip())
                    break
        draft = ConversationDraft(
            messages=session.messages(),
            source=self.name,
            title=text_of(header.get("summary")),
            agent=self.name,
            project=project,
            created_at=time_of(header.get("startTime")) or time_of(header.get("start_time")),
            parent_source_id=source.path.parent.name if header.get("kind") == "subagent" else "",
        )
        yield named(draft, text_of(header.get("sessionId")), former=source.path.stem)


@dataclass(slots=True)
class _Session:
    """The result of a log: the last content of each record, at the position of its first."""

    report: FileReport
    header: dict[str, Any] = field(default_factory=dict)
    records: dict[str, tuple[Mapping[str, Any], bytes]] = field(default_factory=dict)
    timeline: Timeline = field(default_factory=Timeline)

    def read_document(self, value: Mapping[str, Any]) -> None:
        self.header.update({key: item for key, item in value.items() if key not in ("messages", "history")})
        self._add(objects_in(value.get("messages") or value.get("history"), "message", self.report))

    def read_lines(self, source: Source) -> None:
        for item in read_objects(source.path, on_issue=self.report.line_issue):
            value = item.value
            if "$rewindTo" in value:
                self.timeline.rewind_to(text_of(value["$rewindTo"]))
            elif isinstance(value.get("$set"), dict):
                # Change the header, and add the messages that are new. A list of messages is what the model is sent
                # from now on, after a resumption or a compression: without prompts that begin with the context of a
                # hook, and with calls and results under one id. Nothing was taken back.
                values = value["$set"]
                if "messages" in values:
                    listed = objects_in(values["messages"], "message", self.report)
                    self._add(message for message in listed if text_of(message.get("id")) not in self.records)
                self.header.update({key: item for key, item in values.items() if key != "messages"})
            elif "type" in value and "content" in value:
                self._add([value], item.raw)
            elif "sessionId" in value:
                self.header.update(value)
            else:
                self.report.unknown(next(iter(value), "(empty)"))

    def _add(self, values: Iterable[Mapping[str, Any]], raw: bytes = b"") -> None:
        for value in values:
            key = text_of(value.get("id")) or f"message:{len(self.records) + 1}"
            self.timeline.add(key, opens_turn=value.get("type") == "user")
            self.records[key] = (value, raw)

    def messages(self) -> Iterator[MessageDraft]:
        calls = [mapping_of(call) for value, _ in self.records.values() for call in list_of(value.get("toolCalls"))]
        answered = frozenset(text_of(call.get("id")) for call in calls if call.get("result"))
        for key, (value, raw) in self.records.items():
            superseded = key in self.timeline.superseded
            for draft in _messages(key, value, raw or dumped(value), answered, self.report):
                yield replace(draft, superseded=superseded)


def _messages(
    key: str, value: Mapping[str, Any], raw: bytes, answered: Collection[str], report: FileReport
) -> Iterator[MessageDraft]:
    kind = text_of(value.get("type")) or text_of(value.get("role"))
    role = _ROLES.get(kind)
    if role is None:
        report.unknown(kind or "(no type)")
        return
    typed: list[Block] = []
    added: list[Block] = []
    for block in _blocks(value, answered, report):
        # The context of the session and of hooks comes as messages, or parts of them, of the person. That of a
        # session's first hook is put before the prompt; what it says is escaped, so that it cannot end early.
        text = text_of(block.get("text")).lstrip() if role == "user" else ""
        before, end, prompt = text.partition(_HOOK_END) if text.startswith(_HOOK) else ("", "", "")
        if prompt.strip():
            added.append(Block.text(before + end))
            typed.append(Block.text(prompt.lstrip()))
        else:
            (added if text.startswith(HARNESS) else typed).append(block)
    common: dict[str, Any] = {
        "unknown": report.unknown,
        "created_at": time_of(value.get("timestamp")) or time_of(value.get("ts")),
        "model": text_of(value.get("model")),
    }
    drafts = list(record_messages(role=role, blocks=typed, key=key, injected=role == "system", raw=raw, **common))
    own_key = f"{key}:added" if drafts else key
    drafts += record_messages(
        role="system", blocks=added, key=own_key, injected=True, raw=b"" if drafts else raw, **common
    )
    yield from drafts


def _blocks(value: Mapping[str, Any], answered: Collection[str], report: FileReport) -> Iterator[Block]:
    for thought in map(mapping_of, list_of(value.get("thoughts"))):
        lines = (text_of(thought.get("subject")), text_of(thought.get("description")))
        yield Block.thinking("\n".join(filter(None, lines)))
    shown = value.get("displayContent")
    content = next((item for item in (shown, value.get("content"), value.get("parts")) if item), "")
    calls = list(map(mapping_of, list_of(value.get("toolCalls"))))
    called = {text_of(call.get("id")) for call in calls}
    for part in content if isinstance(content, list) else [content]:
        # Newer versions write a call and its result twice: as parts of messages, and with the call.
        call, answer = (
            mapping_of(mapping_of(part).get("functionCall")),
            mapping_of(mapping_of(part).get("functionResponse")),
        )
        if (call and text_of(call.get("id")) in called) or (answer and text_of(answer.get("id")) in answered):
            continue
        yield from _part(part, report)
    for call in calls:
        yield Block.call(id=call.get("id"), name=call.get("name"), input=call.get("args"))
        failed = call.get("status") in ("error", "cancelled")
        if call.get("result") is None and call.get("resultDisplay") is None and not failed:
            continue  # it was not answered, or a later message does
        # The tool's result for the model; its display text if there is nothing else.
        answers = (mapping_of(mapping_of(item).get("functionResponse")) for item in list_of(call.get("result")))
        texts = [mapping_of(answer.get("response")) for answer in answers]
        outputs = [
            text for text in (text_of(value.get("output")) or text_of(value.get("error")) for value in texts) if text
        ]
        yield Block.result(
            id=call.get("id"),
            name=call.get("name"),
            content="\n".join(outputs) or next((value for value in texts if value), call.get("resultDisplay")),
            is_error=failed,
        )


def _part(part: object, report: FileReport) -> Iterator[Block]:
    """Yield a part of the Gemini API: text, a file, or a call."""
    value = {"text": part} if isinstance(part, str) else mapping_of(part)
    file = mapping_of(value.get("inlineData")) or mapping_of(value.get("fileData"))
    call, answer = mapping_of(value.get("functionCall")), mapping_of(value.get("functionResponse"))
    if isinstance(value.get("text"), str):
        yield Block.thinking(value["text"]) if value.get("thought") is True else Block.text(value["text"])
    elif file:
        yield Block.attachment(file.get("displayName") or file.get("fileUri"), file.get("mimeType"))
    elif call:
        yield Block.call(id=call.get("id"), name=call.get("name"), input=call.get("args"))
    elif answer:
        yield Block.result(id=answer.get("id"), name=answer.get("name"), content=answer.get("response"))
    else:
        report.unknown(f"part {next(iter(value), '(empty)')}")
