"""Middleware for every request: its id and its duration, and the response headers of every page."""

import logging
import time
from collections.abc import Awaitable, Callable

from asgiref.sync import iscoroutinefunction, markcoroutinefunction
from django.http import HttpRequest
from django.http.response import HttpResponseBase

from convmemory.core import acting, trace
from convmemory.core.logs import route_of
from convmemory.core.measuring import Measurement, report

logger = logging.getLogger("convmemory.requests")

METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
UNCOUNTED = frozenset({"/health", "/ready", "/metrics"})  # polled every few seconds

POLICY = (
    "default-src 'self'; img-src 'self' data:; style-src 'self' 'unsafe-inline'; "
    "object-src 'none'; base-uri 'none'; frame-ancestors 'none'; form-action 'self'"
)
# The OpenAPI page starts Swagger UI from an inline script.
DOCS_POLICY = POLICY.replace("default-src 'self';", "default-src 'self'; script-src 'self' 'unsafe-inline';")
# The administration has no inline style at all.
ADMIN_POLICY = POLICY.replace("style-src 'self' 'unsafe-inline'", "style-src 'self'")


class EitherMiddleware:
    """The base of middlewares in front of both synchronous and asynchronous views."""

    sync_capable = True
    async_capable = True

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase | Awaitable[HttpResponseBase]]) -> None:
        self.get_response = get_response
        if iscoroutinefunction(get_response):
            markcoroutinefunction(self)

    def __call__(self, request: HttpRequest) -> HttpResponseBase | Awaitable[HttpResponseBase]:
        return self.get_response(request)


class ContentSecurityPolicyMiddleware(EitherMiddleware):
    """Sets Content-Security-Policy: scripts only from this server, so that a transcript can run none."""

    def __call__(self, request: HttpRequest) -> HttpResponseBase | Awaitable[HttpResponseBase]:
        response = self.get_response(request)
        if isinstance(response, HttpResponseBase):
            return self._add(request, response)

        async def answer() -> HttpResponseBase:
            return self._add(request, await response)

        return answer()

    def _add(self, request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
        response.headers.setdefault("Content-Security-Policy", policy_for(request.path))
        return response


def policy_for(path: str) -> str:
    """Return the policy of the page at `path`."""
    if path.startswith("/admin/"):
        return ADMIN_POLICY
    return DOCS_POLICY if path == "/api/v1/docs" else POLICY


class ActingMiddleware(EitherMiddleware):
    """Starts each request without an owner; authentication adds the caller.

    Under ASGI a request has its own context, which lasts until the last chunk of a streamed response.
    """

    def __call__(self, request: HttpRequest) -> HttpResponseBase | Awaitable[HttpResponseBase]:
        token = acting.begin_request()
        if iscoroutinefunction(self.get_response):
            return self.get_response(request)
        try:
            return self.get_response(request)
        finally:
            acting.end_request(token)


class RequestTraceMiddleware(EitherMiddleware):
    """Gives the request an id (its own `X-Request-ID` if that is well formed), returns it in the response, and measures
    it.

    Only the route is kept and logged, never the path or the query, which can contain the words of a search.
    """

    def __call__(self, request: HttpRequest) -> HttpResponseBase | Awaitable[HttpResponseBase]:
        token = trace.request_id.set(trace.accepted_request_id(request.headers.get("X-Request-ID", "")))
        started = time.perf_counter()
        response = self.get_response(request)
        if isinstance(response, HttpResponseBase):
            self._end(request, response, started)
            trace.request_id.reset(token)
            return response

        async def answer() -> HttpResponseBase:
            result = await response
            self._end(request, result, started)
            return result

        return answer()

    def _end(self, request: HttpRequest, response: HttpResponseBase, started: float) -> None:
        seconds = time.perf_counter() - started
        response.headers["X-Request-ID"] = trace.request_id.get()
        route = route_of(request)
        if route in UNCOUNTED:
            return
        label = f"{request.method if request.method in METHODS else 'OTHER'} {route}"
        fields = {"route": label, "status": response.status_code, "duration_ms": round(seconds * 1000, 1)}
        logger.info("%s %s", label, response.status_code, extra={"fields": fields})
        report(Measurement("request", label, seconds, failed=response.status_code >= 500))
