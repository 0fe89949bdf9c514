"""Recognises echoes: calls of our own tools and their results, which repeat what the archive holds already. Pure.

An echo is stored and shown, but neither indexed nor recalled; else a search's own results would be its next best hits.
Recalled text inside other messages is handled by `without_recalled` (`convmemory/core/text.py`).
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace

from convmemory.conversations.messages.drafts import MessageDraft
from convmemory.conversations.messages.parts import Part, ToolCallPart, ToolResultPart

OWN_TOOLS = frozenset(
    {
        "ConversationSearch", "search_chat_history", "conversation_recall", "read_conversation", "list_conversations",
        "document_search", "search_events", "conversation_ask",
    }
)  # fmt: skip
"""The tools' own names: our chat calls them so, and agents that keep the server's name in another field."""
# mcp__convmemory__X (Claude Code, Codex), mcp_convmemory_X (Gemini CLI), convmemory-X (Copilot CLI), convmemory_X
# (OpenCode, Kilo), mcp__plugin_convmemory_convmemory__X (a plug-in of Claude Code)
_OF_SERVER = re.compile(r"(?:mcp_{1,2})?+(?:plugin_convmemory_)?+convmemory[_\-./:]{1,2}+\w{1,80}+", re.IGNORECASE)


def is_own_call(part: ToolCallPart) -> bool:
    """Return whether one of our tools is called, in any of the agents' spellings."""
    # Cline and Roo call every MCP tool through one of their own.
    server = part.input.get("server_name")
    return server == "convmemory" or is_own_tool(part.name)


def is_own_tool(name: str) -> bool:
    return name in OWN_TOOLS or _OF_SERVER.fullmatch(name) is not None


def own_calls(parts: Iterable[Part]) -> frozenset[str]:
    """Return the ids of the calls of our tools among the parts."""
    return frozenset(part.id for part in parts if isinstance(part, ToolCallPart) and part.id and is_own_call(part))


def is_echo(part: Part, calls: frozenset[str] = frozenset()) -> bool:
    """Return whether the part is a call of our tools, or the result of one or of one of these calls."""
    if isinstance(part, ToolCallPart):
        return is_own_call(part)
    return isinstance(part, ToolResultPart) and (part.call_id in calls or is_own_tool(part.name))


def with_echoes_named(drafts: Iterable[MessageDraft]) -> Iterator[MessageDraft]:
    """Yield the messages; results of our tools, which many sources leave without a name, get the name of their call."""
    names: dict[str, str] = {}
    for draft in drafts:
        for part in draft.parts:
            if isinstance(part, ToolCallPart) and part.id and is_own_call(part):
                names[part.id] = part.name if is_own_tool(part.name) else "convmemory.use_mcp_tool"
        if names and any(isinstance(part, ToolResultPart) and part.call_id in names for part in draft.parts):
            yield replace(
                draft,
                parts=tuple(
                    replace(part, name=names[part.call_id])
                    if isinstance(part, ToolResultPart) and part.call_id in names and not is_own_tool(part.name)
                    else part
                    for part in draft.parts
                ),
            )
        else:
            yield draft
