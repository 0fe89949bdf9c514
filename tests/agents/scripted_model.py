"""The scripted model: for the first question it calls the archive's search, and it answers both in fixed words."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from tests.support.chat_server import Script, calls, says

ASKED = "Why did the well pump of the waterworks stop every night?"
KNOWN = "The start capacitor of the well pump was worn out; a new one of 40 microfarads ended the nightly stops."
QUERY = "what was wrong with the well pump of the waterworks"
FIRST = (
    "Our well pump of the waterworks stops every night again, why did it stop every night last time?",
    "It was the capacitor.",
)
SECOND = ("And which size did the new part of that pump have back then?", "It had 40 microfarads.")
THIRD = ("And who was it that replaced it in the end?", "The plumber from next door.")
CHINESE = ("为什么水厂的井泵每天晚上都会停？", "井泵的启动电容坏了，换成四十微法的新电容以后就不再停了。")  # noqa: RUF001
STEERING = "Now do the same for the other file, please."
FAILS = ("Please open the water once.", "make water", "Someone has to look at the valve.")
FIXED = "The rule of the valve is in valve.mk; the Makefile includes it now."
SHELLS = {"Bash": "command", "bash": "command", "exec_command": "cmd", "run_shell_command": "command"}
DEFERRED = "mcp__convmemory__convmemory_search"
LOADERS = ("ToolSearch", "tool_search")  # Claude Code and Qwen Code load the tools of MCP by a tool of their own
CALLER = "tool_call"  # and Qwen Code calls them by another
SHELL = "exec_command"  # Codex does not wait for the start of MCP servers before it asks the model


def answer(asked: Mapping[str, Any]) -> Script:
    """Return the answer to a request in any of the formats."""
    text = json.dumps(asked)
    if THIRD[0] in text:
        return says(THIRD[1])
    if FAILS[0] in text:
        shell = next((name for name in SHELLS if name in dict(tools_of(asked))), "")
        if FAILS[1] in text or not shell:
            return says(FAILS[2])
        return calls(shell, {SHELLS[shell]: FAILS[1], "description": "Open the water"}, id="call_fails")
    if SECOND[0] in text:
        return says(SECOND[1])
    if FIRST[0] not in text:
        return says("Pump")  # a title, or what else an agent asks by itself
    if QUERY in text:
        return says(FIRST[1])
    declared = dict(tools_of(asked))
    name = next(
        (name for name in declared if "convmemory" in f"{declared[name]} {name}" and name.endswith("search")), ""
    )
    if name:
        return calls(name, {"query": QUERY}, id="call_search", namespace=declared[name])
    loads = f"select:{DEFERRED}"
    if loads in text:
        return calls(CALLER, {"name": DEFERRED, "arguments": {"query": QUERY}}, id="call_search")
    loader = next((name for name in LOADERS if name in declared), "")
    if loader:
        return calls(loader, {"query": loads}, id="call_load")
    if SHELL in declared and "call_wait" not in text:
        return calls(SHELL, {"cmd": "sleep 5"}, id="call_wait")
    return says("There is no search.")


def tools_of(asked: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the names of the tools in a request, with their namespaces."""
    for tool in asked.get("tools") or ():
        inner = tool.get("tools") if tool.get("type") == "namespace" else None
        for declared in inner or (tool, tool.get("function") or {}, *tool.get("functionDeclarations", ())):
            yield declared.get("name") or "", tool["name"] if inner else ""
