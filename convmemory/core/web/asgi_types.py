"""ASGI types, and readers of the headers and the path of a request."""

from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from typing import Any

from convmemory.core.config import config

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]

DISCONNECT: Message = {"type": "http.disconnect"}

MCP_PATHS = frozenset({"/mcp", "/token", "/register", "/revoke"})


def header(scope: Scope, name: bytes) -> str:
    """Return the first header of that name (in lower case), empty if there is none."""
    return next((value.decode("latin-1") for header_name, value in scope["headers"] if header_name == name), "")


def with_bearer(scope: Scope) -> Scope:
    """Return the scope with the key of `X-Api-Key`, which clients of Anthropic's API send, in `Authorization`."""
    key = header(scope, b"x-api-key") if scope["path"].startswith("/v1/") else ""
    if not key or header(scope, b"authorization"):
        return scope
    return {**scope, "headers": [*scope["headers"], (b"authorization", b"Bearer " + key.encode("latin-1"))]}


def has_body(scope: Scope) -> bool:
    """Return whether the request announces a body."""
    return any(
        name == b"transfer-encoding" or (name == b"content-length" and value != b"0")
        for name, value in scope["headers"]
    )


def is_for_programs(path: str) -> bool:
    """Return whether the API, SCIM, MCP, its OAuth or the capture proxy answers there: with JSON, never with a page."""
    return path.startswith(("/api/", "/v1/", "/scim/", "/.well-known/")) or path.rstrip("/") in MCP_PATHS


def site_of(scheme: str, headers: Mapping[str, str]) -> str:
    """Return the address of this server, as the request names it; `PUBLIC_URL` if it is set."""
    return config.public_url.rstrip("/") or f"{'https' if config.https_only else scheme}://{headers.get('host', '')}"
