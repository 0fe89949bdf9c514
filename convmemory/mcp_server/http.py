"""MCP over streamable HTTP at `/mcp`, and its OAuth: an ASGI application next to Django's in each web process.

Stateless: each POST has its own key and is answered in full, so any process can serve any request
(docs/adr/0012-stateless-mcp-in-web-processes.md). The SDK is loaded by the first request with a valid key.
"""

from collections.abc import Mapping
from functools import cache
from http import HTTPStatus
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

from django.db import InterfaceError, OperationalError
from django.http import HttpResponse, JsonResponse
from django.http.request import split_domain_port, validate_host
from django.utils.http import is_same_domain

from convmemory import problems
from convmemory.accounts.callers import Caller
from convmemory.accounts.keys import caller_of_header
from convmemory.core import acting
from convmemory.core.config import config
from convmemory.core.threads import in_thread
from convmemory.core.web.asgi_types import Receive, Scope, Send, site_of
from convmemory.mcp_server.places import OFF, RESOURCE_METADATA, can_authorize, is_oauth

if TYPE_CHECKING:
    from mcp.server.lowlevel import Server

PATH = "/mcp"
CALLER = "convmemory.caller"
PROFILE = "convmemory.profile"
"""The keys of the scope under which a request's caller and the profile of its tools stand."""


def is_mcp(path: str) -> bool:
    return path.rstrip("/") == PATH or is_oauth(path)


class Refused(Exception):
    """Rejects a request before its body is read."""

    def __init__(self, response: HttpResponse) -> None:
        self.response = response


async def application(scope: Scope, receive: Receive, send: Send) -> None:
    """Answer one HTTP request."""
    headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}
    acting.begin_request("agent")
    site = site_of(scope["scheme"], headers)
    try:
        if is_oauth(scope["path"]):
            _check_host(headers.get("host", ""))
            if not can_authorize(site):
                body = {"error": "not_found", "error_description": OFF}
                raise Refused(JsonResponse(body, status=HTTPStatus.NOT_FOUND))
            inner = await in_thread(_oauth_application, site)
            await inner(scope, receive, send)
            return
        caller = await in_thread(admit, scope["method"], headers, site)
        profile = _profile(scope["query_string"])
    except Refused as refused:
        response = refused.response
        raw = [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in response.items()]
        await send({"type": "http.response.start", "status": response.status_code, "headers": raw})
        await send({"type": "http.response.body", "body": response.content})
    else:
        acting.authenticated(caller.archive_id)
        # Serve one request with a session manager of its own.
        scope = {**scope, CALLER: caller, PROFILE: profile}
        server = await in_thread(_server)
        # The SDK takes 1.6 to 1.9 s to import on two busy cores (ADR 12), so only the first request with a valid key
        # loads it.
        from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

        # Stateless: nothing is shared between requests, and no background task has to start with the process.
        manager = StreamableHTTPSessionManager(server, json_response=True, stateless=True)
        async with manager.run():
            await manager.handle_request(scope, receive, send)


def _oauth_application(site: str) -> Any:
    from convmemory.mcp_server.oauth import application_of

    return application_of(site)


def admit(method: str, headers: Mapping[str, str], site: str) -> Caller:
    """Return the caller of a valid request. Raises: Refused."""
    # Host and Origin come first: a request from a foreign page must not reach the check of its key.
    # Refuse pages of other sites that make a browser believe this server is theirs (DNS rebinding).
    host = headers.get("host", "")
    origin = headers.get("origin")
    _check_host(host)
    if origin is not None and not _is_trusted(origin, host):
        detail = f"Pages of {origin[:100]!r} may not ask here: add it to CSRF_TRUSTED_ORIGINS."
        raise Refused(problems.problem(HTTPStatus.FORBIDDEN, detail))
    try:
        # A tool that writes refuses a read-only key itself.
        caller = caller_of_header(headers.get("authorization", ""), writes=False)
    except (OperationalError, InterfaceError) as error:
        raise Refused(problems.database_silent(PATH, error)) from error
    if caller is None:
        response = problems.key_needed()
        if can_authorize(site):
            response.headers["WWW-Authenticate"] += f', resource_metadata="{site}{RESOURCE_METADATA}/mcp"'
        raise Refused(response)
    # There is no stream to listen to and no session to end.
    if method != "POST":
        response = problems.problem(HTTPStatus.METHOD_NOT_ALLOWED, "Send MCP requests with POST.")
        response.headers["Allow"] = "POST"
        raise Refused(response)
    return caller


def _profile(query: bytes) -> str:
    """Return the profile that an address names, "" if it names none. Raises: Refused for one that there is not."""
    from convmemory.tools.registry import PROFILES

    profile = parse_qs(query.decode("latin-1")).get("profile", [""])[-1]
    if profile and profile not in PROFILES:
        detail = f"There is no profile {profile[:40]!r}: leave it out, or use {' or '.join(PROFILES)}."
        raise Refused(problems.problem(HTTPStatus.NOT_FOUND, detail))
    return profile


def _check_host(host: str) -> None:
    if not validate_host(split_domain_port(host)[0], config.allowed_hosts):
        detail = f"This server is not called {host[:100]!r}: add the name to ALLOWED_HOSTS."
        raise Refused(problems.problem(HTTPStatus.MISDIRECTED_REQUEST, detail))


def _is_trusted(origin: str, host: str) -> bool:
    scheme, netloc = urlsplit(origin)[:2]
    return (bool(netloc) and netloc == host) or any(
        scheme == trusted.scheme and is_same_domain(netloc, trusted.netloc.lstrip("*"))
        for trusted in map(urlsplit, config.csrf_trusted_origins)
    )


@cache
def _server() -> "Server[Any]":
    from convmemory.mcp_server.server import build_server

    def caller_of(context: Any) -> Caller:
        caller: Caller = context.request.scope[CALLER]
        return caller

    def site(context: Any) -> str:
        return site_of(context.request.url.scheme, context.request.headers)

    def profile_of(context: Any) -> str:
        profile: str = context.request.scope[PROFILE]
        return profile

    return build_server(caller_of, site, profile_of)
