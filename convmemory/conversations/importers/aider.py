"""Chat histories of Aider: `.aider.chat.history.md`, one file for all sessions of a repository.

`# aider chat started at` begins a session, `#### ` precedes each line of a person, `> ` Aider's own output; the rest is
the model's. Only sessions have times, which are local.

Source: Aider-AI/aider `aider/io.py`.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from convmemory.conversations.importers.base import Checked, FileReport, Reads, Source
from convmemory.conversations.importers.content import Block, record_messages
from convmemory.conversations.importers.lines import read_text_lines
from convmemory.conversations.importers.values import key_of, short_hash, time_of
from convmemory.conversations.messages.drafts import ConversationDraft, MessageDraft
from convmemory.conversations.messages.parts import Role
from convmemory.core.files.work_folders import is_temporary

HISTORY = ".aider.chat.history.md"
START = "# aider chat started at "
MAX_SESSION_BYTES = 64 * 1024**2  # a session is in memory as a whole


@dataclass(frozen=True, slots=True)
class AiderImporter:
    """Reads one history file."""

    name: str = "aider"
    checked: Checked = Checked("Aider", "0.86")
    reads: Reads = Reads(suffixes=frozenset({HISTORY, ".chat.history.md"}))

    def sniff(self, source: Source) -> int | None:
        """See `Importer.sniff`."""
        starts = source.head.lstrip().startswith(START.encode()) or f"\n{START}".encode() in source.head
        return 90 if starts else None

    def parse(self, source: Source, report: FileReport) -> Iterator[ConversationDraft]:
        """See `Importer.parse`."""
        names: Counter[str] = Counter()
        for started, lines in _sessions(source.path, report):
            # The entries of a session in order: consecutive lines of one speaker are one entry.
            entries: list[tuple[Role, str]] = []
            entry: _Entry | None = None
            for line in lines:
                role, text = _speaker(line)
                if entry is not None and (role == entry.role or not line.strip()):
                    entry.lines.append(text)
                    continue
                if entry is not None:
                    entries.append((entry.role, "\n".join(entry.lines).strip()))
                entry = _Entry(role, [text]) if line.strip() else None
            if entry is not None:
                entries.append((entry.role, "\n".join(entry.lines).strip()))
            question = next((text for role, text in entries if role == "user"), None)
            if question is None:
                continue  # a start without a question; most histories have hundreds
            name = f"{started}:{short_hash(question)}"
            names[name] += 1
            # Aider keeps its history in the repository, so a file that was not uploaded names its project.
            folder = source.path.resolve().parent
            is_copy = is_temporary(folder)
            yield ConversationDraft(
                messages=_messages(entries, report),
                source=self.name,
                source_id=key_of(name if names[name] == 1 else f"{name}:{names[name]}", max_chars=290),
                agent=self.name,
                project="" if is_copy else str(folder),
                created_at=time_of(started),
            )


def _sessions(path: Path, report: FileReport) -> Iterator[tuple[str, list[str]]]:
    """Yield the start time of each session, and its lines."""
    started, size = "", 0
    lines: list[str] = []
    for number, line in read_text_lines(path):
        if line.startswith(START):
            yield started, lines
            started, lines, size = line.removeprefix(START).strip()[:40], [], 0
        elif size + len(line) > MAX_SESSION_BYTES:
            report.skip(number, f"the session is longer than {MAX_SESSION_BYTES // 1024**2} MB")
        else:
            lines.append(line)
            size += len(line)
    yield started, lines


@dataclass(slots=True)
class _Entry:
    role: Role
    lines: list[str] = field(default_factory=list)


def _speaker(line: str) -> tuple[Role, str]:
    if line.startswith("####"):
        return "user", line[4:].strip()
    if line.startswith(">"):
        return "system", line[1:].strip()
    return "assistant", line.rstrip()


def _messages(entries: list[tuple[Role, str]], report: FileReport) -> Iterator[MessageDraft]:
    model = ""
    for number, (role, text) in enumerate(entries, 1):
        model = (role == "system" and _named_model(text)) or model
        yield from record_messages(
            role=role,
            blocks=[Block.text(text)],
            key=f"entry:{number}",
            unknown=report.unknown,
            model=model,
            injected=role == "system",
            raw=text.encode("utf-8", "replace"),
        )


def _named_model(text: str) -> str:
    """Return the model in Aider's own output: `Model: NAME with whole edit format`, also `Main model: …`."""
    for line in text.splitlines():
        label, _, rest = line.partition(": ")
        if label in ("Model", "Main model") and rest:
            return rest.partition(" with ")[0].strip()[:200]
    return ""
