"""Authenticates the caller of an asynchronous route, in the same two ways as `authentication.py`.

The database is queried in a thread that returns its connection at once, because such a route may wait for long before
it answers. OpenAPI names an authentication scheme after its class, hence the names.
"""

from typing import Any

from django.contrib.auth.models import User
from django.http import HttpRequest
from ninja import security
from ninja.security import HttpBearer

from convmemory.accounts.authentication import admit
from convmemory.accounts.callers import Caller
from convmemory.accounts.keys import caller_of_key
from convmemory.accounts.pages import SAFE_METHODS
from convmemory.core.threads import first_in_thread


class BearerKey(HttpBearer):
    """Accepts `Authorization: Bearer KEY`; unsafe methods refuse a read-only key."""

    async def authenticate(self, request: HttpRequest, token: str) -> Caller | None:
        caller = await first_in_thread(caller_of_key, token, writes=request.method not in SAFE_METHODS)
        if caller is not None:
            admit(request, caller)
        return caller


class SessionAuth(security.SessionAuth):
    """Accepts the browser's session, with CSRF protection, for requests without an Authorization header."""

    async def __call__(self, request: HttpRequest) -> Caller | None:
        if "Authorization" in request.headers or await caller_of_session(request) is None:
            return None  # before the CSRF check: without a session, the error asks for a key
        checked: Any = super().__call__(request)
        caller: Caller | None = await checked
        if caller is not None:
            admit(request, caller)
        return caller

    async def authenticate(self, request: HttpRequest, key: str | None) -> Caller | None:
        return await caller_of_session(request)


async def caller_of_session(request: HttpRequest) -> Caller | None:
    """Return the user who is signed in, as a caller; None without one."""
    return await first_in_thread(_signed_in, request)


def _signed_in(request: HttpRequest) -> Caller | None:
    return Caller.of(request.user) if isinstance(request.user, User) else None


ASYNC_AUTHENTICATION: list[Any] = [BearerKey(), SessionAuth()]
