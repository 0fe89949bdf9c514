"""Reads one streamed completion of an OpenAI-compatible endpoint as chunks.

The chunks are parsed as plain JSON: the client's models check nothing and cost more than the rest of the work. Source:
https://platform.openai.com/docs/api-reference/chat/create
"""

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing, asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any

from convmemory.chat.agents import AgentOptions
from convmemory.chat.clients import client_for
from convmemory.core.completions import failure_of, reply_limit
from convmemory.core.endpoint_streams import EventReader
from convmemory.core.errors import EndpointUnavailable

if TYPE_CHECKING:
    import httpx2

# Only a connection whose body was read to its end can be used again; a server that keeps the body open must not delay
# the reply.
DRAIN_S = 0.1


def request_body(agent: AgentOptions, messages: Sequence[dict[str, Any]], *, may_call: bool) -> dict[str, Any]:
    """Return the body of the request.

    With `may_call` false the tools stay defined, because the messages name them, but the model may not call them.
    """
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
    """Yield the chunks of the completion as JSON values.

    Errors about their form that are raised in the block are converted too. Raises: EndpointBusy, EndpointRefused
    (ResponseRefused for an event or a stream over its limit), EndpointMisconfigured, EndpointUnavailable.
    """
    from openai import AsyncStream, OpenAIError

    try:
        stream = await client_for(agent.endpoint).post(
            "/chat/completions", cast_to=object, body=body, stream=True, stream_cls=AsyncStream[object]
        )
        async with stream, aclosing(_chunks(stream.response)) as chunks:
            yield chunks
    except OpenAIError as error:
        raise failure_of(error, agent.endpoint) from error
    except (ValueError, RecursionError) as error:  # a chunk that is not JSON, or not a chunk
        raise EndpointUnavailable(f"{agent.endpoint.where} sent something unreadable: {error}.") from error


async def _chunks(response: "httpx2.Response") -> AsyncGenerator[object, None]:
    """Yield the events as JSON values up to `[DONE]`.

    The client's own decoder limits neither lines nor events.
    """
    import httpx2
    from openai import APIConnectionError, APITimeoutError

    reader = EventReader()
    pieces = response.aiter_raw()
    try:
        async for piece in pieces:
            for data in reader.feed(piece):
                if data.startswith(b"[DONE]"):
                    await _drain(pieces)
                    return
                yield _chunk(data, response)
        for data in reader.finish():
            if not data.startswith(b"[DONE]"):
                yield _chunk(data, response)
    except httpx2.TimeoutException as error:
        raise APITimeoutError(request=response.request) from error
    except httpx2.RequestError as error:
        raise APIConnectionError(request=response.request) from error


async def _drain(pieces: AsyncIterator[bytes]) -> None:
    """Wait a moment for the body to end, so that its connection can be used again."""
    with suppress(TimeoutError):
        async with asyncio.timeout(DRAIN_S):
            async for _ in pieces:
                pass


def _chunk(data: bytes, response: "httpx2.Response") -> object:
    """Return the JSON value of an event. Raises: ValueError, RecursionError; APIError for an error of the endpoint."""
    from openai import APIError

    value: object = json.loads(data.decode())
    if isinstance(value, dict) and (error := value.get("error")):
        said = error.get("message") if isinstance(error, dict) else error
        raise APIError(said if isinstance(said, str) else "an error", request=response.request, body=error)
    return value
