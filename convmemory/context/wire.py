"""Messages in the format of OpenAI's chat completions, and their cost in tokens. Pure.

Thinking is not sent. Results are moved directly after their calls. A call without a result gets a result that says so,
and a result without a call becomes text: servers refuse other orders. Source:
https://platform.openai.com/docs/api-reference/chat/create
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

from convmemory.context.pairs import PartPlace, answers
from convmemory.context.values import ContextMessage, CountTokens
from convmemory.conversations.messages.parts import (
    AttachmentPart,
    Part,
    ThinkingPart,
    ToolCallPart,
    ToolResultPart,
    part_text,
)

NO_RESULT = "(There is no result: the call was interrupted.)"

# The tokens of a request in addition to its texts: role and separators of a message; id, name and separators of a call
# and its result. Source: OpenAI's cookbook counts 3 a message and 1 a name; calls are rounded up.
_MESSAGE_TOKENS = 4
_CALL_TOKENS = 24


def measured(message: ContextMessage, count_tokens: CountTokens) -> ContextMessage:
    """Return the message with its cost in tokens on the wire."""
    return replace(message, tokens=_MESSAGE_TOKENS + sum(_part_tokens(part, count_tokens) for part in message.parts))


def definition_tokens(tool_definitions: Iterable[Mapping[str, object]], count_tokens: CountTokens) -> int:
    """Return the cost of the tools' definitions."""
    return sum(_counted_once(_json(definition), count_tokens) for definition in tool_definitions)


@lru_cache(maxsize=256)
def _counted_once(text: str, count_tokens: CountTokens) -> int:
    """Count a definition once; definitions are long and the same in each request of an agent."""
    return count_tokens(text)


def text_tokens(text: str, count_tokens: CountTokens) -> int:
    """Return the cost of a text as a message of its own; 0 if it is empty."""
    return _MESSAGE_TOKENS + count_tokens(text) if text else 0


def _part_tokens(part: Part, count_tokens: CountTokens) -> int:
    if isinstance(part, ToolCallPart):
        return _CALL_TOKENS + count_tokens(part.name) + count_tokens(_json(part.input))
    if isinstance(part, ToolResultPart):
        return _CALL_TOKENS + count_tokens(part.text)
    return 0 if isinstance(part, ThinkingPart) else count_tokens(_plain_text(part)) + 1


def wire_messages(system_prompt: str, messages: Sequence[ContextMessage]) -> list[dict[str, Any]]:
    """Return the value of `messages` in the request."""
    results = answers(messages)
    answered = set(results.values())
    sent: list[dict[str, Any]] = [{"role": "system", "content": system_prompt}] if system_prompt else []
    # An id for each call, unique in the request and the call's own if possible.
    names: dict[PartPlace, str] = {}
    taken: set[str] = set()
    for index, message in enumerate(messages):
        for part_index, part in enumerate(message.parts):
            if isinstance(part, ToolCallPart) and message.role == "assistant":
                call_id = part.id if part.id and part.id not in taken else f"call_{message.position}_{part_index}"
                taken.add(call_id)
                names[PartPlace(index, part_index)] = call_id
    for index, message in enumerate(messages):
        sent += _own(message, index, answered, names)
        for part_index, part in enumerate(message.parts):
            if isinstance(part, ToolCallPart) and message.role == "assistant":
                position = PartPlace(index, part_index)
                text = NO_RESULT
                if result := results.get(position):
                    output = messages[result.message].parts[result.part]
                    assert isinstance(output, ToolResultPart)
                    text = f"Error: {output.text}" if output.is_error else output.text
                sent.append({"role": "tool", "tool_call_id": names[position], "content": text})
    return sent


def _own(
    message: ContextMessage, index: int, answered: set[PartPlace], names: Mapping[PartPlace, str]
) -> list[dict[str, Any]]:
    """Return the message without the results that were moved after their calls; nothing if nothing remains."""
    texts: list[str] = []
    calls: list[dict[str, Any]] = []
    for part_index, part in enumerate(message.parts):
        position = PartPlace(index, part_index)
        if isinstance(part, ToolCallPart) and message.role == "assistant":
            function = {"name": part.name, "arguments": _json(part.input)}
            calls.append({"id": names[position], "type": "function", "function": function})
        elif isinstance(part, ToolResultPart):
            if position not in answered:
                texts.append(f"[Result of a tool{f' ({part.name})' if part.name else ''}]\n{part.text}")
        elif not isinstance(part, ThinkingPart) and (text := _plain_text(part)).strip():
            texts.append(text)
    content = "\n\n".join(texts)
    if calls:
        return [{"role": "assistant", "content": content or None, "tool_calls": calls}]
    role = "user" if message.role == "tool" else message.role
    return [{"role": role, "content": content}] if content else []


def _plain_text(part: Part) -> str:
    if isinstance(part, AttachmentPart):
        return f"[Attachment: {part.name or 'without a name'}]\n{part.text}".rstrip()
    return part_text(part)


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)
