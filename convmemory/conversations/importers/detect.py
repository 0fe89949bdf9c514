"""Finds the transcripts under the given paths and their importers, or says what a file is that none reads.

`IMPORTERS` is the registry: one line per format. A folder is walked in a fixed order, parents before the conversations
that they started. A file that cannot be read or recognised is yielded with the reason; it never stops the walk.
"""

import os
import re
import stat
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from convmemory.conversations.importers.agent_formats import AGENT_FORMATS
from convmemory.conversations.importers.aider import AiderImporter
from convmemory.conversations.importers.amplifier import AmplifierImporter
from convmemory.conversations.importers.base import Importer, Source, begins_like_json
from convmemory.conversations.importers.chat_formats import CHAT_FORMATS
from convmemory.conversations.importers.chatgpt import ChatGPTImporter
from convmemory.conversations.importers.claude_ai import ClaudeAIImporter
from convmemory.conversations.importers.claude_code import ClaudeCodeImporter
from convmemory.conversations.importers.claude_history import ClaudeHistoryImporter
from convmemory.conversations.importers.claude_stream import ClaudeStreamImporter
from convmemory.conversations.importers.cline import ClineImporter, is_of_session
from convmemory.conversations.importers.codex import CodexImporter
from convmemory.conversations.importers.copilot_cli import CopilotCliImporter
from convmemory.conversations.importers.cursor import CursorImporter
from convmemory.conversations.importers.declared import DeclaredImporter
from convmemory.conversations.importers.gemini_cli import GeminiCliImporter
from convmemory.conversations.importers.goose import GooseImporter
from convmemory.conversations.importers.junie import JunieImporter
from convmemory.conversations.importers.librechat import LibreChatImporter
from convmemory.conversations.importers.markdown_chat import MarkdownImporter
from convmemory.conversations.importers.opencode import OpenCodeImporter
from convmemory.conversations.importers.openwebui import OpenWebUIImporter
from convmemory.conversations.importers.own_export import ExportImporter, OwnJsonImporter
from convmemory.conversations.importers.pi import PiImporter
from convmemory.conversations.importers.plain import PlainImporter
from convmemory.conversations.importers.takeout import TakeoutImporter
from convmemory.conversations.importers.vscode_copilot import VSCodeCopilotImporter
from convmemory.conversations.importers.zed import ZedImporter
from convmemory.core.errors import InvalidInput, TooLarge
from convmemory.core.files.charsets import other_charset
from convmemory.core.files.decoding import GZIP_START

AUTO = "auto"

UNKNOWN = "it looks like none of the formats that can be read"

_REGISTERED: tuple[Importer, ...] = (
    AmplifierImporter(),
    AiderImporter(),
    ChatGPTImporter(),
    ClaudeAIImporter(),
    ClaudeCodeImporter(),
    ClaudeHistoryImporter(),
    ClaudeStreamImporter(),
    ClineImporter(),
    CodexImporter(),
    CopilotCliImporter(),
    CursorImporter(),
    ExportImporter(),
    GeminiCliImporter(),
    GooseImporter(),
    JunieImporter(),
    LibreChatImporter(),
    MarkdownImporter(),
    OpenCodeImporter(),
    OpenWebUIImporter(),
    OwnJsonImporter(),
    PiImporter(),
    PlainImporter(),
    TakeoutImporter(),
    VSCodeCopilotImporter(),
    ZedImporter(),
    *map(DeclaredImporter, (*CHAT_FORMATS, *AGENT_FORMATS)),
)
IMPORTERS: Mapping[str, Importer] = {importer.name: importer for importer in _REGISTERED}
FORMATS = (AUTO, *IMPORTERS)

_EXPECTED = frozenset({".json", ".jsonl", ".ndjson", ".zst", ".zip", ".gz"})
# Other files of a folder are shown to importers only if they begin like JSON.
_MAY_BE_JSON = frozenset({"", ".txt"})
# Files that programs write next to their conversations, by their names in lower case. In a folder they are passed over,
# unless their content says that they hold conversations.
COMPANIONS = frozenset(
    {
        *("chat.html", "shared_conversations.json", "message_feedback.json", "model_comparisons.json", "sora.json"),
        *("user.json", "user_settings.json", "export_manifest.json", "shopping.json", "assets.json"),
        *("conversation_asset_file_names.json", "users.json", "login_history.json"),
        *("taskhistory.json", "thread.json", "meta.json", "ui_messages.json", "task_metadata.json", "sessions.json"),
        *("prod-mc-billing.json", "prod-mc-auth-mgmt-api.json", "signals.json", "workspace.json", "index.json"),
        *("channels.json", "groups.json", "dms.json", "mpims.json", "integration_logs.json", "canvases.json"),
        *("file_conversations.json", "lists.json", "org_users.json"),
        *("journal.jsonl", "session_index.jsonl", "sessions-index.json", "index.jsonl"),
        *(PurePosixPath(of.sibling).name.lower() for of in (*CHAT_FORMATS, *AGENT_FORMATS) if of.sibling),
    }
)
# Where programs keep conversations in hidden folders, which are walked only there: all else in them is passed over.
STORES = (
    *(
        ".claude/projects",
        ".claude/history.jsonl",
        ".codex/sessions",
        ".codex/archived_sessions",
        ".codex/history.jsonl",
    ),
    *(".copilot/session-state", ".copilot/history-session-state", ".copilot/jb", ".cursor/projects", ".cline/data"),
    *(".gemini/tmp", ".gemini/antigravity", ".qwen/projects", ".qwen/tmp", ".grok/sessions", ".kimi/sessions"),
    *(".kimi-code/sessions", ".factory/sessions", ".hermes/sessions", ".hermes/state.db", ".hermes/profiles"),
    *(".openclaw/agents", ".clawdbot/agents", ".moltbot/agents", ".pi/agent/sessions", ".amplifier/projects"),
    *(".specstory/history", ".continue/sessions", ".lmstudio/conversations", ".openhands/conversations"),
    *(".vibe/logs", ".junie/sessions", ".crush/crush.db", ".kiro/sessions", ".system_generated"),
    *(f".local/share/{name}" for name in ("opencode", "kilo", "amp", "goose", "kiro-cli", "amazon-q", "zed", "crush")),
    *(".local/state/warp-terminal", ".config/goose", ".config/io.datasette.llm", ".config/amp"),
    *(f".config/{name}/User" for name in ("Code", "Code - Insiders", "VSCodium", "Cursor", "Kiro")),
)
_ARCHIVED = re.compile(r"\.jsonl\.(?:reset|deleted|imported)[.-]\d")  # OpenClaw's sessions that are over
_HIDDEN = frozenset(store.partition("/")[0] for store in STORES)
_BY_CONTENT = 40  # the least score of an importer that recognises the content, and not only the name
MAX_ENDINGS = 30  # that are counted apart
REFUSED_SUFFIXES = frozenset({".pb"})  # of files that are reported although no importer reads them
_PASSED_OVER = (".meta.json", ".backup", ".bak", "~", ".tmp", "-wal", "-shm", "-journal")
_DATABASES = frozenset({".db", ".sqlite", ".sqlite3", ".vscdb"})

ZIP_START = b"PK\x03\x04"


@dataclass(frozen=True, slots=True)
class _Unreadable:
    """A kind of file: the end of its path in lower case, and patterns that all occur in its first 64 KB."""

    reason: str
    path_end: tuple[str, ...] = ("",)
    marks: tuple["re.Pattern[bytes]", ...] = ()


_MARK_MANIFEST = re.compile(rb'"(?:url|download_url|href|link)"\s*:\s*"https?://')
_MARK_ZIP = re.compile(rb"-\d{3}\.zip")
_MARK_SQLITE = re.compile(rb"\ASQLite format 3\0")
_MARK_BLOBS = re.compile(rb"(?i)create table (?:if not exists )?[\"`]?blobs")
_MARK_SESSION = re.compile(rb'"sessionId"\s*:')
_MARK_WORKSPACE = re.compile(rb'"workspaceDirectory"\s*:')
MARKS = (_MARK_SESSION, _MARK_WORKSPACE, _MARK_MANIFEST, _MARK_ZIP, _MARK_SQLITE, _MARK_BLOBS)

_UNREADABLE = (
    _Unreadable(
        "a list of Continue's sessions without their messages: import the other files of its folder",
        path_end=("sessions.json",),
        marks=(_MARK_SESSION, _MARK_WORKSPACE),
    ),
    _Unreadable(
        "a page of ChatGPT's export without conversations: import conversations.json from the same export",
        path_end=("chat.html",),
    ),
    _Unreadable(
        "ChatGPT's list of shared links, which holds no messages: import conversations.json from the same export",
        path_end=("shared_conversations.json",),
    ),
    _Unreadable(
        "a manifest of Claude.ai: it only names the archives. Download the zip files that it lists while their links "
        "hold, and import those, all together or one by one",
        marks=(_MARK_MANIFEST, _MARK_ZIP),
    ),
    _Unreadable(
        "a conversation of Windsurf (Devin Desktop), which keeps them encrypted: only Windsurf can read it. Open the "
        "conversation there, copy it as Markdown or JSON, and import that",
        path_end=(".pb",),
    ),
    _Unreadable(
        "a chat of Cursor's command line, kept as binary blobs that only Cursor can read. Import the transcripts under "
        "~/.cursor/projects/*/agent-transcripts instead: they hold the same conversations as text",
        path_end=("store.db",),
        marks=(_MARK_SQLITE, _MARK_BLOBS),
    ),
)


@dataclass(frozen=True, slots=True)
class DetectedSource:
    """A source with the importers that claim it, the likeliest first, or without one and with the reason.

    An archive must be unpacked first; `is_archive` is also true of a compressed file and of one that is not in UTF-8.
    """

    source: Source
    importers: tuple[Importer, ...] = ()
    reason: str = ""
    is_archive: bool = False
    score: int = 0  # of the first importer

    @property
    def importer(self) -> Importer | None:
        """The importer that claims the source most clearly."""
        return next(iter(self.importers), None)


def require_format(format: str) -> None:
    """Raise InvalidInput if there is no such format."""
    if format not in FORMATS:
        raise InvalidInput(f"Unknown format {format[:40]!r}: give one of {', '.join(FORMATS)}.")


@dataclass(slots=True)
class Walk:
    """One walk over paths. `ignored` counts, by ending, files of a folder that are no transcripts."""

    format: str = AUTO
    ignored: Counter[str] = field(default_factory=Counter)
    _seen: set[tuple[int, int]] = field(default_factory=set)
    _tried: tuple[Importer, ...] = ()
    _suffixes: tuple[str, ...] = ()
    _reads_no_suffix: bool = False

    def __post_init__(self) -> None:
        require_format(self.format)
        self._tried = _REGISTERED if self.format == AUTO else (IMPORTERS[self.format],)
        suffixes = (suffix for importer in self._tried for suffix in importer.reads.suffixes if suffix)
        readable = frozenset({*suffixes, *REFUSED_SUFFIXES})
        self._suffixes = tuple({*readable, *(f"{suffix}.gz" for suffix in readable), ".zip"})

    def over(self, paths: Iterable[Path], *, root: Path | None = None) -> Iterator[DetectedSource]:
        """Yield the sources under `paths`. Labels are relative to `root`, or begin with the given path.

        A database that was opened to recognise it stays open until the next source is requested.
        """
        for path in paths:
            label = path.relative_to(root).as_posix() if root and path.is_relative_to(root) else str(path)
            try:
                mode = path.stat().st_mode
            except FileNotFoundError:
                yield DetectedSource(Source(path, label), reason="is missing: there is no such file or folder")
                continue
            except OSError as error:
                yield DetectedSource(Source(path, label), reason=f"cannot be read: {error.strerror or error}")
                continue
            if stat.S_ISDIR(mode):
                yield from self._folder(path, label)
            elif stat.S_ISREG(mode):
                yield from self._named_file(path, label)
            else:
                yield DetectedSource(Source(path, label), reason="neither a file nor a folder")

    def _named_file(self, path: Path, label: str) -> Iterator[DetectedSource]:
        """Yield a file that is named itself: its `format` is trusted, and a session's file is mapped to its folder."""
        for importer in self._tried:
            entries = importer.reads.folder_entries
            if entries and path.name in entries and _score(importer, folder := Source(path.parent, label)):
                yield DetectedSource(folder, (importer,))
                return
        source = Source(path, label)
        # The user names the format, so that a file which no importer recognises can still be read.
        is_trusted = self.format != AUTO and not (self._tried[0].reads.folders and self._tried[0].reads.folder_entries)
        if is_trusted and not _must_be_decoded(source):
            yield DetectedSource(source, (self._tried[0],))
            return
        with source.database.kept_open():
            yield self._detected(source)

    def _folder(self, path: Path, label: str) -> Iterator[DetectedSource]:
        try:
            if not self._first_visit(path):
                return
            entries = sorted(os.scandir(path), key=_order)
        except OSError as error:
            yield DetectedSource(Source(path, label), reason=f"cannot be read: {error.strerror or error}")
            return
        passed_over: frozenset[str] = frozenset()
        whole = Source(path, label)
        # The importer with the highest score for the source; None if all decline.
        scored = [
            (score, each)
            for each in [importer for importer in self._tried if importer.reads.folders]
            if (score := _score(each, whole))
        ]
        importer = max(scored, key=lambda pair: pair[0])[1] if scored else None
        if importer is not None:
            yield DetectedSource(whole, (importer,))
            if importer.reads.folder_entries is None:
                return
            passed_over = importer.reads.folder_entries
        folders: list[str] = []
        for entry in entries:
            # A name with a dot in front may be the very name that an importer asks for.
            is_hidden = entry.name.startswith(".") and entry.name not in self._suffixes
            if entry.name in passed_over or entry.name.endswith(_PASSED_OVER):
                continue
            if _is_folder(entry):
                stores = [store for store in STORES if is_hidden and store.partition("/")[0] == _home_of(entry.name)]
                inside = [store.partition("/")[2] for store in stores] if is_hidden else [""]
                folders.extend(f"{entry.name}/{name}".rstrip("/") for name in inside)
            elif not is_hidden:
                yield from self._listed_file(Path(entry.path), f"{label}/{entry.name}".removeprefix("./"))
        # Files before folders: a session precedes its subagents, whose files are in a folder next to it.
        for name in folders:
            below, its_label = path / name, f"{label}/{name}".removeprefix("./")
            if os.path.isfile(below):
                yield from self._listed_file(below, its_label)
            elif os.path.isdir(below):
                yield from self._folder(below, its_label)

    def _listed_file(self, path: Path, label: str) -> Iterator[DetectedSource]:
        try:
            if not stat.S_ISREG(path.stat().st_mode) or not self._may_be_transcript(path):
                self._ignore(path)
                return
            if not self._first_visit(path):
                return
            source = Source(path, label)
            with source.database.kept_open():
                detected = self._detected(source)
                if not detected.is_archive and self._is_passed_over(detected):
                    self._ignore(path)
                else:
                    yield detected
        except OSError as error:
            yield DetectedSource(Source(path, label), reason=f"cannot be read: {error.strerror or error}")

    def _may_be_transcript(self, path: Path) -> bool:
        """Return whether the file has the name of a transcript, or none in particular and begins like JSON."""
        if path.name.lower().endswith(self._suffixes) or _ARCHIVED.search(path.name[-100:]):
            return True
        if path.suffix.lower() not in _MAY_BE_JSON:
            return False
        with path.open("rb") as file:
            start = file.read(64)
        return begins_like_json(start) or other_charset("", start) is not None

    def _ignore(self, path: Path) -> None:
        ending = path.suffix.lower()[:20]
        self.ignored[ending if ending in self.ignored or len(self.ignored) < MAX_ENDINGS else "(others)"] += 1

    def _is_passed_over(self, detected: DetectedSource) -> bool:
        """Return whether this file of a folder is counted, but not reported.

        Many other pages and databases are in such folders, and the companions of conversations.
        """
        source = detected.source
        if detected.score < _BY_CONTENT and source.plain_name in COMPANIONS:
            return True
        if source.path.name.lower() == "chat.html" and any(source.path.parent.glob("conversations*.json")):
            return True  # ChatGPT's page with the same conversations as the JSON in its folder
        if detected.importer is not None:
            return False
        if detected.reason.startswith(UNKNOWN) and ".jsonl" not in source.plain_name:
            # Settings and lists of a program, and what an agent keeps of a session in a folder next to its transcript.
            is_of_program = any(_home_of(part) in _HIDDEN for part in PurePosixPath(source.label).parts)
            if is_of_program or any(os.path.isfile(f"{folder}.jsonl") for folder in source.path.parents[:4]):
                return True
        is_expected = source.path.name.lower().endswith(tuple(_EXPECTED)) and not is_of_session(source.path)
        return not is_expected and not known_refusal(source)

    def _first_visit(self, path: Path) -> bool:
        """Return whether the walk meets this file or folder for the first time: links can lead in circles."""
        status = path.stat()
        key = (status.st_dev, status.st_ino)
        if key in self._seen:
            return False
        self._seen.add(key)
        return True

    def _detected(self, source: Source) -> DetectedSource:
        try:
            if _must_be_decoded(source):
                return DetectedSource(source, is_archive=True)
            shown = [importer for importer in self._tried if _reads_kind(importer, source)]
            scores = [(score, importer) for importer in shown if (score := importer.sniff(source))]
            if scores:
                scores.sort(key=lambda scored: -scored[0])
                return DetectedSource(source, tuple(importer for _, importer in scores), score=scores[0][0])
            if source.head.startswith(ZIP_START):
                return DetectedSource(source, is_archive=True)
            return DetectedSource(source, reason=why_refused(source, self.format))
        except (InvalidInput, TooLarge) as error:
            return DetectedSource(source, reason=str(error))


def _must_be_decoded(source: Source) -> bool:
    """Return whether the file is compressed with gzip, or not in UTF-8, of which importers know nothing."""
    return source.head.startswith(GZIP_START) or other_charset(source.path.name, source.head) is not None


def _reads_kind(importer: Importer, source: Source) -> bool:
    """Return whether the importer reads this kind of file: archives and databases can contain any text among their
    bytes.
    """
    if source.head.startswith(ZIP_START):
        return ".zip" in importer.reads.suffixes
    return not source.is_sqlite or not _DATABASES.isdisjoint(importer.reads.suffixes)


def _score(importer: Importer, source: Source) -> int:
    try:
        return importer.sniff(source) or 0
    except (InvalidInput, TooLarge):
        return 0


def _order(entry: os.DirEntry[str]) -> tuple[bool, bool, str]:
    """Return a sort key with parents first: subagents' files after sessions, sub-sessions' folders after their
    siblings.
    """
    return (entry.name.startswith("agent-"), "_" in entry.name and _is_folder(entry), entry.name)


def _home_of(folder: str) -> str:
    """Return the name of a program's hidden folder, of which people have several: `.claude` for `.claude-work`."""
    name = folder.partition("-")[0]
    return folder if folder in _HIDDEN or name not in _HIDDEN else name


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:
        return False


def known_refusal(source: Source) -> str:
    """Return the reason why a file of a known kind cannot be read; else an empty string."""
    name, head = source.path.as_posix().lower(), source.head
    fitting = (kind for kind in _UNREADABLE if name.endswith(kind.path_end))
    return next((kind.reason for kind in fitting if all(mark.search(head) for mark in kind.marks)), "")


def why_refused(source: Source, format: str) -> str:
    """Return the reason why no importer reads the file, or not the one of `format`, and what to do."""
    if source.is_blank:
        return "the file is empty: export it again"
    if reason := known_refusal(source):
        return reason
    if source.is_sqlite:
        return "an SQLite database without the tables of any program whose conversations are known"
    problem = UNKNOWN if format == AUTO else f"it looks like no file of the format {format}"
    return (
        f"{problem}. Use another export of its program, such as JSON, or write the conversation as "
        "JSON lines of messages with `role` and `content`"
    )
