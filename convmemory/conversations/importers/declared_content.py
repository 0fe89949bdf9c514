"""The role and the content of one entry of a declared format, as the blocks that `content.py` reads.

Thirty programs write the same few shapes: text under one of several names, lists of typed parts, reasoning as a part of
its own or in `<think>`, calls with their results in them.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Literal

from convmemory.conversations.importers.attachments import ATTACHMENT_TYPES
from convmemory.conversations.importers.content import AnyBlock, Block, content_parts
from convmemory.conversations.importers.declaration import Declaration
from convmemory.conversations.importers.places import first
from convmemory.conversations.importers.values import list_of, mapping_of, text_of
from convmemory.conversations.messages.parts import ROLES, Role

MAX_NESTING = 30  # of parts in parts
MAX_TAGS = 20  # before and behind what a person typed
THINK, END_THINK = "<think>", "</think>"

_ROLES: Mapping[str, Role] = {
    **dict.fromkeys(("user", "human", "prompter", "me", "you", "request", "question", "prompt"), "user"),
    **dict.fromkeys(("assistant", "ai", "bot", "model", "gpt", "chatgpt", "response", "answer", "agent"), "assistant"),
    **dict.fromkeys(("tool", "function", "observation", "tool_result", "toolresult"), "tool"),
    **dict.fromkeys(("system", "developer"), "system"),
}
ROLES_IMPLIED: Mapping[str, Role | Literal[""]] = {"": "", **{role: role for role in ROLES}}
_TEXTS = (
    *("text", "content", "value", "markdown", "answer", "message", "body", "think", "thinking", "aText", "output"),
    "Text",
)

_TEXTS_SET = frozenset(_TEXTS)

_THINKING = frozenset({"think", "thinking", "thought", "thoughts", "reasoning", "ma", "redacted_thinking"})
_SPOKEN = frozenset(
    {"", "text", "input_text", "output_text", "main_text", "request", "response", "content", "markdown", "paragraph"}
    | {"contentblock", "code", "translation", "info", "agent_message", "assistant_message", "string", "summary_text"}
    | {"compact", "message"}
)
_SILENT = frozenset(
    {"step-start", "step-finish", "source-url", "source-document", "reference", "custom_element", "finish", "citation"}
    | {"data-usage", "status", "debuginfoblock", "toolstatus", "unknown", "void", "redacted_thinking", "search", "tip"}
)
_CALLS = frozenset(
    {"tool_call", "toolcall", "tool-call", "tool-invocation", "toolcallrequest", "dynamic-tool", "tool", "tool.call"}
    | {"function_call", "command_execution", "mcp_tool_call", "file_change", "web_search", "collab_tool_call"}
)
_RESULTS = frozenset({"tool_result", "tool-result", "toolresult", "toolcallresult", "tool_response"})
_CALL_IDS = (
    *("source_call_id", "toolCallId", "tool_call_id", "toolUseID", "tool_use_id", "callId", "call_id"),
    *("toolCallRequestId", "id"),
)
_CALL_NAMES = ("name", "function_name", "toolName", "tool_name", "tool", "tool_type")
# Of a message that is a tool's answer; programs wrap messages under these names.
_WRAPS = ("", "message.", "data.", "kwargs.", "response.", "event.")
_ANSWERED = tuple(f"{wrap}{name}" for wrap in _WRAPS for name in _CALL_IDS if name != "id")
_ANSWERING = tuple(f"{wrap}{name}" for wrap in _WRAPS for name in _CALL_NAMES)
_INPUTS = (
    *("arguments", "command", "changes", "query", "action", "args", "input", "parameters", "publicArguments"),
    "rawInput",
)
_OUTPUTS = ("result", "aggregated_output", "output", "publicResult", "run.result", "errorText")
_FILE_NAMES = ("file_name", "fileName", "filename", "name", "title", "path", "url", "fileUri", "id")
_FILE_TEXTS = ("extracted_content", "content", "text")
_FILE_TYPES = ("mime_type", "mimeType", "mediaType", "contentType", "type")


def readable_role(of: Declaration, entry: Mapping[str, Any]) -> Role | Literal[""] | None:
    """Return the role of the entry, "" if it is known to hold nothing to store, None if it is not known."""
    if of.entry_messages:
        return next((message.role for message in of.entry_messages if first(entry, message.text) is not None), None)
    for described in of.role:
        path, implies, implied = described.partition("?")
        value = first(entry, (path,))
        if implies:
            if value is not None and value is not False:
                return ROLES_IMPLIED[implied]
            continue
        name = str(value).strip().lower() if isinstance(value, str | bool) else ""
        if name in of.roles:
            return of.roles[name]
        if name in _ROLES:
            return _ROLES[name]
        if name and f"{path}:*" in of.roles:
            return of.roles[f"{path}:*"]
    if of.structure and first(entry, (of.structure,)) is None:
        return ""
    return None


def known_role(name: str) -> Role | None:
    """Return the role that programs commonly mean by the name."""
    return _ROLES.get(name.strip().lower())


def is_message(of: Declaration, entry: Mapping[str, Any]) -> bool:
    """Return whether the entry is a message of the format with content that can be read."""
    versions = entry.get(of.versions) if of.versions else None
    if isinstance(versions, list) and versions and isinstance(versions[0], Mapping):
        entry = {**entry, **versions[0]}
    role = readable_role(of, entry)
    if role is None and of.alternating:
        role = "user"  # or the answer: its place in the thread tells
    needed = (path.split("+") for path in of.needs)
    has_needed = not of.needs or any(all(first(entry, (at,)) is not None for at in paths) for paths in needed)
    if not role or not has_needed or first(entry, of.lacks) is not None:
        return False
    text_paths = next(
        (message.text for message in of.entry_messages if first(entry, message.text) is not None), of.text
    )
    unknown: list[str] = []
    blocks = blocks_of_entry(of, entry, role=role, text=text_paths, thinking=of.thinking)
    return bool(content_parts(blocks, unknown=unknown.append)) and not unknown


def blocks_of_entry(
    of: Declaration, entry: Mapping[str, Any], *, role: Role, text: tuple[str, ...], thinking: tuple[str, ...]
) -> list[AnyBlock]:
    """Return the entry's content as blocks: thinking, text, calls, results and files."""
    blocks: list[AnyBlock] = []
    for path in thinking:
        thought = _joined_text(first(entry, (path,)))
        if thought.strip():
            blocks.append(Block.thinking(thought))
            break
    content = first(entry, text)
    if role == "tool" and not _holds_results(content):
        identity, name = first(entry, _ANSWERED), first(entry, _ANSWERING)
        output = content if isinstance(content, str) else _joined_text(content) or content
        return [Block.result(id=identity, name=name, content=output)] if content is not None else blocks
    for block in _blocks_in(content, role, 0):
        if of.runs_on and blocks and (following := _text_in(block)) and (before := _text_in(blocks[-1])):
            blocks[-1] = Block.text(before + following)
        else:
            blocks.append(block)
    for call in _listed(first(entry, of.calls)) if role == "assistant" else ():
        if first(call, _CALL_NAMES) or first(call, ("function", "functionCall")):
            blocks.extend(_call(call))
    blocks.extend(map(_result, map(mapping_of, _listed(first(entry, of.results)))))
    for file in _listed(first(entry, of.files)):
        name = file if isinstance(file, str) else first(file, _FILE_NAMES)
        if name:
            content_of_file = "" if isinstance(file, str) else text_of(first(file, _FILE_TEXTS))
            blocks.append(Block.attachment(text_of(name), text_of(first(file, _FILE_TYPES)), content_of_file))
    return blocks


def _text_in(block: AnyBlock) -> str:
    return text_of(block.get("text")) if isinstance(block, Mapping) and block.get("type") == "text" else ""


def typed_and_added(of: Declaration, blocks: list[AnyBlock]) -> tuple[list[AnyBlock], list[AnyBlock]]:
    """Return what a person typed of a message's blocks, and what the program added."""
    typed: list[AnyBlock] = []
    added: list[AnyBlock] = []
    texts = 0
    for block in blocks:
        text = _text_in(block)
        if not text:
            typed.append(block)
            continue
        text, rest = _unwrapped(of, text.lstrip())
        if rest:
            added.append(Block.text(rest))
        # The text without what the program put before and behind it in tags, and that.
        names = [start[1:-1] for start in of.harness if start.startswith("<") and start.endswith(">")]
        tagged: list[str] = []
        for _ in range(MAX_TAGS):
            for name in names:
                begins, end = text.startswith(f"<{name}>"), f"</{name}>"
                if begins and end in text:
                    inner, _, text = text.partition(end)
                    tagged.append(inner + end)
                elif not begins and text.endswith(end) and f"<{name}>" in text:
                    text, _, inner = text.rpartition(f"<{name}>")
                    tagged.append(f"<{name}>{inner}")
                else:
                    continue
                text = text.strip()
                break
            else:
                break
        added.extend(map(Block.text, tagged))
        if not text and tagged:
            continue
        is_added = text.startswith(of.harness) or (of.first_part and texts)
        texts += not is_added
        (added if is_added else typed).append(Block.text(text))
    return typed, added


def _unwrapped(of: Declaration, text: str) -> tuple[str, str]:
    """Return the text in the tag around it, and what follows that tag."""
    for name in of.unwrap:
        inner, closed, rest = text.removeprefix(f"<{name}>").partition(f"</{name}>")
        if text.startswith(f"<{name}>"):
            return inner.strip(), rest.strip() if closed else ""
    return text, ""


def _blocks_in(content: object, role: Role, depth: int) -> Iterator[AnyBlock]:
    if isinstance(content, str):
        yield Block.text(content)
    elif isinstance(content, list):
        for item in content:
            yield from _blocks_in(item, role, depth + 1) if depth < MAX_NESTING else ()
    elif isinstance(content, Mapping):
        yield from _block(content, role, depth + 1)
    elif content is not None:
        yield {"type": type(content).__name__, "value": content}


def _block(value: Mapping[str, Any], role: Role, depth: int) -> Iterator[AnyBlock]:
    inner = next((value[name] for name in ("part", "data") if isinstance(value.get(name), Mapping)), None)
    if inner is not None and depth < MAX_NESTING:
        yield from _block({"type": value.get("type"), **inner}, role, depth + 1)
        return
    kind = text_of(first(value, ("type", "pt", "kind", "item_type"))).lower()
    if kind in _SILENT:
        return
    is_thought = value.get("thought") is True or value.get("isThought") is True
    if is_thought or kind in _THINKING or first(value, ("style.type",)) == "thinking":
        thought = _joined_text(value) or _joined_text(value.get("summary"))
        yield Block.thinking(thought.replace(THINK, "").replace(END_THINK, "").strip())
    elif kind in _RESULTS or "functionResponse" in value or (role == "tool" and "tool_use_id" in value):
        yield _result(value)
    elif kind.startswith("tool-") or kind in _CALLS or "functionCall" in value or kind.endswith("tool_use"):
        yield from _call(value, text_of(value.get("type")))
    elif kind in ATTACHMENT_TYPES or not {"inlineData", "fileData", "imageUrl", "driveDocument"}.isdisjoint(value):
        file = next(
            (mapping_of(value.get(name)) for name in ("inlineData", "fileData", "driveDocument") if name in value), {}
        )
        if kind in ATTACHMENT_TYPES and not file and "url" not in value:
            yield value
        else:
            name = text_of(first(file or value, _FILE_NAMES)) or kind or "file"
            shown = name if not name.startswith("data:") else kind or "file"
            yield Block.attachment(shown, text_of(first(file or value, ("mimeType", "mediaType", "mime_type"))))
    elif kind in _SPOKEN:
        text = next((value[name] for name in _TEXTS if value.get(name) not in (None, "", [])), None)
        text = text["value"] if isinstance(text, Mapping) and "value" in text else text
        if isinstance(text, str | list | Mapping):
            yield from _blocks_in(text, role, depth + 1) if depth < MAX_NESTING else ()
        elif not _TEXTS_SET & value.keys() and value:
            yield value
    else:
        yield value


def _call(call: object, kind: str = "") -> Iterator[Block]:
    """Yield a call, and its result where the same record holds it."""
    value = mapping_of(call)
    value = mapping_of(value.get("functionCall")) or mapping_of(value.get("toolInvocation")) or value
    inner = mapping_of(value.get("function")) or value
    name = text_of(first(inner, _CALL_NAMES)) or kind.removeprefix("tool-").removesuffix("_call")
    identity, output = first(value, _CALL_IDS), first(value, _OUTPUTS)
    yield Block.call(id=identity, name=name, input=first(inner, _INPUTS))
    if output is not None:
        failed = value.get("state") == "output-error" or value.get("success") is False
        yield Block.result(id=identity, name=name, content=output, is_error=failed)


def _result(value: Mapping[str, Any]) -> Block:
    value = mapping_of(value.get("functionResponse")) or value
    output = first(value, (*_OUTPUTS, "response", "content", "text", "value"))
    inner = output if isinstance(output, Mapping) and len(output) == 1 else {}
    output = next((inner[name] for name in ("output", "error", "text") if isinstance(inner.get(name), str)), output)
    output = (_joined_text(output) or output) if isinstance(output, list) else output
    failed = value.get("is_error") is True or value.get("isError") is True or "error" in inner
    return Block.result(
        id=first(value, _CALL_IDS), name=first(value, _CALL_NAMES), content=output or "", is_error=failed
    )


def _holds_results(content: object) -> bool:
    items = [mapping_of(item) for item in list_of(content)]
    names = {"functionResponse", "tool_use_id"}
    return any(names & item.keys() or text_of(item.get("type")).lower() in _RESULTS for item in items)


def _joined_text(value: object, depth: int = 0) -> str:
    """Return all text in a value, in order."""
    if isinstance(value, str):
        return text_of(value)
    if depth < MAX_NESTING and isinstance(value, list):
        return "\n".join(filter(None, (_joined_text(item, depth + 1) for item in value)))
    if depth < MAX_NESTING and isinstance(value, Mapping):
        inner = next((value[name] for name in _TEXTS if value.get(name)), None)
        return _joined_text(inner, depth + 1)
    return ""


def is_blank(content: object) -> bool:
    """Return whether the content has no texts but empty ones."""
    items = content if isinstance(content, list) else [content]
    texts = (item.get(name) for item in items if isinstance(item, Mapping) for name in _TEXTS)
    others = (item for item in items if not isinstance(item, Mapping))
    return all(text is None or (isinstance(text, str) and not text.strip()) for text in (*texts, *others))


def _listed(value: object) -> list[Any]:
    return value if isinstance(value, list) else [value] if isinstance(value, Mapping) else []
