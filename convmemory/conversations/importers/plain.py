"""Messages in OpenAI or Anthropic format, as JSON or as JSON lines.

A list of messages, a list of conversations `{"messages": [...]}`, one such object, or either as JSON lines. A
conversation is named by its own id, else by its first messages. An object that is no message is reported, not stored.
"""

import itertools
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from convmemory.conversations.importers.base import JSON_SUFFIXES, Checked, FileReport, Reads, Source
from convmemory.conversations.importers.content import MESSAGE_KEYS, content_parts, first_time, kept_message
from convmemory.conversations.importers.declared_content import known_role
from convmemory.conversations.importers.declared_messages import name_of
from convmemory.conversations.importers.json_arrays import load_json
from convmemory.conversations.importers.lines import read_objects
from convmemory.conversations.importers.values import key_of, mapping_of, short_hash, text_of, value_without_payloads
from convmemory.conversations.messages.drafts import ConversationDraft, MessageDraft
from convmemory.conversations.messages.identity import MAX_ID_CHARS, is_global_id, named_by_opening, with_distinct_id

MAX_OPENING = 20  # messages at most that name a conversation without an id
MIN_GLOBAL_ID_CHARS = 8  # shorter ids are unique only within their file

# Of messages in exports, data sets, and requests and responses of APIs.
_LISTS = ("conversation", "history", "items")
_ITEMS = ("data", "output")  # lists of anything: here of items of the Responses API
_SPEAKERS = ("from", "sender", "author", "speaker")
_TEXTS = ("text", "value", "message")
_CONTENT_KEYS = frozenset({"content", "tool_calls", "function_call", "output", "reasoning_content", "refusal"})
_OTHER_PROGRAMS = re.compile(
    rb'"(?:sessionId|parentUuid|mapping|chat_messages|parentMessageId|childrenIds|projectHash)"\s*:'
)
_TEXT_FIELD = re.compile(r'"(?:text|content|value|answer|markdown)": "[^"]')
MAX_SEARCHED_CHARS = 100_000
_OPEN_LINE_ENDS = (b"{", b"[", b",", b":")
Entry = tuple[str, Mapping[str, Any], bytes]
"""Position of a message, the message, its source bytes."""


@dataclass(frozen=True, slots=True)
class PlainImporter:
    """Reads one JSON or JSON lines file."""

    name: str = "plain"
    checked: Checked = Checked("OpenAI and Anthropic messages", "2026-11")
    reads: Reads = Reads(suffixes=JSON_SUFFIXES)

    def sniff(self, source: Source) -> int | None:
        """See `Importer.sniff`."""
        if any(_is_message(item.value) or _is_conversation(item.value) for item in source.head_objects):
            return 50
        head = source.head
        if not (_is_document(source) or source.is_one_long_line) or _OTHER_PROGRAMS.search(head):
            return None
        if b'"messages"' in head or (b'"role"' in head and (b'"content"' in head or b'"text"' in head)):
            return 40  # a document over several lines, or a line longer than the head
        return None

    def parse(self, source: Source, report: FileReport) -> Iterator[ConversationDraft]:
        """See `Importer.parse`. Raises: also TooLarge for a JSON document that must be read at once."""
        names = _Names(source)
        if _is_document(source):
            yield from _document(load_json(source.path), names, report)
            return
        objects = read_objects(source.path, on_issue=report.line_issue)
        first = next(objects, None)
        if first is None:
            report.note("a file without any message")
            return
        if isinstance(first.value.get("conversations"), list):
            yield from _document(first.value, names, report)
            return
        every = itertools.chain([first], objects)
        if _messages_in(first.value) is None:
            # JSON lines of messages: the first one may name the conversation
            header = {"conversation_id": first.value.get("conversation_id")}
            entries = ((_line(item.number, item.index), item.value, item.raw) for item in every)
            yield from _conversation(header, entries, names, report)
            return
        for item in every:
            if _messages_in(item.value) is not None:
                yield from _listed(
                    item.value, names, report, prefix=f"{_line(item.number, item.index)}, ", raw=item.raw
                )
            else:
                report.skip(item.number, "no conversation, while the file's first line is one")


class _Names:
    """Gives each conversation of a file an id that does not depend on the file."""

    def __init__(self, source: Source) -> None:
        self.stem = source.path.stem
        self._used: dict[str, str] = {}
        self._former: Counter[str] = Counter()

    def named(self, draft: ConversationDraft, value: Mapping[str, Any], opening: Iterable[object]) -> ConversationDraft:
        """Return the draft with the id in `value` if that is long enough to be unique, else with its beginning's."""
        native_id = next((text for text in map(name_of, map(value.get, ("id", "conversation_id", "uuid"))) if text), "")
        if len(native_id) >= MIN_GLOBAL_ID_CHARS and not native_id.isdigit():
            name = key_of(native_id, max_chars=MAX_ID_CHARS)
            draft = replace(draft, source_id=name, has_weak_id=not is_global_id(native_id))
        else:
            # Earlier versions named it by its file.
            former = f"{self.stem}:{native_id or short_hash(_dumped(list(opening)))}"
            self._former[former] += 1
            count = self._former[former]
            name = key_of(former if count == 1 else f"{former}:{count}", max_chars=MAX_ID_CHARS)
            draft = named_by_opening(draft, scope=native_id, former_ids=(name,))
        return with_distinct_id(draft, self._used)


def _dumped(value: object) -> str:
    """Return the value as canonical JSON; levels that are nested too deeply are left out."""
    try:
        return json.dumps(value, ensure_ascii=False, sort_keys=True)
    except RecursionError:
        return json.dumps(value_without_payloads(value), ensure_ascii=False, sort_keys=True)


def _is_message(value: Mapping[str, Any]) -> bool:
    value = _usual(value)
    return known_role(text_of(value.get("role"))) is not None and not value.keys().isdisjoint(_CONTENT_KEYS)


def names_speaker(value: Mapping[str, Any]) -> bool:
    """Return whether a message has a role, or as an item of the Responses API a type that implies one."""
    return _usual(value).get("role") is not None or bool(text_of(value.get("type")))


def _usual(value: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a message with speaker and text under the names that the APIs use."""
    speaker = next((value[name] for name in ("role", *_SPEAKERS) if value.get(name)), None)
    role = known_role(text_of(mapping_of(speaker).get("role")) or text_of(speaker))
    content = value.get("content")
    inner = content if isinstance(content, Mapping) and "type" not in content else {}
    if inner:
        content = next((inner[name] for name in ("content", "text", "parts") if inner.get(name)), content)
    elif role and all(value.get(name) is None for name in _CONTENT_KEYS):
        content = next((value[name] for name in _TEXTS if isinstance(value.get(name), str)), None)
    changed = {"role": role} if role else {}
    return {**value, **changed, "content": content} if content is not value.get("content") else {**value, **changed}


def _is_conversation(value: Mapping[str, Any]) -> bool:
    if isinstance(value.get("conversations"), list):
        return any(map(_is_conversation, map(mapping_of, value["conversations"][:5])))
    messages = _messages_in(value)
    return messages is not None and (not messages or any("role" in _usual(mapping_of(item)) for item in messages))


def _messages_in(value: Mapping[str, Any]) -> list[Any] | None:
    """Return the messages of a conversation, or of a request or a response of an API; None if it has none."""
    if isinstance(value.get("messages"), list):
        listed: list[Any] = value["messages"]
        return listed
    for name in (*_LISTS, *_ITEMS):
        listed = value[name] if isinstance(value.get(name), list) else []
        some = [item for item in map(mapping_of, listed[:MAX_OPENING]) if _is_message(item)]
        if any(name in _LISTS or item.get("type") == "message" for item in some):
            return listed
    body = mapping_of(value.get("body"))
    return body["messages"] if isinstance(body.get("messages"), list) else None


def _is_document(source: Source) -> bool:
    """Return whether the file is one JSON value over several lines, or an array."""
    head = source.head.lstrip(b"\xef\xbb\xbf \t\r\n\0")
    if head.startswith(b"["):
        return True
    first_line, line_break, _ = head.partition(b"\n")
    return bool(line_break) and head.startswith(b"{") and first_line.rstrip().endswith(_OPEN_LINE_ENDS)


def _document(value: Any, names: _Names, report: FileReport) -> Iterator[ConversationDraft]:
    if isinstance(value, Mapping) and isinstance(value.get("conversations"), list):
        value = value["conversations"]
    items = value if isinstance(value, list) else [value]
    loose: list[Entry] = []
    for number, item in enumerate(items, 1):
        if not isinstance(item, Mapping):
            report.skip(f"item {number}", "neither a message nor a conversation")
        elif _messages_in(item) is not None:
            yield from _listed(item, names, report, prefix=f"item {number}, " if len(items) > 1 else "", raw=b"")
        else:
            loose.append((f"message {number}", item, b""))
    if loose:
        yield from _conversation({}, iter(loose), names, report)


def _line(number: int, index: int) -> str:
    return f"{number}.{index}" if index else str(number)


def _listed(
    value: Mapping[str, Any], names: _Names, report: FileReport, *, prefix: str, raw: bytes
) -> Iterator[ConversationDraft]:
    """Yield a conversation object. Its line is stored with its first message."""
    messages = _messages_in(value) or ()
    listed = [item if isinstance(item, Mapping) else {"content": item} if item else {} for item in messages]
    entries = ((f"{prefix}message {number}", item, b"") for number, item in enumerate(listed, 1))
    yield from _conversation(value, entries, names, report, raw=raw)


def _conversation(
    value: Mapping[str, Any], entries: Iterator[Entry], names: _Names, report: FileReport, *, raw: bytes = b""
) -> Iterator[ConversationDraft]:
    opening: list[Entry] = []
    for entry in itertools.islice(entries, MAX_OPENING):
        opening.append(entry)
        if _usual(entry[1]).get("role") == "user":
            break
    if not opening:
        report.note("a conversation without any message")
        return
    draft = ConversationDraft(
        messages=messages_of(itertools.chain(opening, entries), report, raw),
        source="plain",
        title=text_of(value.get("title")) or text_of(value.get("name")),
        agent=text_of(value.get("agent")),
        project=text_of(value.get("project")),
        created_at=first_time(value) or first_time(opening[0][1]),
        archived=value.get("archived") is True,
    )
    draft = names.named(draft, value, [item for _, item, _ in opening])
    # Not part of the name, because earlier versions left it out.
    yield replace(draft, messages=itertools.chain(system_prompt(value.get("system"), report), draft.messages))


def system_prompt(content: object, report: FileReport) -> Iterator[MessageDraft]:
    """Yield the system prompt that Anthropic's API takes apart from the messages, a string or a list of blocks."""
    if parts := content_parts(content, unknown=report.unknown):
        yield MessageDraft("system", tuple(parts), source_key="system", raw=_dumped(content).encode("utf-8", "replace"))


def messages_of(entries: Iterable[Entry], report: FileReport, raw: bytes = b"") -> Iterator[MessageDraft]:
    """Yield the messages of a list. `raw` is the source of the first one, of others without source bytes their JSON."""
    used: set[str] = set()
    for number, (position, entry, line) in enumerate(entries, 1):
        value = _usual(entry)
        # The fields of a message in which there is text, unless it has a content of its own.
        if value.get("content"):
            unread = []
        else:
            others = (
                (key, item) for key, item in value.items() if key not in MESSAGE_KEYS and isinstance(item, (list, dict))
            )
            unread = [key[:40] for key, item in others if _TEXT_FIELD.search(_dumped(item)[:MAX_SEARCHED_CHARS])][:5]
        draft, skipped = MessageDraft("system", ()), report.skipped
        # Content in a form of another program is no text of the message.
        if not (unread and "role" in value and value.keys().isdisjoint(_CONTENT_KEYS)):
            draft = kept_message(value, unknown=report.unknown, refused=partial(report.line_issue, position))
        if not draft.parts:
            if unread and report.skipped == skipped:
                report.skip(position, f"the text of the message is in fields that are not known: {', '.join(unread)}")
            continue
        key = next((text for text in (text_of(value.get(name)) for name in ("id", "uuid")) if text), "")
        key = key if key and key not in used else f"message:{number}"
        used.add(key)
        source = line or raw or _dumped(entry).encode("utf-8", "replace")
        raw = b""
        yield replace(draft, source_key=key_of(key), raw=source)
