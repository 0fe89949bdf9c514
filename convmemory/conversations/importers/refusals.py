"""Names the kind of a file that no importer reads, and what to do about it.

Recognised by the first bytes and the name: encrypted files, internal files of other programs, files of an export
without conversations, and files of a known format without known content.
"""

import re
from dataclasses import dataclass

from convmemory.conversations.importers.base import Source


@dataclass(frozen=True, slots=True)
class _Known:
    """A kind of file: the end of its path in lower case, and patterns that all occur in its first 64 KB."""

    reason: str
    path_end: tuple[str, ...] = ("",)
    marks: tuple["re.Pattern[bytes]", ...] = ()


_MARK_MANIFEST = re.compile(rb'"(?:url|download_url|href|link)"\s*:\s*"https?://')
_MARK_ZIP = re.compile(rb"-\d{3}\.zip")
_MARK_SQLITE = re.compile(rb"\ASQLite format 3\0")
_MARK_BLOBS = re.compile(rb"(?i)create table (?:if not exists )?[\"`]?blobs")
MARKS = (_MARK_MANIFEST, _MARK_ZIP, _MARK_SQLITE, _MARK_BLOBS)

_KNOWN = (
    _Known(
        "a manifest of Claude.ai: it only names the archives. Download the zip files that it lists while their links "
        "hold, and import those, all together or one by one",
        marks=(_MARK_MANIFEST, _MARK_ZIP),
    ),
    _Known(
        "a conversation of Windsurf (Devin Desktop), which keeps them encrypted: only Windsurf can read it. Open the "
        "conversation there, copy it as Markdown or JSON, and import that",
        path_end=(".pb",),
    ),
    _Known(
        "a chat of Cursor's command line, kept as binary blobs that only Cursor can read. Import the transcripts under "
        "~/.cursor/projects/*/agent-transcripts instead: they hold the same conversations as text",
        path_end=("store.db",),
        marks=(_MARK_SQLITE, _MARK_BLOBS),
    ),
)


def known_refusal(source: Source) -> str:
    """Return the reason why a file of a known kind cannot be read; else an empty string."""
    name, head = source.path.as_posix().lower(), source.head
    fitting = (known for known in _KNOWN if name.endswith(known.path_end))
    return next((known.reason for known in fitting if all(mark.search(head) for mark in known.marks)), "")


def why_refused(source: Source, tried: list[str]) -> str:
    """Return the reason why none of the tried importers reads the file, and what to do."""
    if not source.head.strip(b" \t\r\n\0"):
        return "the file is empty: export it again"
    if known := known_refusal(source):
        return known
    if source.is_sqlite:
        return "an SQLite database without the tables of any program whose conversations are known"
    return (
        f"it looks like none of the formats that can be read ({', '.join(tried)}). Name the format where it is one of "
        "them, or write the conversation as JSON lines of messages with `role` and `content`"
    )
