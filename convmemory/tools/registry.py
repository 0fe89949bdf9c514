"""The list of all tools; looks tools up and runs them by name. To add a tool, add a line to `TOOLS`."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from convmemory.accounts.callers import Caller
from convmemory.core.config import config
from convmemory.core.errors import NotFound
from convmemory.tools.asking import CONVERSATION_ASK
from convmemory.tools.chatgpt import CHATGPT
from convmemory.tools.definition import Tool
from convmemory.tools.documents import DOCUMENT_SEARCH
from convmemory.tools.events import SEARCH_EVENTS
from convmemory.tools.files import WHY
from convmemory.tools.fixes import FIND_FIX
from convmemory.tools.marking import MARK_TURN
from convmemory.tools.reading import LIST_CONVERSATIONS, READ_CONVERSATION
from convmemory.tools.recalling import CONVERSATION_RECALL, MAX_ALIVE, RECALL
from convmemory.tools.searching import CONVERSATION_SEARCH, SEARCH, SEARCH_CHAT_HISTORY

TOOLS: tuple[Tool[Any, Any], ...] = (
    CONVERSATION_SEARCH,
    SEARCH_CHAT_HISTORY,
    CONVERSATION_RECALL,
    READ_CONVERSATION,
    LIST_CONVERSATIONS,
    DOCUMENT_SEARCH,
    SEARCH_EVENTS,
    CONVERSATION_ASK,
)
FOR_AGENTS: tuple[Tool[Any, Any], ...] = (
    SEARCH,
    READ_CONVERSATION,
    RECALL,
    LIST_CONVERSATIONS,
    WHY,
    FIND_FIX,
    MARK_TURN,
)
"""The tools that MCP offers: few, because each session of each agent pays for their definitions."""
PROFILES: Mapping[str, tuple[Tool[Any, Any], ...]] = {"chatgpt": CHATGPT}
"""The tools that MCP offers alone, under the names that a program prescribes, by the `profile` of its address."""
MCP_PREFIX = "convmemory_"
"""Of the names that MCP lists: many clients give models the bare names, and other servers have a `search`, too."""
# Chat fills this argument with the messages that its model already sees.
ALIVE = "alive_message_ids"


@dataclass(frozen=True, slots=True)
class Seen:
    """The content that a chat's model already sees.

    `messages` are ids; `documents` are the only documents that the model may search, or None for all.
    """

    messages: frozenset[int] = frozenset()
    documents: frozenset[int] | None = None


NOTHING_SEEN = Seen()


def chat_tools() -> tuple[Tool[Any, Any], ...]:
    """Return the enabled tools of chats, in the order in which they are offered."""
    return tuple(tool for tool in TOOLS if tool.is_offered())


def tool_definitions() -> tuple[Tool[Any, Any], ...]:
    """Return all enabled tools: those for agents, then the others."""
    return tuple(tool for tool in dict.fromkeys((*FOR_AGENTS, *TOOLS)) if tool.is_offered())


def mcp_tools(profile: str = "") -> tuple[Tool[Any, Any], ...]:
    """Return the tools that MCP lists: those of a profile, or else named with its prefix.

    Without a profile all tools answer under their names without the prefix, too.
    """
    if profile:
        return PROFILES[profile]
    listed = tool_definitions() if config.mcp_all_tools else tuple(tool for tool in FOR_AGENTS if tool.is_offered())
    return tuple(replace(tool, name=f"{MCP_PREFIX}{tool.name}") for tool in listed)


def tool_named(name: str, profile: str = "") -> Tool[Any, Any]:
    """Return the tool with this name, with or without the prefix. Raises: NotFound, which lists the available tools."""
    offered = PROFILES[profile] if profile else tool_definitions()
    for tool in offered:
        if tool.name == name.removeprefix(MCP_PREFIX):
            return tool
    raise NotFound(f"There is no tool {name!r}: use one of {', '.join(tool.name for tool in offered)}.")


def run_tool(
    name: str, arguments: Mapping[str, Any], caller: Caller | None, *, seen: Seen = NOTHING_SEEN
) -> dict[str, Any]:
    """Run a tool and return its answer as JSON values.

    `caller` and `seen` come from the authenticated context, never from `arguments`. A tool that brings messages back
    leaves out those that the calling model already sees, and searches only the documents that its conversation sees.
    Raises: NotFound for an unknown tool, InvalidInput for bad arguments, and whatever the tool raises.
    """
    tool = tool_named(name)
    if seen.messages and ALIVE in tool.input_model.model_fields:
        # Join the model's own list with the newest messages of its context. The tool itself refuses a value that is not
        # a list.
        alive = arguments.get(ALIVE)
        arguments = {
            **arguments,
            ALIVE: alive
            if alive and not isinstance(alive, list)
            else [*(alive or []), *sorted(seen.messages, reverse=True)][:MAX_ALIVE],
        }
    return tool.run(arguments, caller, seen.documents)


def openai_tool(tool: Tool[Any, Any]) -> dict[str, Any]:
    """Return the definition as an OpenAI function tool, for a chat completion's `tools`."""
    function = {"name": tool.name, "description": tool.description, "parameters": tool.input_schema}
    return {"type": "function", "function": function}
