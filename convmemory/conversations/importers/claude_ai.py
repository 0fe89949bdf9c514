"""Claude.ai: conversations, projects and memories of the export's archives, and dumps of one conversation.

An export lists its messages in order; a dump names each message's parent and the current one. A project's documents and
Claude's memory become conversations of their own, because no conversation refers to them.

Source: the exports themselves; there is no published schema.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from convmemory.conversations.importers.attachments import named_file
from convmemory.conversations.importers.base import Checked, FileReport, Reads, Source
from convmemory.conversations.importers.content import content_parts
from convmemory.conversations.importers.json_arrays import json_bytes, read_elements
from convmemory.conversations.importers.threads import Node, read_thread
from convmemory.conversations.importers.values import key_of, list_of, mapping_of, short_hash, text_of, time_of
from convmemory.conversations.messages.drafts import ConversationDraft, MessageDraft
from convmemory.conversations.messages.identity import is_global_id, named_by_opening, with_distinct_id
from convmemory.conversations.messages.parts import AttachmentPart, Part, TextPart

AGENT = "claude"
NO_PARENT = "00000000-0000-4000-8000-000000000000"  # the parent of a first message
COMPANIONS = frozenset({"users.json", "user.json", "login_history.json"})
_CONVERSATIONS = re.compile(rb'"chat_messages"\s*:\s*\[')
_READABLE = re.compile(rb'"(?:sender|uuid|account)"\s*:')
_PROJECTS = re.compile(rb'"(?:prompt_template|is_private|is_starter_project)"\s*:')
_MEMORIES = re.compile(rb'"(?:conversations_memory|project_memories)"\s*:')
_PASSED_OVER = frozenset({"token_budget"})
_INJECTED = "injected_prompt_block"  # text of the service among the person's words


@dataclass(frozen=True, slots=True)
class ClaudeAIImporter:
    """Reads one JSON document of an export."""

    name: str = "claude-ai"
    checked: Checked = Checked("Claude.ai's export", "2026-11")
    reads: Reads = Reads()

    def sniff(self, source: Source) -> int | None:
        """See `Importer.sniff`."""
        if _CONVERSATIONS.search(source.head) and _READABLE.search(source.head):
            return 92
        if _MEMORIES.search(source.head) or (_PROJECTS.search(source.head) and b'"uuid"' in source.head):
            return 85
        return 25 if source.plain_name in COMPANIONS and source.head.strip() else None

    def parse(self, source: Source, report: FileReport) -> Iterator[ConversationDraft]:
        """See `Importer.parse`."""
        has_draft = False
        used: dict[str, str] = {}
        for element in read_elements(source.path, report=report, names=("conversations", "projects")):
            value = mapping_of(element.value)
            if isinstance(value.get("chat_messages"), list):
                draft = _conversation(value, source, report)
            elif isinstance(value.get("docs"), list) or "prompt_template" in value:
                draft = _project(value, source)
            elif "conversations_memory" in value or "project_memories" in value:
                draft = _memories(value)
            else:
                draft = None
            has_draft = has_draft or draft is not None
            if draft is not None:
                yield with_distinct_id(draft, used)
            elif source.plain_name not in COMPANIONS:
                report.skip(f"element {element.number}", "neither a conversation nor a project of Claude.ai")
        if not has_draft and source.plain_name in COMPANIONS:
            report.note("a part of a Claude.ai export that holds no conversation")


def _conversation(value: Mapping[str, Any], source: Source, report: FileReport) -> ConversationDraft:
    source_id = _id(value)
    model = text_of(value.get("model"))
    nodes = list(_nodes(value["chat_messages"], report, source_id))
    read = partial(_message, model=model, report=report)
    current = text_of(value.get("current_leaf_message_uuid"))
    draft = ConversationDraft(
        messages=read_thread(nodes, read=read, report=report, current=current, position=source_id or "a conversation"),
        source="claude-ai",
        source_id=source_id,
        title=text_of(value.get("name")),
        agent=AGENT,
        created_at=time_of(value.get("created_at")),
        has_weak_id=not is_global_id(source_id),
    )
    return draft if source_id else named_by_opening(draft, former_ids=[_former_id(value, source)])


def _nodes(messages: Iterable[object], report: FileReport, conversation: str) -> Iterator[Node[Mapping[str, Any]]]:
    """Yield the messages; a message without a named parent follows the one before it."""
    previous = ""
    for number, value in enumerate(messages, 1):
        if not isinstance(value, Mapping):
            report.skip(f"{conversation}, message {number}", "no message")
            continue
        name = text_of(value.get("uuid")) or f"message:{number}"
        parent = value.get("parent_message_uuid")
        named = text_of(parent) if isinstance(parent, str) else previous
        yield Node(name, "" if named == NO_PARENT else named, {**value, "uuid": name})
        previous = name


def _message(value: Mapping[str, Any], model: str, report: FileReport) -> Iterator[MessageDraft]:
    is_human = value.get("sender") in ("human", "user")
    if not is_human and value.get("sender") != "assistant":
        report.unknown(f"sender {text_of(value.get('sender'))}")
        return
    # The blocks of the content, with the separate text if they contain none.
    blocks = value.get("content")
    parts: list[Part] = []
    if isinstance(blocks, str):
        blocks = [{"type": "text", "text": blocks}]
    injected: list[Part] = []
    for block in list_of(blocks):
        if isinstance(block, Mapping) and block.get("type") == _INJECTED:
            injected.extend(content_parts(text_of(block.get("prompt")) or text_of(block.get("text"))))
        elif isinstance(block, Mapping) and text_of(block.get("type")) not in _PASSED_OVER:
            spoken = (text_of(block.get(key)) for key in ("title", "text", "transcript"))
            is_note = block.get("type") == "voice_note"
            content = "\n\n".join(filter(None, spoken)) if is_note else block
            parts.extend(content_parts(content, unknown=report.unknown))
    has_text = any(isinstance(part, TextPart) for part in parts)
    if not has_text and not (parts and value.get("sender") == "assistant"):
        parts.extend(content_parts(text_of(value.get("text"))))
    parts.extend(_files(value))
    if parts:
        yield MessageDraft(
            role="user" if is_human else "assistant",
            parts=tuple(parts),
            created_at=time_of(value.get("created_at")),
            model="" if is_human else model,
            source_key=key_of(text_of(value.get("uuid"))),
            raw=json_bytes(value),
        )
    if injected:
        yield replace(_note(f"{value.get('uuid')}:injected", injected, value), raw=b"")


def _files(value: Mapping[str, Any]) -> Iterator[AttachmentPart]:
    """Yield pasted documents with their text, and the names of uploaded files."""
    for key in ("attachments", "files_v2", "files"):
        listed = value.get(key)
        if key == "files" and isinstance(value.get("files_v2"), list) and value["files_v2"]:
            return
        for file in map(mapping_of, list_of(listed)):
            kind, size = text_of(file.get("file_type")) or file.get("file_kind"), file.get("file_size")
            yield named_file(file.get("file_name"), kind, size=size, text=file.get("extracted_content"))


def _project(value: Mapping[str, Any], source: Source) -> ConversationDraft:
    """Return a project's description, instructions and documents."""
    name = text_of(value.get("name"))
    texts = [(key, text_of(value.get(key))) for key in ("description", "prompt_template")]
    docs = value.get("docs")
    messages = [_note(key, [TextPart(text)], value) for key, text in texts if text.strip()]
    for document in filter(None, map(mapping_of, list_of(docs))):
        file_name = text_of(document.get("filename")) or "document"
        part = named_file(file_name, text=document.get("content"))
        part = replace(part, size_bytes=len(part.text.encode("utf-8", "replace")))
        key = text_of(document.get("uuid")) or f"document:{short_hash(file_name + part.text)}"
        messages.append(_note(key, [part], document))
    own_id = _id(value) or short_hash(repr((value.get("created_at"), name)))
    return ConversationDraft(
        messages=messages,
        source="claude-ai",
        source_id=key_of(f"project:{own_id}", max_chars=290),
        has_weak_id=not is_global_id(own_id),
        former_ids=(key_of(f"project:{_former_id(value, source)}", max_chars=290),),
        title=f"Project: {name}" if name else "Project",
        agent=AGENT,
        created_at=time_of(value.get("created_at")),
    )


def _memories(value: Mapping[str, Any]) -> ConversationDraft:
    """Return Claude's memory of all conversations and of each project."""
    projects = value.get("project_memories")
    texts = {"conversations": text_of(value.get("conversations_memory"))}
    texts |= {str(name): text_of(text) for name, text in mapping_of(projects).items()}
    messages = [_note(name, [TextPart(text)], {name: text}) for name, text in texts.items() if text.strip()]
    return ConversationDraft(
        messages=messages,
        source="claude-ai",
        source_id=key_of(f"memories:{text_of(value.get('account_uuid'))}", max_chars=290),
        title="What Claude remembers",
        agent=AGENT,
    )


def _note(key: str, parts: list[Part], value: Mapping[str, Any]) -> MessageDraft:
    """Return a message that no person wrote."""
    return MessageDraft(
        role="system",
        parts=tuple(parts),
        created_at=time_of(value.get("created_at")),
        source_key=key_of(key),
        injected=True,
        raw=json_bytes(value),
    )


def _id(value: Mapping[str, Any]) -> str:
    return key_of(text_of(value.get("uuid")) or text_of(value.get("conversation_id")), max_chars=280)


def _former_id(value: Mapping[str, Any], source: Source) -> str:
    """Return the id that earlier versions gave to a conversation or project without one."""
    return key_of(f"{source.path.stem}:{short_hash(repr((value.get('created_at'), value.get('name'))))}", max_chars=280)
