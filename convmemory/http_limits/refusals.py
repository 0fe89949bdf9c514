"""Refuses requests before the application, sets headers of answers, redirects to HTTPS, answers health checks."""

import logging
from functools import lru_cache
from http import HTTPStatus
from typing import Any

from django.http import HttpResponse
from django.template.loader import render_to_string

from convmemory.core.config import config
from convmemory.core.web import stopping
from convmemory.core.web.asgi_types import Application, Message, Receive, Scope, Send, header, is_for_programs
from convmemory.core.web.middleware import POLICY
from convmemory.problems import Refusal, problem_of_refusal, refusal_of, set_retry_after


def refusal_response(path: str, refusal: Refusal) -> HttpResponse:
    """Return the response. Uses no database."""
    response: HttpResponse
    if is_for_programs(path):
        extra = {}
        if path.startswith("/v1/"):  # clients of OpenAI's API read this field
            extra["error"] = {"message": refusal.detail, "type": "invalid_request_error", "param": None, "code": None}
        response = problem_of_refusal(refusal, **extra)
    else:
        headers = {"Content-Security-Policy": POLICY, "X-Frame-Options": "DENY"}
        response = HttpResponse(_page_text(refusal), status=refusal.status, headers=headers)
        set_retry_after(response, refusal)
    response.headers["Cache-Control"] = "no-store"
    response.headers["X-Content-Type-Options"] = "nosniff"
    response.headers["Content-Length"] = str(len(response.content))
    return response


async def start_refusal(scope: Scope, send: Send, refusal: Refusal) -> None:
    """Send the whole response without ending it: the client may still be sending.

    The connection closes after it.
    """
    response = refusal_response(scope["path"], refusal)
    response.headers["Connection"] = "close"
    headers = [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in response.items()]
    await send({"type": "http.response.start", "status": response.status_code, "headers": headers})
    await send({"type": "http.response.body", "body": response.content, "more_body": True})


async def end_refusal(send: Send) -> None:
    await send({"type": "http.response.body", "body": b""})


async def refuse(scope: Scope, send: Send, refusal: Refusal) -> None:
    """Send the refusal; the server closes the connection."""
    await start_refusal(scope, send, refusal)
    await end_refusal(send)


@lru_cache(maxsize=64)
def _page_text(refusal: Refusal) -> str:
    """Return the page's HTML, cached because refusals of a flood have to cost little."""
    return render_to_string("refused.html", {"title": refusal.status.phrase, "reason": refusal.detail})


logger = logging.getLogger(__name__)

NO_STORE = (b"cache-control", b"no-store")
NO_SNIFF = (b"x-content-type-options", b"nosniff")
PROGRAM_PATHS = frozenset({"/health", "/ready", "/metrics"})


CLOSE = (b"connection", b"close")


# This is the outermost wrapper, so that it covers Django, the MCP server, refusals and failures.
class PrivateResponses:
    """Adds `no-store` and `nosniff` to responses to programs, and answers every failure of the application.

    A process that stops closes each connection after its response: a proxy that sent a further request while the idle
    connection is closed would have to report a failure.
    """

    def __init__(self, application: Application) -> None:
        self._application = application

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        is_private = is_for_programs(scope["path"]) or scope["path"] in PROGRAM_PATHS
        started = False

        async def send_private(message: Message) -> None:
            nonlocal started
            if message["type"] == "http.response.start":
                started = True
                if is_private:
                    headers: Any = message.get("headers", ())
                    pairs = [(bytes(name), bytes(value)) for name, value in headers]
                    kept = [(name, value) for name, value in pairs if name.lower() not in (NO_STORE[0], NO_SNIFF[0])]
                    message = {**message, "headers": [*kept, NO_STORE, NO_SNIFF]}
                if stopping.is_stopping():
                    message = {**message, "headers": [*message.get("headers", ()), CLOSE]}
            await send(message)

        try:
            await self._application(scope, receive, send_private)
        except Exception as error:  # the boundary of the request: uvicorn's own answer would lack the headers
            if started:
                raise
            logger.exception("A request could not be answered")
            # The response to an error outside of every view, such as a full disk while Django stores a body.
            await refuse(scope, send_private, refusal_of(error) or _FAILED)


_FAILED = Refusal(HTTPStatus.INTERNAL_SERVER_ERROR, "Something broke on the server; its log says what.")


_PLAIN = Refusal(
    HTTPStatus.FORBIDDEN,
    "This server takes requests over HTTPS only (HTTPS_ONLY): use https:// in its address, and make a new key, because "
    "this one has travelled unencrypted.",
)


class HttpsOnly:
    """Refuses requests over plain HTTP if the settings say so: programs follow no redirect of a POST."""

    def __init__(self, application: Application) -> None:
        self._application = application

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if config.secure_ssl_redirect:
            # As Django sees it: by the proxy's header where there is one, else by the connection.
            forwarded = header(scope, b"x-forwarded-proto") if config.secure_proxy_ssl_header else ""
            scheme = forwarded.partition(",")[0].strip() or scope.get("scheme", "http")
            if scheme != "https":
                await refuse(scope, send, _PLAIN)
                return
        await self._application(scope, receive, send)


HEALTH_PATHS = {"/health", "/ready", "/api/v1/health", "/api/v1/ready"}


# Health checks come from inside a network, by address. The two responses do not depend on the host name, so these
# requests are handled under a name that `ALLOWED_HOSTS` lists. Every other path keeps its host name.
class HealthCheckHosts:
    """Lets health checks bypass ALLOWED_HOSTS."""

    def __init__(self, application: Application) -> None:
        self._application = application

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["path"] in HEALTH_PATHS:
            others = [(name, value) for name, value in scope["headers"] if name != b"host"]
            first = next(iter(config.allowed_hosts), "localhost")
            allowed = "localhost" if first == "*" else first.removeprefix(".")
            scope = {**scope, "headers": [*others, (b"host", allowed.encode())]}
        await self._application(scope, receive, send)
