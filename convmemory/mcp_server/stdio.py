"""MCP over standard input and output, for an agent on the same machine.

Only protocol messages may go to standard output; the SDK redirects everything else that a handler prints to standard
error.
"""

from typing import TYPE_CHECKING, Any, Self

import mcp_types as types
from mcp.server.stdio import stdio_server
from mcp.shared.message import SessionMessage
from pydantic import ValidationError

from convmemory.accounts.callers import Caller
from convmemory.core.config import config
from convmemory.mcp_server.server import build_server

if TYPE_CHECKING:
    from mcp.shared._stream_protocols import ReadStream, WriteStream


async def serve(caller: Caller) -> None:
    """Serve one client as `caller` until the client closes its end."""
    server = build_server(lambda context: caller, lambda context: config.public_url)
    async with stdio_server() as (incoming, outgoing):
        await server.run(_Answering(incoming, outgoing), outgoing, server.create_initialization_options())


class _Answering:
    """A message stream that answers lines which are not JSON-RPC. The SDK would drop such lines without an answer."""

    def __init__(
        self, incoming: "ReadStream[SessionMessage | Exception]", outgoing: "WriteStream[SessionMessage]"
    ) -> None:
        self._incoming, self._outgoing = incoming, outgoing

    async def receive(self) -> SessionMessage | Exception:
        while isinstance(item := await self._incoming.receive(), Exception):
            await self._outgoing.send(SessionMessage(_refusal(item)))
        return item

    async def aclose(self) -> None:
        await self._incoming.aclose()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> SessionMessage | Exception:
        while isinstance(item := await self._incoming.__anext__(), Exception):
            await self._outgoing.send(SessionMessage(_refusal(item)))
        return item

    async def __aenter__(self) -> Self:
        await self._incoming.__aenter__()
        return self

    async def __aexit__(self, *error: Any) -> bool | None:
        return await self._incoming.__aexit__(*error)


def _refusal(error: Exception) -> types.JSONRPCError:
    is_json = isinstance(error, ValidationError) and all(item["type"] != "json_invalid" for item in error.errors())
    code, reason = (types.INVALID_REQUEST, "not a JSON-RPC message") if is_json else (types.PARSE_ERROR, "not JSON")
    return types.JSONRPCError(
        jsonrpc="2.0", id=None, error=types.ErrorData(code=code, message=f"The line is {reason}: send one a line.")
    )
