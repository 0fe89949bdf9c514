"""Chats of Cursor: the editor's database, and `~/.cursor/projects/<folder>/agent-transcripts/**/<id>.jsonl`.

Lines of transcripts have neither ids nor times; messages are named by their text.

Source: the transcripts themselves, Cursor 2; there is no published schema.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from convmemory.conversations.drafts import ConversationDraft, MessageDraft
from convmemory.conversations.importers.base import Checked, FileReport, Reads, Source
from convmemory.conversations.importers.blocks import Block, listed_blocks, record_messages, text_block
from convmemory.conversations.importers.content import ROLES_BY_NAME
from convmemory.conversations.importers.cursor_database import database_chats, is_cursor_database
from convmemory.conversations.importers.lines import JsonObject, read_objects
from convmemory.conversations.importers.threads import MessageKeys
from convmemory.conversations.importers.values import key_of, mapping_of, text_of, time_of
from convmemory.conversations.importers.whole_json import dumped

TRANSCRIPTS, SUBAGENTS = "agent-transcripts", "subagents"


@dataclass(frozen=True, slots=True)
class CursorImporter:
    """Reads one database or transcript."""

    name: str = "cursor"
    checked: Checked = Checked("Cursor", "2.6")
    reads: Reads = Reads(suffixes=frozenset({".jsonl", ".vscdb"}))

    def sniff(self, source: Source) -> int | None:
        """See `Importer.sniff`."""
        if source.is_sqlite:
            return 90 if is_cursor_database(source) else None
        for item in source.head_objects:
            inner, others = item.value.get("message"), item.value.keys() - {"role", "message", "timestamp"}
            if isinstance(inner, dict) and "content" in inner and "role" in item.value and not others:
                return 88 if TRANSCRIPTS in source.path.parts else 75
        return None

    def parse(self, source: Source, report: FileReport) -> Iterator[ConversationDraft]:
        """See `Importer.parse`."""
        path = source.path
        if source.is_sqlite:
            yield from database_chats(source, report)
            return
        lines = read_objects(path, on_issue=report.line_issue)
        yield ConversationDraft(
            messages=_messages(lines, report),
            source=self.name,
            source_id=key_of(path.stem, max_chars=290),
            agent=self.name,
            project=_project(path),
            parent_source_id=key_of(path.parent.parent.name, max_chars=290) if path.parent.name == SUBAGENTS else "",
        )


def _messages(lines: Iterator[JsonObject], report: FileReport) -> Iterator[MessageDraft]:
    keys = MessageKeys()
    for item in lines:
        role = ROLES_BY_NAME.get(text_of(item.value.get("role")))
        if role is None:
            report.unknown(text_of(item.value.get("role")) or text_of(item.value.get("type")) or "(no role)")
            continue
        content = mapping_of(item.value.get("message")).get("content")
        yield from record_messages(
            role=role,
            blocks=user_blocks(content) if role == "user" else listed_blocks(content),
            key=keys.key(role, dumped(content).decode()),
            unknown=report.unknown,
            created_at=time_of(item.value.get("timestamp")),
            raw=item.raw,
        )


def user_blocks(content: object) -> Iterator[Block | str]:
    """Yield the blocks with the editor's wrapper around a person's text removed."""
    for block in listed_blocks(content):
        typed = _typed(block if isinstance(block, str) else text_of(block.get("text")))
        yield text_block("\n\n".join(typed)) if typed else block


def _typed(text: str) -> list[str]:
    """Return the texts between `<user_query>` and `</user_query>`."""
    pieces = (piece.partition("</user_query>") for piece in text.split("<user_query>")[1:])
    return [typed.strip() for typed, end, _ in pieces if end]


def _project(path: Path) -> str:
    """Return the name of the project's folder, in which slashes and hyphens cannot be told apart; "" if unknown."""
    parts = path.parts
    if TRANSCRIPTS not in parts or parts.index(TRANSCRIPTS) == 0:
        return ""
    return parts[parts.index(TRANSCRIPTS) - 1]
