"""Authenticates the caller of the API: by a bearer key, or by the browser's session (with CSRF protection).

If a request has an Authorization header, that alone decides: a wrong key never falls back to the session, which would
fail the CSRF check or act for another user than the key's. Read-only keys, and readers in a space, are refused by every
route with an unsafe method, unless the route declares `READING`. `request.caller` is the `Caller`, in the archive that
holds the object that the address names.
"""

from typing import TYPE_CHECKING, Any, cast

from django.http import HttpRequest
from ninja import security

from convmemory.accounts.callers import Caller
from convmemory.accounts.keys import caller_of_key
from convmemory.accounts.pages import SAFE_METHODS, archive_of_address, enter
from convmemory.core import acting

if TYPE_CHECKING:
    from django.contrib.auth.models import User


class BearerKey(security.HttpBearer):
    """Accepts `Authorization: Bearer KEY`. `reads` says that the route changes nothing, whatever its method."""

    def __init__(self, *, reads: bool = False) -> None:
        self.reads = reads
        super().__init__()

    def authenticate(self, request: HttpRequest, token: str) -> Caller | None:
        caller = caller_of_key(token, writes=not self.reads and request.method not in SAFE_METHODS)
        if caller is None:
            return None
        admit(request, caller)
        if caller.spaces:
            _enter_archive_of_object(request, caller, reads=self.reads)
        return caller_of(request)


class SessionAuth(security.SessionAuth):
    """Accepts the session cookie, for requests without an Authorization header. `reads` is as for keys.

    Pages link to the API with it, so that an address that names an object of a space is answered to its members.
    """

    def __init__(self, *, reads: bool = False) -> None:
        self.reads = reads
        super().__init__()

    def __call__(self, request: HttpRequest) -> Caller | None:
        if "Authorization" in request.headers or not request.user.is_authenticated:
            return None  # before the CSRF check: without a session, the error asks for a key
        user: User | None = super().__call__(request)
        if user is None:
            return None
        caller = Caller.of(user)
        admit(request, caller)
        _enter_archive_of_object(request, caller, reads=self.reads)
        return caller_of(request)


AUTHENTICATION: list[Any] = [BearerKey(), SessionAuth()]
READING: list[Any] = [BearerKey(reads=True), SessionAuth(reads=True)]
"""For a route that changes nothing though its method is unsafe: it admits read-only keys and readers of spaces."""


def admit(request: HttpRequest, caller: Caller) -> None:
    """Let the request act for this caller, in their own archive."""
    request.user = caller.user
    cast("Any", request).caller = caller
    acting.authenticated(caller.user.pk)


def caller_in(request: HttpRequest, space: str) -> Caller:
    """Return the caller in the archive that the request names, and continue the request there.

    It is the caller's own, or the space with this number or name. Raises: NotFound for a space that the caller does not
    read, NotAllowed for a request that would write as a reader or with a key that only reads spaces, InvalidInput.
    """
    caller = caller_of(request)
    if space:
        (access,) = caller.chosen(space)
        if access.space:
            if request.method not in SAFE_METHODS:
                caller.require_writing_spaces()
            enter(request, access)
    return caller_of(request)


def caller_of(request: HttpRequest) -> Caller:
    """Return the caller of a request that has passed authentication."""
    caller: Caller = cast("Any", request).caller
    return caller


def _enter_archive_of_object(request: HttpRequest, caller: Caller, *, reads: bool) -> None:
    """Continue the request in the space that holds the object of its address, if the caller reads that space."""
    archive_id = archive_of_address(request.resolver_match.kwargs) if request.resolver_match else None
    access = None if archive_id is None or archive_id == caller.archive_id else caller.reads(archive_id)
    if access is not None:
        if not reads and request.method not in SAFE_METHODS:
            caller.require_writing_spaces()
        enter(request, access, reads=reads)
