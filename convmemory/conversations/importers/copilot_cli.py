"""Sessions of GitHub Copilot CLI and of Copilot in JetBrains' editors, which log the same events.

The first are `~/.copilot/session-state/<folder>/events.jsonl`, the others `~/.copilot/jb/<id>/partition-<n>.jsonl`, in
which an answer is in `text`, a call only in the event of its start, and many prompts only as they were rendered. A
person's text is in `content`; `transformedContent` includes the program's additions. The session's id is in the first
event, not in the folder's name.

Source: github/copilot-cli, versions 1.0.64 to 1.0.76; the events of github/copilot-sdk; rajbos/ai-engineering-fluency,
its reader of JetBrains.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

from convmemory.conversations.importers.base import Checked, FileReport, Reads, Source
from convmemory.conversations.importers.content import Block, record_messages
from convmemory.conversations.importers.lines import JsonObject, read_objects
from convmemory.conversations.importers.threads import Timeline, ToolNames, named
from convmemory.conversations.importers.values import key_of, list_of, mapping_of, text_of, time_of
from convmemory.conversations.messages.drafts import ConversationDraft, MessageDraft
from convmemory.conversations.messages.parts import Role

MAX_SUMMARY_BYTES = 64 * 1024  # the title is on one of the first lines
SUMMARY = "summary: "

_RENDERED, _STARTED = "user.message_rendered", "tool.execution_start"
_BEGINNINGS = ("session.start", "partition.created")
_MESSAGES: dict[str, Role] = {
    "user.message": "user",
    _RENDERED: "user",
    _STARTED: "assistant",
    "assistant.thinking": "assistant",
    "assistant.message": "assistant",
    "tool.execution_complete": "tool",
    "session.error": "system",
    "session.compaction_complete": "system",
}
_REWIND = "session.snapshot_rewind"
_SILENT = (
    "session.",
    "partition.",
    "hook.",
    "assistant.",
    "tool.",
    "system.",
    "subagent.",
    "skill.",
    "abort",
    "permission.",
    "user.",
)

_TEXTS = ("content", "text", "renderedMessage", "summaryContent", "message")


@dataclass(frozen=True, slots=True)
class CopilotCliImporter:
    """Reads one event log."""

    name: str = "copilot-cli"
    checked: Checked = Checked("GitHub Copilot CLI", "1.0.102")
    reads: Reads = Reads()

    def sniff(self, source: Source) -> int | None:
        """See `Importer.sniff`."""
        for item in source.head_objects:
            data = item.value.get("data")
            if isinstance(data, dict) and text_of(item.value.get("type")) in (*_BEGINNINGS, *_MESSAGES):
                return 95
        return None

    def parse(self, source: Source, report: FileReport) -> Iterator[ConversationDraft]:
        """See `Importer.parse`."""
        # The ids of events that a rewind took back, and of those that other events tell in full.
        timeline, covered = Timeline(), set()
        for item in read_objects(source.path):
            kind, data = text_of(item.value.get("type")), mapping_of(item.value.get("data"))
            if kind == _REWIND:
                timeline.rewind_to(text_of(data.get("upToEventId")))
            elif kind in _MESSAGES:
                timeline.add(_key(item))
            if kind == "user.message":
                covered.add((_RENDERED, text_of(data.get("turnId"))))
            covered.update((_STARTED, text_of(call.get("toolCallId"))) for call in _requests(data))
        events = read_objects(source.path, on_issue=report.line_issue)
        first = next(events, None)
        if first is None:
            report.note("a session without any event")
            return
        start = mapping_of(first.value.get("data")) if first.value.get("type") in _BEGINNINGS else {}
        context = mapping_of(start.get("context"))
        report.written_by(text_of(start.get("copilotVersion")), self.checked)
        # The session's title, a line of `workspace.yaml` in the events' folder.
        path = source.path.parent / "workspace.yaml"
        if not path.is_file():
            title = ""
        else:
            with path.open("rb") as file:
                lines = file.read(MAX_SUMMARY_BYTES).decode("utf-8", "replace").splitlines()
            summary_line = next((line for line in lines if line.startswith(SUMMARY)), "")
            title = text_of(summary_line.removeprefix(SUMMARY).strip().strip("\"'")).strip("|>-")
        draft = ConversationDraft(
            messages=_messages(chain([first], events), timeline.superseded, covered, report),
            source=self.name,
            title=title,
            agent=self.name,
            project=text_of(context.get("gitRoot")) or text_of(context.get("cwd")),
            created_at=time_of(start.get("startTime") or start.get("createdAt"))
            or time_of(first.value.get("timestamp")),
        )
        own_id = text_of(start.get("sessionId")) or text_of(start.get("conversationId"))
        yield named(draft, own_id, former=source.path.parent.name)


def _messages(
    events: Iterator[JsonObject], taken_back: set[str], covered: set[tuple[str, str]], report: FileReport
) -> Iterator[MessageDraft]:
    tools = ToolNames()
    turn_model = ""
    for item in events:
        kind, key = text_of(item.value.get("type")), _key(item)
        data = mapping_of(item.value.get("data"))
        if kind == "assistant.turn_start":
            turn_model = text_of(data.get("model"))
        role = _MESSAGES.get(kind)
        if role is None:
            if not kind.startswith(_SILENT):
                report.unknown(kind or "(no type)")
            continue
        if (kind, text_of(data.get("turnId" if kind == _RENDERED else "toolCallId"))) in covered:
            continue
        source = text_of(data.get("source"))
        for draft in record_messages(
            role=role,
            blocks=_blocks(kind, data),
            key=key,
            unknown=report.unknown,
            created_at=time_of(item.value.get("timestamp")),
            model=text_of(data.get("model")) or turn_model,
            injected=role == "system" or source not in ("", "user"),
            raw=item.raw,
        ):
            yield replace(tools.added_to(draft), superseded=key in taken_back)


def _key(item: JsonObject) -> str:
    return key_of(text_of(item.value.get("id")) or f"line:{item.number}.{item.index}")


def _blocks(kind: str, data: Mapping[str, Any]) -> Iterator[Block]:
    if kind == "tool.execution_complete":
        result, error = data.get("result"), mapping_of(data.get("error"))
        values = [text_of(mapping_of(item).get("value")) for item in list_of(mapping_of(result).get("result"))]
        output: object = error.get("message") or (
            mapping_of(result).get("content", "\n".join(values)) if isinstance(result, dict) else result
        )
        yield Block.result(
            id=data.get("toolCallId"), name=data.get("toolName"), content=output, is_error=data.get("success") is False
        )
        return
    if kind == _STARTED:
        yield Block.call(id=data.get("toolCallId"), name=data.get("toolName"), input=data.get("arguments"))
        return
    if kind == "assistant.thinking":
        yield Block.thinking(text_of(data.get("text")) or text_of(data.get("content")))
        return
    yield Block.thinking(text_of(data.get("reasoningText")) or text_of(mapping_of(data.get("thinking")).get("text")))
    yield Block.text(next(filter(None, (text_of(data.get(key)) for key in _TEXTS)), ""))
    for file in map(mapping_of, list_of(data.get("attachments"))):
        yield Block.attachment(file.get("displayName") or file.get("path"), file.get("mimeType"))
    for call in _requests(data):
        yield Block.call(id=call.get("toolCallId"), name=call.get("name"), input=call.get("arguments"))


def _requests(data: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    return map(mapping_of, list_of(data.get("toolRequests")))
