"""Sessions of GitHub Copilot CLI: `~/.copilot/session-state/<folder>/events.jsonl`.

A person's text is in `content`; `transformedContent` includes the program's additions. The session's id is in the first
event, not in the folder's name.

Source: github/copilot-cli, versions 1.0.64 to 1.0.76; the events of github/copilot-sdk.
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

_MESSAGES: dict[str, Role] = {
    "user.message": "user",
    "assistant.message": "assistant",
    "tool.execution_complete": "tool",
    "session.error": "system",
    "session.compaction_complete": "system",
}
_REWIND = "session.snapshot_rewind"
_SILENT = (
    "session.",
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
            if isinstance(data, dict) and text_of(item.value.get("type")) in ("session.start", *_MESSAGES):
                return 95
        return None

    def parse(self, source: Source, report: FileReport) -> Iterator[ConversationDraft]:
        """See `Importer.parse`."""
        # The ids of events that a rewind took back.
        timeline = Timeline()
        for item in read_objects(source.path):
            if item.value.get("type") == _REWIND:
                timeline.rewind_to(text_of(mapping_of(item.value.get("data")).get("upToEventId")))
            elif text_of(item.value.get("type")) in _MESSAGES:
                timeline.add(_key(item))
        taken_back = timeline.superseded
        events = read_objects(source.path, on_issue=report.line_issue)
        first = next(events, None)
        if first is None:
            report.note("a session without any event")
            return
        start = mapping_of(first.value.get("data")) if first.value.get("type") == "session.start" else {}
        context = mapping_of(start.get("context"))
        report.written_by(text_of(start.get("copilotVersion")), self.checked)
        # The session's title, a line of `workspace.yaml` in the events' folder.
        path = source.path.parent / "workspace.yaml"
        if not path.is_file():
            title = ""
        else:
            with path.open("rb") as file:
                lines = file.read(MAX_SUMMARY_BYTES).decode("utf-8", "replace").splitlines()
            found = next((line for line in lines if line.startswith(SUMMARY)), "")
            title = text_of(found.removeprefix(SUMMARY).strip().strip("\"'")).strip("|>-")
        draft = ConversationDraft(
            messages=_messages(chain([first], events), taken_back, report),
            source=self.name,
            title=title,
            agent=self.name,
            project=text_of(context.get("gitRoot")) or text_of(context.get("cwd")),
            created_at=time_of(start.get("startTime")) or time_of(first.value.get("timestamp")),
        )
        yield named(draft, text_of(start.get("sessionId")), former=source.path.parent.name)


def _messages(events: Iterator[JsonObject], taken_back: set[str], report: FileReport) -> Iterator[MessageDraft]:
    tools = ToolNames()
    for item in events:
        kind, key = text_of(item.value.get("type")), _key(item)
        role = _MESSAGES.get(kind)
        if role is None:
            if not kind.startswith(_SILENT):
                report.unknown(kind or "(no type)")
            continue
        data = mapping_of(item.value.get("data"))
        source = text_of(data.get("source"))
        for draft in record_messages(
            role=role,
            blocks=_blocks(kind, data),
            key=key,
            unknown=report.unknown,
            created_at=time_of(item.value.get("timestamp")),
            model=text_of(data.get("model")),
            injected=role == "system" or source not in ("", "user"),
            raw=item.raw,
        ):
            yield replace(tools.added_to(draft), superseded=key in taken_back)


def _key(item: JsonObject) -> str:
    return key_of(text_of(item.value.get("id")) or f"line:{item.number}.{item.index}")


def _blocks(kind: str, data: Mapping[str, Any]) -> Iterator[Block]:
    if kind == "tool.execution_complete":
        result, error = data.get("result"), mapping_of(data.get("error"))
        said: object = error.get("message") or (
            mapping_of(result).get("content") if isinstance(result, dict) else result
        )
        yield Block.result(
            id=data.get("toolCallId"), name=data.get("toolName"), content=said, is_error=data.get("success") is False
        )
        return
    yield Block.thinking(text_of(data.get("reasoningText")))
    yield Block.text(next(filter(None, (text_of(data.get(key)) for key in _TEXTS)), ""))
    for file in map(mapping_of, list_of(data.get("attachments"))):
        yield Block.attachment(file.get("displayName") or file.get("path"), file.get("mimeType"))
    for call in map(mapping_of, list_of(data.get("toolRequests"))):
        yield Block.call(id=call.get("toolCallId"), name=call.get("name"), input=call.get("arguments"))


_TEXTS = ("content", "summaryContent", "message")
