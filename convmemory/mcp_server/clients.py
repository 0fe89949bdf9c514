"""Instructions that connect agents to this server: one command for all, and the lines for each by hand. Pure."""

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

from convmemory.push.agents import AGENTS, Agent, Wires, entries_of
from convmemory.push.edits import insert

KEY_VARIABLE = "CONVMEMORY_KEY"
KEY_PLACE = "PASTE-YOUR-KEY"


@dataclass(frozen=True, slots=True)
class Setup:
    """Instructions: a command to run, or the content of a configuration file."""

    slug: str
    name: str
    where: str
    lines: str
    note: str = ""


def commands(*, server: str, command: Sequence[str], user: str, key: str = "") -> tuple[Setup, ...]:
    """Return the commands that connect all agents of a machine. `command` runs `manage.py`."""
    port = urlsplit(server).port
    connect = [*command, "connect", "--user", user, *(["--server", server] if port else [])]
    fetch = f"curl -fsSO {shlex.quote(f'{server}/client.pyz')}"
    other = f"{fetch} && {KEY_VARIABLE}={key or KEY_PLACE} python3 client.pyz connect --server {shlex.quote(server)}"
    return (
        Setup(
            "connect", "Every agent of this machine", "on the machine of the server", shlex.join(connect),
            "It makes a key, and finds the agents. --dry-run only says what it would write.",
        ),
        Setup(
            "connect-elsewhere", "Every agent of another machine", "on that machine", other,
            "The client is one file, and needs only Python 3.11. Its command disconnect takes everything out again.",
        ),
    )  # fmt: skip


def setups(*, server: str, command: Sequence[str], user: str, key: str = "") -> tuple[Setup, ...]:
    """Return the lines for each agent, for a server at this address. `key` replaces the placeholder `KEY_PLACE`."""
    wires = Wires(tuple(command), server, key or KEY_PLACE, "off", is_direct=True, arguments=("mcp", "--user", user))
    stdio = shlex.join([*command, *wires.arguments])
    rows = []
    for agent in AGENTS:
        if agent.local is not None:
            entry = next(iter(entries_of(agent, wires)))
            text = insert("", entry.target, entry.value).text.strip()
            note = ""
            if not agent.remote:
                note = "It starts the server itself, so this is for the machine that convmemory runs on."
            rows.append(Setup(agent.slug, agent.name, shown_path(agent), text, note))
    return (*rows, Setup("other", "Any other agent", "As a command on this machine", stdio))


def shown_path(agent: Agent) -> str:
    """Return the path of the agent's configuration on Linux, as people write it."""
    return agent.files[0].format_map(_PLACES)


_PLACES = {
    "home": "~",
    "claude": "~/.claude",
    "claude_json": "~/.claude.json",
    "codex": "~/.codex",
    "gemini": "~/.gemini",
    "copilot": "~/.copilot",
    "config": "~/.config",
    "xdg": "~/.config",
}
