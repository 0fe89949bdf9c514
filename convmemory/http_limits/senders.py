"""Identifies the sender of a request, by a key, a session or an address, for the limits on requests and bodies.

Nothing else depends on it. The application checks permissions itself.
"""

from importlib import import_module

from django.contrib.auth import get_user
from django.http import HttpRequest, parse_cookie

from convmemory.accounts.keys import user_of_key
from convmemory.accounts.scim.tokens import find_token
from convmemory.core import acting
from convmemory.core.config import config
from convmemory.core.threads import first_in_thread
from convmemory.core.web import callers
from convmemory.core.web.asgi_types import Scope, header


def caller_of(scope: Scope) -> str:
    """Return `user:7` for a key or session that this process has seen, else `address:192.0.2.1`. No query."""
    client = scope.get("client")
    session_cookie = config.session_cookie_name
    return callers.caller_of_request(scope["headers"], client[0] if client else "", session_cookie=session_cookie)


def is_user(caller: str) -> bool:
    """Return whether `caller_of` named a user."""
    return caller.startswith(callers.USER)


async def is_signed_in(scope: Scope) -> bool:
    """Return whether the request has a valid key or session, which `caller_of` then recognises, or a directory's token.

    Takes at most one thread and two queries.
    """
    scheme, _, key = header(scope, b"authorization").partition(" ")
    if scheme.lower() == "bearer" and scope["path"].startswith("/scim/"):
        return await first_in_thread(_is_of_directory, header(scope, b"authorization"))
    if scheme.lower() == "bearer":
        return await first_in_thread(user_of_key, key.strip(), writes=False) is not None
    session_key = parse_cookie(header(scope, b"cookie")).get(config.session_cookie_name)
    return bool(session_key) and await first_in_thread(_is_session_of_somebody, session_key)


def _is_of_directory(authorization: str) -> bool:
    with acting.maintenance():
        return find_token(authorization) is not None


def _is_session_of_somebody(session_key: str | None) -> bool:
    request = HttpRequest()
    request.session = import_module(config.session_engine).SessionStore(session_key)
    user = get_user(request)
    if session_key and user.pk is not None:
        callers.known.note(session_key, user.pk)
    return user.is_authenticated
