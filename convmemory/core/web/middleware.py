"""Middleware for every request: its id, duration and headers, and Django's own, run in the event loop."""

import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from typing import Any, ClassVar, cast

from asgiref.sync import iscoroutinefunction, markcoroutinefunction, sync_to_async
from django.contrib.auth import middleware as auth
from django.contrib.auth.base_user import AbstractBaseUser
from django.contrib.auth.models import AnonymousUser, User
from django.contrib.messages import middleware as messages
from django.contrib.sessions import middleware as sessions
from django.http import HttpRequest
from django.http.response import HttpResponseBase, StreamingHttpResponse
from django.middleware import clickjacking, common, csrf, security
from django.utils.deprecation import MiddlewareMixin
from django.utils.functional import SimpleLazyObject
from whitenoise import middleware as whitenoise

from convmemory.core import acting, logs
from convmemory.core.config import config
from convmemory.core.logs import route_of
from convmemory.core.measuring import Measurement, report
from convmemory.core.web import callers

logger = logging.getLogger("convmemory.requests")

METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
UNCOUNTED = frozenset({"/health", "/ready", "/metrics"})  # polled every few seconds

SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS", "TRACE"})

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


def surface_of(path: str) -> str:
    """Return what a request for `path` comes by, as the audit log names it."""
    if path.startswith(("/api/", "/v1/", "/scim/")):
        return "api"
    return "admin" if path.startswith("/admin/") else "page"


class ActingMiddleware(EitherMiddleware):
    """Starts each request without an owner; authentication adds the caller.

    Under ASGI a request has its own context, which lasts until the last chunk of a streamed response.
    """

    def __call__(self, request: HttpRequest) -> HttpResponseBase | Awaitable[HttpResponseBase]:
        token = acting.begin_request(surface_of(request.path))
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
        token = logs.request_id.set(logs.accepted_request_id(request.headers.get("X-Request-ID", "")))
        started = time.perf_counter()
        response = self.get_response(request)
        if isinstance(response, HttpResponseBase):
            self._end(request, response, started)
            logs.request_id.reset(token)
            return response

        async def answer() -> HttpResponseBase:
            result = await response
            self._end(request, result, started)
            return result

        return answer()

    def _end(self, request: HttpRequest, response: HttpResponseBase, started: float) -> None:
        seconds = time.perf_counter() - started
        response.headers["X-Request-ID"] = logs.request_id.get()
        route = route_of(request)
        if route in UNCOUNTED:
            return
        label = f"{request.method if request.method in METHODS else 'OTHER'} {route}"
        fields = {"route": label, "status": response.status_code, "duration_ms": round(seconds * 1000, 1)}
        logger.info("%s %s", label, response.status_code, extra={"fields": fields})
        report(Measurement("request", label, seconds, failed=response.status_code >= 500))
        report(Measurement("response", f"{response.status_code // 100}xx", seconds))


class Inline(MiddlewareMixin):
    """Runs a middleware's hooks in the event loop; `may_wait` selects the responses whose hook runs in a thread.

    Under ASGI Django moves every hook of every middleware into a thread and back, in case it waits for the database.
    For a request that starts a stream, that is most of the work. The hooks here only compute, and the two that can wait
    use a thread when they are about to. Under WSGI and in tests nothing differs. Reasons:
    docs/adr/0019-event-loop-middleware.md.
    """

    async def __acall__(self, request: HttpRequest) -> HttpResponseBase:
        hooks: Any = self
        response: HttpResponseBase | None = None
        if hasattr(hooks, "process_request"):
            response = hooks.process_request(request)
        if response is None:
            response = await hooks.get_response(request)
            assert response is not None
        if not hasattr(hooks, "process_response"):
            return response
        if self.may_wait(request):
            return await sync_to_async(hooks.process_response)(request, response)  # type: ignore[no-any-return]
        return hooks.process_response(request, response)  # type: ignore[no-any-return]

    def may_wait(self, request: HttpRequest) -> bool:
        """Return whether the response's hook is about to use the database."""
        return False


class SecurityMiddleware(Inline, security.SecurityMiddleware):
    """Redirects to HTTPS, and adds the headers set by `SECURE_...`."""


class CommonMiddleware(Inline, common.CommonMiddleware):
    """Adds missing slashes at the end of addresses, and Content-Length."""


class AuthenticationMiddleware(Inline, auth.AuthenticationMiddleware):
    """Sets `request.user`, looked up at its first use; the session's user is remembered for later requests."""

    def process_request(self, request: HttpRequest) -> None:
        super().process_request(request)
        request.user = cast("User", SimpleLazyObject(partial(_user_of_session, request)))

    def process_response(self, request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
        user = getattr(request, "_cached_user", None)  # set by Django's `get_user`; reading `request.user` would query
        session = request.COOKIES.get(config.session_cookie_name)
        if user is not None and user.pk is not None and session:
            callers.known.note(session, user.pk)
        return response


def _user_of_session(request: HttpRequest) -> AbstractBaseUser | AnonymousUser:
    user = auth.get_user(request)
    if user.pk is not None:
        acting.authenticated(user.pk)
    return user


class XFrameOptionsMiddleware(Inline, clickjacking.XFrameOptionsMiddleware):
    """Forbids showing pages in frames."""


class SessionMiddleware(Inline, sessions.SessionMiddleware):
    """Sets `request.session`, stored after the response if it was changed."""

    def may_wait(self, request: HttpRequest) -> bool:
        return request.session.modified or config.session_save_every_request


class MessageMiddleware(Inline, messages.MessageMiddleware):
    """Sets `request._messages`; messages that do not fit into the cookie are stored in the session."""

    def may_wait(self, request: HttpRequest) -> bool:
        stored: Any = getattr(request, "_messages", None)
        return stored is not None and (stored.used or stored.added_new)


class CsrfViewMiddleware(Inline, csrf.CsrfViewMiddleware):
    """Checks forms for their CSRF token. Reading a form can mean reading an upload, so the check runs in a thread."""

    def __init__(self, get_response: Any) -> None:
        super().__init__(get_response)
        if iscoroutinefunction(get_response):
            self.process_view = self._process_view_inline  # type: ignore[method-assign,assignment]

    async def _process_view_inline(
        self, request: HttpRequest, callback: Any, args: Any, kwargs: Any
    ) -> HttpResponseBase | None:
        check = super().process_view
        if request.method in SAFE_METHODS or getattr(callback, "csrf_exempt", False):
            return check(request, callback, args, kwargs)
        return await sync_to_async(check)(request, callback, args, kwargs)


class StaticFilesMiddleware(whitenoise.WhiteNoiseMiddleware):  # type: ignore[misc]
    """Serves static files, which are listed in memory."""

    sync_capable = True
    async_capable = True
    paths: ClassVar[frozenset[str]] = frozenset()
    """The addresses of the files; empty with DEBUG, which looks for a file at each request."""

    def __init__(self, get_response: Any) -> None:
        super().__init__(get_response)
        StaticFilesMiddleware.paths = frozenset(self.files)
        self.async_mode = iscoroutinefunction(get_response)
        if self.async_mode:
            markcoroutinefunction(self)

    def __call__(self, request: HttpRequest) -> Any:
        response = super().__call__(request)
        return _ready(response) if self.async_mode and isinstance(response, HttpResponseBase) else response


async def _ready(response: HttpResponseBase) -> HttpResponseBase:
    if isinstance(response, StreamingHttpResponse) and not response.is_async:
        response.streaming_content = _pieces(response.streaming_content)
    return response


async def _pieces(content: Any) -> AsyncIterator[bytes]:
    """Yield a file's content as Django expects it under ASGI.

    The files are small and local, so reading one does not block the event loop for long.
    """
    for piece in content:
        yield piece
