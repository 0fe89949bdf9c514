"""Chats of GitHub Copilot in VS Code: `workspaceStorage/<hash>/chatSessions/<id>.jsonl`, before 1.109 `<id>.json`.

The lines are a log of changes to one JSON value, which is replayed. The project's folder is in `workspace.json`.

Source: microsoft/vscode `chatModel.ts`.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from convmemory.conversations.importers.base import Checked, FileReport, Reads, Source
from convmemory.conversations.importers.content import Block, record_messages
from convmemory.conversations.importers.json_arrays import dumped, load_json, objects_in
from convmemory.conversations.importers.lines import JsonObject, read_objects
from convmemory.conversations.importers.threads import named
from convmemory.conversations.importers.values import list_of, mapping_of, text_of, time_of
from convmemory.conversations.messages.drafts import ConversationDraft, MessageDraft
from convmemory.conversations.messages.identity import is_global_id
from convmemory.core.errors import TooLarge

_SILENT = frozenset(
    {
        *("undoStop", "codeblockUri", "textEditGroup", "notebookEditGroup", "prepareToolInvocation", "progressMessage"),
        *("progressTask", "progressTaskSerialized", "mcpServersStarting", "command", "confirmation", "references"),
        *("elicitationSerialized", "multiDiffData", "extensions", "pullRequest", "questionCarousel", "usedContext"),
    }
)
_TEXTS = frozenset({"", "markdownContent", "markdownVuln", "warning", "treeData"})
_LOG = re.compile(
    rb'\A(?:\xef\xbb\xbf)?\s{0,9}\{"kind"\s?:\s?(?:0|[1-3](?=.{0,64000}"requests"))\s?,\s?"[vk]"', re.DOTALL
)

MAX_LOG_BYTES = 128 * 1024**2
MAX_STEPS = 64  # the longest path of a change
INITIAL, SET, PUSH, DELETE = range(4)


@dataclass(frozen=True, slots=True)
class VSCodeCopilotImporter:
    """Reads one chat."""

    name: str = "vscode-copilot"
    checked: Checked = Checked("VS Code", "1.118")
    reads: Reads = Reads()

    def sniff(self, source: Source) -> int | None:
        """See `Importer.sniff`."""
        head = source.head
        if _LOG.search(head):
            return 90
        has_session_keys = b'"responderUsername"' in head or b'"requesterUsername"' in head or b'"creationDate"' in head
        return 85 if b'"requests"' in head and b'"message"' in head and has_session_keys else None

    def parse(self, source: Source, report: FileReport) -> Iterator[ConversationDraft]:
        """See `Importer.parse`."""
        path = source.path
        if path.suffix == ".json" and path.with_suffix(".jsonl").exists():
            report.note(f"{path.stem}.jsonl next to it holds the chat with what followed: that one is read")
            return
        session = mapping_of(load_json(path) if path.suffix == ".json" else replayed(path, report))
        requests = list(objects_in(session.get("requests"), "request", report))
        if not requests:
            report.note("a chat without any message")
            return
        # The folder that the window had open, from `workspace.json` above the chats.
        manifest = path.resolve().parent.parent / "workspace.json"
        if not manifest.is_file():
            project = ""
        else:
            value = mapping_of(load_json(manifest, max_bytes=1024**2))
            address = text_of(value.get("folder")) or text_of(value.get("workspace"))
            try:
                project = unquote(urlsplit(address).path)
            except ValueError:
                project = ""
        draft = ConversationDraft(
            messages=_messages(requests, report),
            source=self.name,
            title=text_of(session.get("customTitle")) or text_of(session.get("computedTitle")),
            agent=self.name,
            project=project,
            created_at=time_of(session.get("creationDate")),
        )
        # "Chat: Export Chat…" writes no id, and proposes the same name for every file.
        own_id = text_of(session.get("sessionId")) or (path.stem if is_global_id(path.stem) else "")
        yield named(draft, own_id, former=path.stem)


def _messages(requests: list[Mapping[str, Any]], report: FileReport) -> Iterator[MessageDraft]:
    for number, request in enumerate(requests, 1):
        key = text_of(request.get("requestId")) or f"request:{number}"
        gone = bool(request.get("shouldBeRemovedOnSend")) or request.get("isHidden") is True
        at = time_of(request.get("timestamp"))
        question = record_messages(
            role="user", blocks=_question(request), key=key, unknown=report.unknown, created_at=at,
            injected=request.get("isSystemInitiated") is True, raw=dumped(request),
        )  # fmt: skip
        answer = record_messages(
            role="assistant", blocks=_answer(request, report), key=f"{key}:answer", unknown=report.unknown,
            created_at=at, model=text_of(request.get("modelId")).removeprefix("copilot/"),
        )  # fmt: skip
        for draft in (*question, *answer):
            yield replace(draft, superseded=gone)


def _question(request: Mapping[str, Any]) -> Iterator[Block]:
    message = request.get("message")
    yield Block.text(message if isinstance(message, str) else mapping_of(message).get("text"))
    for variable in map(mapping_of, list_of(mapping_of(request.get("variableData")).get("variables"))):
        if variable.get("kind") in ("file", "image", "directory"):
            yield Block.attachment(variable.get("name"), variable.get("mimeType"))


def _answer(request: Mapping[str, Any], report: FileReport) -> Iterator[Block]:
    """Yield the answer's items; consecutive pieces of text are joined."""
    texts: list[str] = []
    for item in list_of(request.get("response")):
        value = {"value": item} if isinstance(item, str) else mapping_of(item)
        # The text that an item adds to the answer.
        kind = text_of(value.get("kind"))
        if kind == "inlineReference":
            reference = mapping_of(value.get("inlineReference"))
            location = mapping_of(reference.get("location")).get("uri") or reference
            path = (
                text_of(value.get("name"))
                or text_of(reference.get("name"))
                or text_of(mapping_of(location).get("path"))
            )
            text = f"`{path}`" if path else ""
        else:
            text = _words(value.get("content") or value.get("value")) if kind in _TEXTS else ""
        if text:
            texts.append(text)
            continue
        blocks = list(_other(value, report))
        if blocks and texts:
            yield Block.text("".join(texts))
            texts = []
        yield from blocks
    yield Block.text("".join(texts))
    error = text_of(mapping_of(mapping_of(request.get("result")).get("errorDetails")).get("message"))
    yield Block.text(error)


def _other(item: Mapping[str, Any], report: FileReport) -> Iterator[Block]:
    kind = text_of(item.get("kind"))
    if kind == "thinking":
        value = item.get("value")
        texts = value if isinstance(value, list) else [value]
        yield Block.thinking("".join(map(text_of, texts)))
    elif kind in ("toolInvocationSerialized", "toolInvocation"):
        # A call: its description, its command, and its result.
        id, name = item.get("toolCallId"), item.get("toolId")
        data, details = mapping_of(item.get("toolSpecificData")), item.get("resultDetails")
        line = mapping_of(data.get("commandLine"))
        arguments = {
            "command": text_of(line.get("toolEdited")) or text_of(line.get("original")) or text_of(data.get("command")),
            "input": text_of(mapping_of(details).get("input")) or text_of(data.get("rawInput")),
            "message": _words(item.get("invocationMessage")),
        }
        yield Block.call(id=id, name=name, input={key: value for key, value in arguments.items() if value})
        terminal = text_of(mapping_of(data.get("terminalCommandOutput")).get("text"))
        listed = map(mapping_of, list_of(mapping_of(details).get("output")))
        shown = [text_of(output.get("value")) for output in listed if output.get("isText")]
        result = terminal or "\n".join(filter(None, shown)) or _words(item.get("pastTenseMessage"))
        if result:
            yield Block.result(id=id, name=name, content=result, is_error=mapping_of(details).get("isError") is True)
    elif kind not in _SILENT | _TEXTS | {"inlineReference"}:
        report.unknown(kind)


def _words(value: object) -> str:
    """Return a Markdown string, which is a text or an object with one."""
    return text_of(value) or text_of(mapping_of(value).get("value"))


def replayed(path: Path, report: FileReport) -> Any:
    """Return the final value of the log; None for an empty one. Raises: TooLarge, InvalidInput.

    `{"kind": 0, "v": …}` sets the value, then changes come at paths `k`: kind 1 sets a place, 2 cuts a list at `i` and
    appends to it, 3 deletes a place. Changes at unknown paths are skipped.

    Source: microsoft/vscode `src/vs/workbench/contrib/chat/common/model/objectMutationLog.ts`.
    """
    if path.stat().st_size > MAX_LOG_BYTES:
        raise TooLarge(f"A chat's log is read only up to {MAX_LOG_BYTES // 1024**2} MB: export the chat instead.")
    root: dict[str, Any] = {}
    for item in read_objects(path, on_issue=report.line_issue):
        if item.value.get("kind") == INITIAL:
            root["value"] = item.value.get("v")
            continue
        if "value" not in root:
            report.repair(item.number, "the log begins with a change: what was said before it is missing")
            root["value"] = {}
        if not _changed(root, item):
            report.skip(item.number, "a change that leads nowhere")
    return root.get("value")


def _changed(root: dict[str, Any], item: JsonObject) -> bool:
    kind, keys = item.value.get("kind"), item.value.get("k")
    if not isinstance(keys, list) or len(keys) > MAX_STEPS or kind not in (SET, PUSH, DELETE):
        return False
    *above, last = ["value", *keys]
    parent: Any = root
    for key in above:
        if not _contains(parent, key):
            return False
        parent = parent[key]
    if kind == PUSH:
        return _push(parent, last, item.value)
    if kind == SET:
        if isinstance(parent, list) and last == len(parent) and not isinstance(last, bool):
            parent.append(item.value.get("v"))
            return True
        if not (_contains(parent, last) or (isinstance(parent, dict) and isinstance(last, str))):
            return False
        parent[last] = item.value.get("v")
        return True
    if not _contains(parent, last):
        return False
    if isinstance(parent, list):
        parent[last] = None  # as in VS Code: the other places keep their numbers
    else:
        del parent[last]
    return True


def _contains(parent: Any, key: object) -> bool:
    if isinstance(parent, list):
        return isinstance(key, int) and not isinstance(key, bool) and 0 <= key < len(parent)
    return isinstance(parent, dict) and isinstance(key, str) and key in parent


def _push(parent: Any, key: Any, change: Mapping[str, Any]) -> bool:
    if not _contains(parent, key) and isinstance(parent, dict) and isinstance(key, str):
        parent[key] = []
    target = parent[key] if _contains(parent, key) else None
    values, start = change.get("v", []), change.get("i")
    if not isinstance(target, list) or not isinstance(values, list):
        return False
    if isinstance(start, int) and not isinstance(start, bool) and start >= 0:
        del target[start:]
    target.extend(values)
    return True
