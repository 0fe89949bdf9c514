"""Configuration snippets that connect common agents to this server. Pure."""

import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

KEY_VARIABLE = "CONVMEMORY_KEY"
KEY_PLACE = "PASTE-YOUR-KEY"


@dataclass(frozen=True, slots=True)
class Setup:
    """Instructions for one agent: a command to run, or the content of a configuration file."""

    slug: str
    name: str
    where: str
    lines: str
    note: str = ""


def setups(*, address: str, command: Sequence[str], key: str = "") -> tuple[Setup, ...]:
    """Return the instructions for a server at `address` (with `/mcp`).

    `command` starts the server over standard input and output. `key` replaces the placeholder `KEY_PLACE`.
    """
    shown = key or KEY_PLACE
    bearer = {"Authorization": f"Bearer {shown}"}
    return (
        Setup(
            "claude-code", "Claude Code", "In a terminal", _claude_code(address, shown), "/mcp in a session shows it."
        ),
        Setup(
            "codex",
            "Codex",
            "~/.codex/config.toml",
            f'[mcp_servers.convmemory]\nurl = "{address}"\nbearer_token_env_var = "{KEY_VARIABLE}"',
            f"Start Codex where {KEY_VARIABLE} holds your key: export {KEY_VARIABLE}={shown}",
        ),
        Setup(
            "claude-desktop",
            "Claude Desktop",
            "claude_desktop_config.json",
            _json({"mcpServers": {"convmemory": {"command": command[0], "args": list(command[1:])}}}),
            "It starts the server itself, so this is for the machine that convmemory runs on, and needs no key.",
        ),
        Setup(
            "cursor",
            "Cursor",
            "~/.cursor/mcp.json",
            _json({"mcpServers": {"convmemory": {"url": address, "headers": bearer}}}),
        ),
        Setup("vs-code", "VS Code", ".vscode/mcp.json", _json(_vs_code(address)), "It asks for the key once."),
        Setup("other", "Any other agent", "As a command on this machine", shlex.join(command)),
    )


def _claude_code(address: str, key: str) -> str:
    return (
        f"claude mcp add --transport http convmemory {shlex.quote(address)} \\\n"
        f'  --header "Authorization: Bearer {key}"'
    )


def _vs_code(address: str) -> Mapping[str, Any]:
    key = {"type": "promptString", "id": "convmemory-key", "description": "convmemory API key", "password": True}
    headers = {"Authorization": "Bearer ${input:convmemory-key}"}
    return {"inputs": [key], "servers": {"convmemory": {"type": "http", "url": address, "headers": headers}}}


def _json(value: Mapping[str, Any]) -> str:
    return json.dumps(value, indent=2)
