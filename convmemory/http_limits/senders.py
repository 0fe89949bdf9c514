"""Identifies the sender of a request, by a key, a session or an address, for the limits on requests and bodies.

All keys and sessions of one person are one caller. This decides which request waits for which, never what a caller may
read: the application checks permissions itself.
"""

from importlib import import_module

from django.contrib.auth import get_user
from django.http import HttpRequest, parse_cookie

from convmemory.accounts.keys import caller_of_key
from convmemory.accounts.scim.tokens import find_token
from convmemory.core import acting
from convmemory.core.config import config
from convmemory.core.threads import first_in_thread
from convmemory.core.web.asgi_types import Scope, header
from convmemory.core.web.callers import known, network_of

USER = "user:"  # the prefix of a caller's name if the credential is known


def caller_of(scope: Scope) -> str:
    """Return `user:7` for a key or session that this process has seen, else `address:192.0.2.1`. No query."""
    user_id = known.user_of(_credential(scope))
    if user_id is not None:
        return f"{USER}{user_id}"
    client = scope.get("client")
    return f"address:{network_of(client[0] if client else '')}"


def is_user(caller: str) -> bool:
    """Return whether `caller_of` named a user."""
    return caller.startswith(USER)


async def is_signed_in(scope: Scope) -> bool:
    """Return whether the request has a valid key or session, which `caller_of` then recognises, or a directory's token.

    Takes at most one thread and two queries.
    """
    credential = _credential(scope)
    if not _has_key(scope):
        return bool(credential) and await first_in_thread(_is_session_of_somebody, credential)
    if scope["path"].startswith("/scim/"):
        return await first_in_thread(_is_of_directory, header(scope, b"authorization"))
    return await first_in_thread(caller_of_key, credential, writes=False) is not None


def _credential(scope: Scope) -> str:
    """Return the request's key, or its session cookie if it has no key; a wrong key is not covered by a session."""
    if _has_key(scope):
        return header(scope, b"authorization").partition(" ")[2].strip()
    return parse_cookie(header(scope, b"cookie")).get(config.session_cookie_name, "")


def _has_key(scope: Scope) -> bool:
    return header(scope, b"authorization").partition(" ")[0].lower() == "bearer"


def _is_of_directory(authorization: str) -> bool:
    with acting.maintenance():
        return find_token(authorization) is not None


def _is_session_of_somebody(session_key: str) -> bool:
    request = HttpRequest()
    request.session = import_module(config.session_engine).SessionStore(session_key)
    user = get_user(request)
    if user.pk is not None:
        known.note(session_key, user.pk)
    return user.is_authenticated
