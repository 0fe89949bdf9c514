"""The folders in which coding agents keep their conversations. Reads the environment and which folders exist.

Source: the agents' documentation and code, as the importers name them.
"""

import os
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Place:
    """A folder or file of one agent, and the name endings of the files in it that contain conversations.

    With `within`, a resolved path, only the files below it are sent.
    """

    agent: str
    path: Path
    endings: tuple[str, ...]
    within: Path | None = None

    def files(self) -> Iterator[Path]:
        """Yield the regular files that exist now, in a fixed order; none if the place has vanished."""
        if self.contains(self.path):
            yield self.path
            return
        for folder, folders, names in os.walk(self.path, onerror=None):
            folders.sort()
            for name in sorted(names):
                if name.endswith(self.endings) and self.contains(path := Path(folder, name)):
                    yield path

    def contains(self, path: Path) -> bool:
        """Return whether a regular file is at `path` and no link leads out of the place, which may be a link itself."""
        root = self.path if self.path.is_dir() else self.path.parent
        return path.is_file() and path.resolve().is_relative_to(root.resolve())


_EDITORS = ("Code", "Code - Insiders", "VSCodium", "Cursor", "Windsurf")
_EXTENSIONS = {
    "cline": "saoudrizwan.claude-dev",
    "roo": "rooveterinaryinc.roo-cline",
    "kilo": "kilocode.kilo-code",
}
# Below the home folder: importer, folder, endings. The files next to them, such as a title's, are read with them.
_AT_HOME = (
    ("qwen-code", ".qwen/projects", (".jsonl",)),
    ("qwen-code", ".qwen/tmp", (".jsonl",)),
    ("grok-build", ".grok/sessions", ("chat_history.jsonl",)),
    ("kimi-code", ".kimi-code/sessions", ("wire.jsonl",)),
    ("kimi-cli", ".kimi/sessions", ("context.jsonl",)),
    ("droid", ".factory/sessions", (".jsonl",)),
    ("continue", ".continue/sessions", (".json",)),
    ("mistral-vibe", ".vibe/logs/session", ("messages.jsonl",)),
    ("antigravity", ".gemini/antigravity/brain", ("transcript.jsonl",)),
    ("hermes", ".hermes/sessions", (".json",)),
    ("hermes-database", ".hermes/state.db", (".db",)),
    ("lm-studio", ".lmstudio/conversations", (".conversation.json",)),
)
_LINES = (".jsonl",)
_EXPORTS = (".zip", ".aider.chat.history.md")
_HISTORY = ("api_conversation_history.json",)


def folders(*, home: Path, environment: Mapping[str, str] = os.environ) -> dict[str, Path]:
    """Return the folders of the agents' settings, by the names that the table of agents uses."""
    chosen = environment.get("CLAUDE_CONFIG_DIR")
    return {
        "home": home,
        "claude": Path(chosen or home / ".claude"),
        "claude_json": Path(chosen or home) / ".claude.json",
        "codex": Path(environment.get("CODEX_HOME") or home / ".codex"),
        "gemini": Path(environment.get("GEMINI_CLI_HOME") or home) / ".gemini",
        "copilot": Path(environment.get("COPILOT_HOME") or home / ".copilot"),
        "config": _config_folder(home, environment),
        "xdg": Path(environment.get("XDG_CONFIG_HOME") or home / ".config"),
    }


def known_places(*, home: Path, environment: Mapping[str, str] = os.environ) -> list[Place]:
    """Return every place where an agent on this machine could keep conversations, whether it exists or not."""
    data, named = _data_folder(home, environment), folders(home=home, environment=environment)
    claude, codex, gemini, copilot, config = (
        named[name] for name in ("claude", "codex", "gemini", "copilot", "config")
    )
    places = [
        Place("claude-code", claude / "projects", _LINES),
        Place("claude-code", claude / "history.jsonl", _LINES),
        Place("codex", codex / "sessions", (".jsonl", ".jsonl.zst")),
        Place("codex", codex / "archived_sessions", (".jsonl", ".jsonl.zst")),
        Place("gemini-cli", gemini / "tmp", (".json", ".jsonl")),
        Place("copilot-cli", copilot / "session-state", ("events.jsonl",)),
        Place("amplifier", home / ".amplifier" / "projects", ("transcript.jsonl",)),
        Place("cursor", home / ".cursor" / "projects", _LINES),
        Place("cline", home / ".cline" / "data" / "sessions", (".messages.json",)),
        Place("pi", home / ".pi" / "agent" / "sessions", _LINES),
        Place("zed", data / "zed" / "threads", ("threads.db",)),
        *(Place("opencode", folder, (".db",)) for folder in _unix_data(home, environment, "opencode")),
        *(
            Place("opencode", folder / "storage" / "session", (".json",))
            for folder in _unix_data(home, environment, "opencode")
        ),
        *(Place("kilo", folder, (".db",)) for folder in _unix_data(home, environment, "kilo")),
        Place("codex-history", codex / "history.jsonl", _LINES),
        *(Place(agent, home / folder, endings) for agent, folder, endings in _AT_HOME),
        *(
            Place("kiro-cli", folder / "data.sqlite3", (".sqlite3",))
            for name in ("kiro-cli", "amazon-q")
            for folder in _unix_data(home, environment, name)
        ),
        *(Place("amp", folder / "threads", (".json",)) for folder in _unix_data(home, environment, "amp")),
        Place("kiro", config / "Kiro" / "User" / "globalStorage" / "kiro.kiroagent", (".chat",)),
        *(Place("goose", folder / "sessions", (".db", ".jsonl")) for folder in _unix_data(home, environment, "goose")),
    ]
    for editor in _EDITORS:
        user = config / editor / "User"
        places.append(Place("cursor", user / "globalStorage" / "state.vscdb", (".vscdb",)))
        places.append(Place("vscode-copilot", user / "workspaceStorage", (".jsonl", ".json")))
        places.append(Place("vscode-copilot", user / "globalStorage" / "emptyWindowChatSessions", (".jsonl", ".json")))
        places += [
            Place(agent, user / "globalStorage" / name / "tasks", _HISTORY) for agent, name in _EXTENSIONS.items()
        ]
    return places


def existing_places(*, home: Path, environment: Mapping[str, str] = os.environ) -> list[Place]:
    """Return the known places that exist."""
    return [place for place in known_places(home=home, environment=environment) if place.path.exists()]


def places_within(folder: Path, *, home: Path, environment: Mapping[str, str] = os.environ) -> list[Place]:
    """Return the agents' places in the folder or around it, for the files in it alone.

    Without any, the folder itself is a place, of transcripts that were copied or exported there.
    """
    root = folder.resolve()
    known = known_places(home=home, environment=environment)
    inside = [
        replace(place, within=root)
        for place in known
        if place.path.exists() and (root.is_relative_to(at := place.path.resolve()) or at.is_relative_to(root))
    ]
    endings = {ending for place in known for ending in place.endings} | set(_EXPORTS)
    return inside or [Place("folder", root, tuple(sorted(endings)))]


def is_of_chats(place: Place, path: Path) -> bool:
    """Return whether the file is a conversation, by its folder: editors store many other files next to them."""
    if place.agent == "vscode-copilot":
        return path.parent.name in ("chatSessions", "emptyWindowChatSessions")
    if place.agent == "gemini-cli":
        return "chats" in path.parts
    if place.agent == "continue":
        return path.name != "sessions.json"
    return place.agent != "cursor" or path.suffix == ".vscdb" or "agent-transcripts" in path.parts


def _data_folder(home: Path, environment: Mapping[str, str]) -> Path:
    if sys.platform == "darwin":
        return home / "Library" / "Application Support"
    if sys.platform == "win32":
        return Path(environment.get("LOCALAPPDATA") or home / "AppData" / "Local")
    return Path(environment.get("XDG_DATA_HOME") or home / ".local" / "share")


def _config_folder(home: Path, environment: Mapping[str, str]) -> Path:
    if sys.platform == "darwin":
        return home / "Library" / "Application Support"
    if sys.platform == "win32":
        return Path(environment.get("APPDATA") or home / "AppData" / "Roaming")
    return Path(environment.get("XDG_CONFIG_HOME") or home / ".config")


def _unix_data(home: Path, environment: Mapping[str, str], name: str) -> list[Path]:
    """Return the folders of a program that uses the Unix layout on every system, and on some systems a native one as
    well.
    """
    unix = Path(environment.get("XDG_DATA_HOME") or home / ".local" / "share") / name
    return list(dict.fromkeys([unix, _data_folder(home, environment) / name]))
