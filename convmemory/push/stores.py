"""The folders in which coding agents keep their conversations. Reads the environment and which folders exist.

Source: the agents' documentation and code, as the importers name them.
"""

import os
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path


@dataclass(frozen=True, slots=True)
class SessionStore:
    """A folder or file of one agent, and the name endings of the files in it that contain conversations.

    With `within`, a resolved path, only the files below it are sent.
    """

    agent: str
    path: Path
    endings: tuple[str, ...]
    within: Path | None = None

    def files(self) -> Iterator[Path]:
        """Yield the regular files that exist now, in a fixed order; none if the store has vanished."""
        if self.contains(self.path):
            yield self.path
            return
        for folder, folders, names in os.walk(self.path, onerror=None):
            folders.sort()
            for name in sorted(names):
                if name.endswith(self.endings) and self.contains(path := Path(folder, name)):
                    yield path

    def contains(self, path: Path) -> bool:
        """Return whether a regular file is at `path` and no link leads out of the store, which may be a link itself."""
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
        "config": _native_folder(home, environment, is_data=False),
        "xdg": Path(environment.get("XDG_CONFIG_HOME") or home / ".config"),
    }


def known_stores(*, home: Path, environment: Mapping[str, str] = os.environ) -> list[SessionStore]:
    """Return every store that an agent on this machine could have, whether it exists or not."""
    data, named = _native_folder(home, environment, is_data=True), folders(home=home, environment=environment)
    claude, codex, gemini, copilot, config = (
        named[name] for name in ("claude", "codex", "gemini", "copilot", "config")
    )
    stores = [
        SessionStore("claude-code", claude / "projects", _LINES),
        SessionStore("claude-code", claude / "history.jsonl", _LINES),
        SessionStore("codex", codex / "sessions", (".jsonl", ".jsonl.zst")),
        SessionStore("codex", codex / "archived_sessions", (".jsonl", ".jsonl.zst")),
        SessionStore("gemini-cli", gemini / "tmp", (".json", ".jsonl")),
        SessionStore("copilot-cli", copilot / "session-state", ("events.jsonl",)),
        SessionStore("amplifier", home / ".amplifier" / "projects", ("transcript.jsonl",)),
        SessionStore("cursor", home / ".cursor" / "projects", _LINES),
        SessionStore("cline", home / ".cline" / "data" / "sessions", (".messages.json",)),
        SessionStore("pi", home / ".pi" / "agent" / "sessions", _LINES),
        SessionStore("zed", data / "zed" / "threads", ("threads.db",)),
        *(SessionStore("opencode", folder, (".db",)) for folder in _unix_data(home, environment, "opencode")),
        *(
            SessionStore("opencode", folder / "storage" / "session", (".json",))
            for folder in _unix_data(home, environment, "opencode")
        ),
        *(SessionStore("kilo", folder, (".db",)) for folder in _unix_data(home, environment, "kilo")),
        SessionStore("codex-history", codex / "history.jsonl", _LINES),
        *(SessionStore(agent, home / folder, endings) for agent, folder, endings in _AT_HOME),
        *(
            SessionStore("kiro-cli", folder / "data.sqlite3", (".sqlite3",))
            for name in ("kiro-cli", "amazon-q")
            for folder in _unix_data(home, environment, name)
        ),
        *(SessionStore("amp", folder / "threads", (".json",)) for folder in _unix_data(home, environment, "amp")),
        SessionStore("kiro", config / "Kiro" / "User" / "globalStorage" / "kiro.kiroagent", (".chat",)),
        *(
            SessionStore("goose", folder / "sessions", (".db", ".jsonl"))
            for folder in _unix_data(home, environment, "goose")
        ),
    ]
    for editor in _EDITORS:
        user = config / editor / "User"
        stores.append(SessionStore("cursor", user / "globalStorage" / "state.vscdb", (".vscdb",)))
        stores.append(SessionStore("vscode-copilot", user / "workspaceStorage", (".jsonl", ".json")))
        stores.append(
            SessionStore("vscode-copilot", user / "globalStorage" / "emptyWindowChatSessions", (".jsonl", ".json"))
        )
        stores += [
            SessionStore(agent, user / "globalStorage" / name / "tasks", _HISTORY)
            for agent, name in _EXTENSIONS.items()
        ]
    return stores


def existing_stores(*, home: Path, environment: Mapping[str, str] = os.environ) -> list[SessionStore]:
    """Return the known stores that exist."""
    return [store for store in known_stores(home=home, environment=environment) if store.path.exists()]


def stores_within(folder: Path, *, home: Path, environment: Mapping[str, str] = os.environ) -> list[SessionStore]:
    """Return the agents' stores in the folder or around it, for the files in it alone.

    Without any, the folder itself is a store, of transcripts that were copied or exported there.
    """
    root = folder.resolve()
    stores = known_stores(home=home, environment=environment)
    inside = [
        replace(store, within=root)
        for store in stores
        if store.path.exists() and (root.is_relative_to(at := store.path.resolve()) or at.is_relative_to(root))
    ]
    endings = {ending for store in stores for ending in store.endings} | set(_EXPORTS)
    return inside or [SessionStore("folder", root, tuple(sorted(endings)))]


def is_of_chats(store: SessionStore, path: Path) -> bool:
    """Return whether the file is a conversation, by its folder: editors store many other files next to them."""
    if store.agent == "vscode-copilot":
        return path.parent.name in ("chatSessions", "emptyWindowChatSessions")
    if store.agent == "gemini-cli":
        return "chats" in path.parts
    if store.agent == "continue":
        return path.name != "sessions.json"
    return store.agent != "cursor" or path.suffix == ".vscdb" or "agent-transcripts" in path.parts


def _native_folder(home: Path, environment: Mapping[str, str], *, is_data: bool) -> Path:
    """Return the system's folder of programs' data, or of their settings."""
    if sys.platform == "darwin":
        return home / "Library" / "Application Support"
    if sys.platform == "win32":
        name, last = ("LOCALAPPDATA", "Local") if is_data else ("APPDATA", "Roaming")
        return Path(environment.get(name) or home / "AppData" / last)
    name, last = ("XDG_DATA_HOME", ".local/share") if is_data else ("XDG_CONFIG_HOME", ".config")
    return Path(environment.get(name) or home / last)


def _unix_data(home: Path, environment: Mapping[str, str], name: str) -> list[Path]:
    """Return the folders of a program that uses the Unix layout on every system, and on some systems a native one as
    well.
    """
    unix = Path(environment.get("XDG_DATA_HOME") or home / ".local" / "share") / name
    return list(dict.fromkeys([unix, _native_folder(home, environment, is_data=True) / name]))
