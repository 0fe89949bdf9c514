"""`~/.claude/history.jsonl`: prompts typed into Claude Code, of sessions whose transcripts were deleted.

Claude Code deletes transcripts after 30 days and keeps this list. Each session becomes a conversation of prompts only;
a session whose transcript is still in `base` next to the list, or was imported before, is left out.

Source: the file itself; there is no published schema.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

from convmemory.conversations.importers.attachments import named_file
from convmemory.conversations.importers.base import Checked, FileReport, Reads, Source
from convmemory.conversations.importers.lines import JsonObject, read_objects
from convmemory.conversations.importers.threads import MessageKeys
from convmemory.conversations.importers.values import clean, key_of, mapping_of, text_of, time_of, without_payloads
from convmemory.conversations.messages.drafts import ConversationDraft, MessageDraft
from convmemory.conversations.messages.parts import Part, TextPart

NO_ANSWER = "(The answer is gone: Claude Code deleted the transcript, and only what was typed is left.)"

_OWN_KEYS = frozenset({"display", "timestamp", "project"})


@dataclass(frozen=True, slots=True)
class ClaudeHistoryImporter:
    """Reads one list of prompts."""

    name: str = "claude-history"
    checked: Checked = Checked("Claude Code", "2.1.219")
    reads: Reads = Reads(suffixes=frozenset({".jsonl"}))

    def sniff(self, source: Source) -> int | None:
        """See `Importer.sniff`."""
        return 93 if any(item.value.keys() >= _OWN_KEYS for item in source.head_objects) else None

    def parse(self, source: Source, report: FileReport) -> Iterator[ConversationDraft]:
        """See `Importer.parse`."""
        kept = {path.stem for path in (source.path.parent / "projects").glob("*/*.jsonl")}
        sessions: dict[str, _Session] = {}
        for item in read_objects(source.path, on_issue=report.line_issue):
            name = text_of(item.value.get("sessionId"))
            if not name:
                at = time_of(item.value.get("timestamp"))
                name = f"{text_of(item.value.get('project'))}:{at.date() if at else 'unknown'}"
            if name not in kept and text_of(item.value.get("display")).strip():
                sessions.setdefault(name, _Session(name)).add(item)
        for session in sessions.values():
            yield session.draft()
        if kept:
            report.note(
                f"{len(kept)} sessions still have their transcripts in projects: their prompts are read from there"
            )


@dataclass(slots=True)
class _Session:
    name: str
    drafts: list[MessageDraft] = field(default_factory=list)
    project: str = ""
    _keys: MessageKeys = field(default_factory=MessageKeys)

    def add(self, item: JsonObject) -> None:
        value = item.value
        text = clean(without_payloads(text_of(value["display"])))
        parts: list[Part] = [TextPart(text)]
        for number, pasted in mapping_of(value.get("pastedContents")).items():
            file = named_file(f"pasted text {str(number)[:20]}", "text/plain", text=mapping_of(pasted).get("content"))
            parts.extend([file] if file.text.strip() else [])
        at = time_of(value.get("timestamp"))
        key = self._keys.key("user", f"{value.get('timestamp')}:{text}")
        self.project = self.project or text_of(value.get("project"))
        self.drafts.append(MessageDraft("user", tuple(parts), created_at=at, source_key=key, raw=item.raw))
        answer = (TextPart(NO_ANSWER),)  # a prompt without an answer is no turn, and search finds only turns
        self.drafts.append(MessageDraft("assistant", answer, created_at=at, source_key=key_of(f"{key}:answer")))

    def draft(self) -> ConversationDraft:
        return ConversationDraft(
            messages=self.drafts,
            source="claude-history",
            source_id=key_of(self.name, max_chars=290),
            agent="claude-code",
            project=self.project,
            created_at=self.drafts[0].created_at,
            unless_source="claude-code",
        )
