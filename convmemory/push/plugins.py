"""Writes the plug-ins for the marketplaces of agents from the same table: `python -m convmemory.push.plugins FOLDER`.

They start the client in the user's data folder, which `connect --client-only` puts there, and contain neither an
address nor a key. They call no program by a name that others may have, too.
"""

import json
import sys
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .agents import DESCRIPTION, NAME, Agent, Wires, agent_named, entries_of, skill_of
from .application import PROGRAM

_CLIENT = f'"$HOME/.local/share/{NAME}/{PROGRAM}"'
WIRES = Wires(command=("/bin/sh", "-c", f'exec {_CLIENT} "$@"', PROGRAM), words=_CLIENT)


def plugin_files() -> dict[str, str]:
    """Return the text of each file, by its path in the folder of the plug-ins."""
    files: dict[str, str] = {}
    claude, gemini = _agent("claude-code"), _agent("gemini-cli")
    project = tomllib.loads(Path(__file__).with_name("pyproject.toml").read_text(encoding="utf-8"))["project"]
    about = {"name": NAME, "version": project["version"], "description": DESCRIPTION}
    author = {"name": NAME}
    listed = {"name": NAME, "source": "./claude-code", "description": DESCRIPTION}
    files[".claude-plugin/marketplace.json"] = _text({"name": NAME, "owner": author, "plugins": [listed]})
    files["claude-code/.claude-plugin/plugin.json"] = _text({**about, "author": author})
    files["claude-code/.mcp.json"] = _text({"mcpServers": {NAME: _server(claude)}})
    files["claude-code/hooks/hooks.json"] = _text({"hooks": _hooks(claude)})
    files[f"claude-code/skills/{NAME}/SKILL.md"] = skill_of(claude, WIRES.command)
    # An extension may not trust its own server.
    server = {name: value for name, value in _server(gemini).items() if name != "trust"}
    files["gemini-cli/gemini-extension.json"] = _text({**about, "mcpServers": {NAME: server}})
    files["gemini-cli/hooks/hooks.json"] = _text({"hooks": _hooks(gemini)})
    return files


def _agent(slug: str) -> Agent:
    agent = agent_named(slug)
    if agent is None:
        raise LookupError(slug)
    return agent


def _server(agent: Agent) -> Mapping[str, Any]:
    (server,) = (entry.value for entry in entries_of(agent, WIRES) if entry.target.keys == agent.keys)
    return dict(server)


def _hooks(agent: Agent) -> dict[str, list[Any]]:
    """Return the agent's hooks by its names of the events."""
    entries = (entry for entry in entries_of(agent, WIRES) if entry.target.keys[:1] == ("hooks",))
    return {entry.target.keys[1]: [entry.value] for entry in entries}


def _text(value: Any) -> str:
    return json.dumps(value, indent=2) + "\n"


if __name__ == "__main__":
    for name, text in plugin_files().items():
        path = Path(sys.argv[1], name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
