"""One streamed completion of an OpenAI-compatible endpoint, as chunks.

The chunks are parsed as plain JSON instead of the client's models, which check nothing and cost more than everything
else.
Source: https://platform.openai.com/docs/api-reference/chat/create
"""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from convmemory.chat.agents import AgentOptions
from convmemory.chat.clients import client_for
from convmemory.core.completions import failure_of, reply_limit
from convmemory.core.errors import EndpointUnavailable


def request_body(agent: AgentOptions, messages: Sequence[dict[str, Any]], *, may_call: bool) -> dict[str, Any]:
    """The request. With `may_call` false the tools stay defined, because the messages name them, but may not be
    called."""
    body: dict[str, Any] = {"model": agent.endpoint.model, "messages": list(messages), "stream": True}
    body |= reply_limit(agent.endpoint, agent.reply_tokens)
    if agent.temperature is not None:
        body["temperature"] = agent.temperature
    if agent.recipe.tool_definitions:
        body["tools"] = list(agent.recipe.tool_definitions)
        if not may_call:
            body["tool_choice"] = "none"
    return body


@asynccontextmanager
async def open_stream(agent: AgentOptions, body: dict[str, Any]) -> AsyncIterator[AsyncIterator[object]]:
    """The chunks of the completion as JSON values; errors about their form, raised in the block, are converted too.

    Raises: EndpointBusy, EndpointRefused, EndpointUnavailable.
    """
    from openai import AsyncStream, OpenAIError

    try:
        stream = await client_for(agent.endpoint).post(
            "/chat/completions", cast_to=object, body=body, stream=True, stream_cls=AsyncStream[object]
        )
        async with stream:
            yield stream
    except OpenAIError as error:
        raise failure_of(error, agent.endpoint) from error
    except ValueError as error:  # a chunk that is not JSON, or not a chunk
        raise EndpointUnavailable(f"{agent.endpoint.where} sent something unreadable: {error}.") from error
