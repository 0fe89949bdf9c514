"""Describes each format once: how people export their conversations from a program, and what is kept of them.

The import page shows it, and `make formats` writes `docs/formats.md` and the table of `README.md` from it.
"""

import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Literal

from convmemory.conversations.importers.agent_formats import AGENT_FORMATS
from convmemory.conversations.importers.chat_formats import PROGRAMS, SERVICES
from convmemory.conversations.importers.detect import IMPORTERS
from convmemory.conversations.importers.library_formats import LIBRARIES
from convmemory.core.errors import InvalidInput

Against = Literal["file", "schema"]
KINDS = ("Chat services", "Chat programs", "Coding agents", "Libraries, data sets and files of your own")

PAGE_HEAD = """# Formats

This page is written from the code by `make formats`; the import page shows the same. A file is recognised by what is
in it, whatever its name. Importing again updates and adds, never doubles. [Adding a format](adding-a-format.md) takes
10 to 20 lines. Files that are no conversations are [documents](documents.md).

*Checked against* says what the newest version was compared with: a **file** that the program wrote, or a published
**schema** only. If a file of yours is not read as it should be, the import's report names the places.
"""
README_HEAD = "| kind | programs and formats |\n|---|---|\n"
TABLE_HEAD = "| format | checked | against | how to get the files | what is kept |\n|---|---|---|---|---|\n"


@dataclass(frozen=True, slots=True)
class FormatNote:
    """The description of one format. `name` is its importer's."""

    name: str
    kind: str
    program: str
    version: str
    against: Against
    export: str
    kept: str


_Texts = tuple[str, Against, str, str]
_SERVICES: Mapping[str, _Texts] = {
    "chatgpt": (
        "ChatGPT",
        "file",
        "Settings → Data controls → Export data. A mail brings a link to a .zip: import it as it is.",
        "Branches, thinking, tools, canvases, names of files, voice transcripts.",
    ),
    "claude-ai": (
        "Claude (claude.ai)",
        "file",
        "Settings → Privacy → Export data. A mail brings links to .zip files.",
        "Branches, thinking, tools, projects, memories, texts of files.",
    ),
    "gemini-takeout": (
        "Gemini",
        "schema",
        "takeout.google.com → deselect all → My Activity → only Gemini Apps, as JSON or HTML.",
        "Prompts and answers, by the chats that they link, else by day.",
    ),
}
_PROGRAMS: Mapping[str, _Texts] = {
    "open-webui": (
        "Open WebUI",
        "file",
        "Settings → Data controls → Export chats, or the server's database webui.db.",
        "Branches, thinking, tools, names of files.",
    ),
    "librechat": (
        "LibreChat, Chatbot UI",
        "file",
        "Settings → Data → Export, or ⋮ → Export of one conversation as JSON.",
        "Branches, thinking, tools.",
    ),
}
_AGENTS: Mapping[str, _Texts] = {
    "claude-code": (
        "Claude Code",
        "file",
        "The folder ~/.claude/projects.",
        "Everything that was said, with subagents.",
    ),
    "claude-history": (
        "Claude Code",
        "schema",
        "~/.claude/history.jsonl.",
        "Prompts of sessions whose files are gone.",
    ),
    "claude-stream": (
        "claude -p, claude-code-action, Claude Code for web",
        "schema",
        "`claude -p --output-format stream-json > FILE`, the action's claude-execution-output.json, a session as JSON.",
        "Answers, tools, subagents; the prompt where it is in the output.",
    ),
    "codex": ("Codex CLI", "file", "The folder ~/.codex/sessions.", "Everything that was said, rolled back or not."),
    "copilot-cli": (
        "Copilot CLI, Copilot in JetBrains",
        "file",
        "The folders ~/.copilot/session-state and ~/.copilot/jb.",
        "Tools, thinking, rewound messages.",
    ),
    "gemini-cli": ("Gemini CLI", "file", "The folder ~/.gemini/tmp.", "Tools, thinking, rewinds."),
    "cline": (
        "Cline, Roo Code, older Kilo Code",
        "file",
        "The folder tasks of the extension, or ~/.cline/data/sessions.",
        "Tools, project, model.",
    ),
    "opencode": (
        "OpenCode, Kilo",
        "file",
        "~/.local/share/opencode/opencode.db, ~/.local/share/kilo/kilo.db, or `opencode export`.",
        "Tools, thinking, reverted messages, sub-sessions.",
    ),
    "cursor": (
        "Cursor",
        "schema",
        "globalStorage/state.vscdb of the editor, or ~/.cursor/projects.",
        "Tools, thinking where it is stored.",
    ),
    "vscode-copilot": (
        "Copilot Chat in VS Code",
        "schema",
        "workspaceStorage/*/chatSessions of the editor, or Chat: Export Chat.",
        "Tools, edited requests.",
    ),
    "goose": ("Goose", "schema", "~/.local/share/goose/sessions.", "Tools, thinking."),
    "zed": (
        "Zed",
        "schema",
        "threads/threads.db in Zed's data folder; text threads in conversations/*.zed.json.",
        "Tools, thinking.",
    ),
    "pi": (
        "pi, OpenClaw",
        "file",
        "The folders ~/.pi/agent/sessions and ~/.openclaw/agents, with OpenClaw's databases and archives.",
        "Branches, tools, thinking.",
    ),
    "junie": ("Junie", "schema", "The folder ~/.junie/sessions.", "Prompts, results, calls with their output."),
    "aider": ("Aider", "file", "The file .aider.chat.history.md of a repository.", "Prompts, answers, model."),
    "amplifier": ("Amplifier", "file", "The folder ~/.amplifier/projects.", "Tools, thinking, events."),
}
_OWN: Mapping[str, _Texts] = {
    "markdown": (
        "Markdown of exporters",
        "schema",
        "SpecStory's folder .specstory/history, Cursor's Export Chat, exporters for ChatGPT, or pasted text.",
        "Speakers, thinking; times and models of SpecStory.",
    ),
    "plain": (
        "OpenAI and Anthropic messages",
        "schema",
        "JSON or JSON lines of messages with `role` and `content`, or of conversations with `messages`.",
        "Tools, thinking, titles.",
    ),
    "convmemory": ("convmemory", "file", "An export of this program, unpacked or as it is.", "Everything."),
    "convmemory-json": ("convmemory", "file", "Conversations exported here as JSON.", "Everything."),
}


def notes() -> Iterator[FormatNote]:
    """Yield all formats, by kind."""
    written = (_SERVICES, _PROGRAMS, _AGENTS, _OWN)
    declared = (SERVICES, PROGRAMS, AGENT_FORMATS, LIBRARIES)
    for kind, texts, rows in zip(KINDS, written, declared, strict=True):
        for name, (program, against, export, kept) in texts.items():
            yield FormatNote(name, kind, program, IMPORTERS[name].checked.version, against, export, kept)
        yield from (
            FormatNote(row.name, kind, row.checked.program, row.checked.version, row.against, row.export, row.kept)
            for row in rows
        )


NOTES = tuple(notes())
_OFTEN = {name for name, count in Counter(note.program for note in NOTES).items() if count > 1}
LABELS = {f"{note.program} ({note.name})" if note.program in _OFTEN else note.program: note for note in NOTES}
"""The formats by the name that people type: the program's, with the format's where one program has several."""


def format_of(text: str) -> str:
    """Return the format of a program's name, of its beginning, or of a format's name. Raises: InvalidInput."""
    typed = " ".join(text.lower().split())
    names = {label.lower(): note.name for label, note in LABELS.items()} | {note.name: note.name for note in NOTES}
    begun = {name for label, name in names.items() if typed and label.startswith(typed)}
    if typed in names or len(begun) == 1:
        return names.get(typed) or begun.pop()
    near = [label for label in LABELS if label.lower() in get_close_matches(typed, list(names), n=3)]
    advice = f": {' or '.join(near)}?" if near else ": choose one of the list."
    raise InvalidInput(f"No program “{text[:40]}”{advice}")


def documented() -> str:
    """Return the page of all formats as Markdown."""
    sections = []
    for kind in KINDS:
        rows = [note for note in NOTES if note.kind == kind]
        cells = [
            (f"{note.program} (`{note.name}`)", note.version, note.against, _cell(note.export), _cell(note.kept))
            for note in rows
        ]
        lines = (f"| {' | '.join(row)} |\n" for row in cells)
        sections.append(f"\n## {kind}\n\n{TABLE_HEAD}{''.join(lines)}")
    return PAGE_HEAD + "".join(sections)


def with_programs(readme: str) -> str:
    """Return the README with the programs of all formats in its table."""
    before, head, rest = readme.partition(README_HEAD)
    rows = []
    for kind in KINDS:
        programs = dict.fromkeys(note.program for note in NOTES if note.kind == kind)
        rows.append(f"| {kind} | {', '.join(programs)} |\n")
    return before + head + "".join(rows) + rest[rest.index("\n\n") + 1 :]


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


if __name__ == "__main__":
    page, readme = map(Path, sys.argv[1:])
    page.write_text(documented(), encoding="utf-8")
    readme.write_text(with_programs(readme.read_text(encoding="utf-8")), encoding="utf-8")
