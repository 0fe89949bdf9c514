"""The tools there are, looked up and run by name. A new tool is one more line in `TOOLS`."""

from collections.abc import Mapping
from typing import Any

from convmemory.core.errors import NotFound
from convmemory.tools.definition import Caller, Tool
from convmemory.tools.documents import DOCUMENT_SEARCH
from convmemory.tools.reading import LIST_CONVERSATIONS, READ_CONVERSATION
from convmemory.tools.recalling import CONVERSATION_RECALL
from convmemory.tools.searching import CONVERSATION_SEARCH, SEARCH_CHAT_HISTORY

TOOLS: tuple[Tool[Any, Any], ...] = (
    CONVERSATION_SEARCH,
    SEARCH_CHAT_HISTORY,
    CONVERSATION_RECALL,
    READ_CONVERSATION,
    LIST_CONVERSATIONS,
    DOCUMENT_SEARCH,
)


def tool_definitions() -> tuple[Tool[Any, Any], ...]:
    """Every tool, in the order in which it is offered."""
    return TOOLS


def tool_named(name: str) -> Tool[Any, Any]:
    """Raises: NotFound, naming the tools there are."""
    for tool in TOOLS:
        if tool.name == name:
            return tool
    raise NotFound(f"There is no tool {name!r}: use one of {', '.join(tool.name for tool in TOOLS)}.")


def run_tool(
    name: str, arguments: Mapping[str, Any], caller: Caller, documents: frozenset[int] | None = None
) -> dict[str, Any]:
    """The tool's answer as JSON values; `caller` comes from the authenticated context, never from `arguments`.

    So do `documents`, the only ones that a conversation sees.

    Raises: NotFound for an unknown tool, InvalidInput for bad arguments, and what the tool raises.
    """
    return tool_named(name).run(arguments, caller, documents)


def openai_tool(tool: Tool[Any, Any]) -> dict[str, Any]:
    """The definition as an OpenAI function tool, for a chat completion's `tools`."""
    function = {"name": tool.name, "description": tool.description, "parameters": tool.input_schema}
    return {"type": "function", "function": function}
