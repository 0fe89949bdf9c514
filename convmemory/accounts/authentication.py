"""Authenticates the caller of the API: by a bearer key, or by the browser's session (with CSRF protection).

If a request has an Authorization header, that alone decides: a wrong key never falls back to the session, which would
fail the CSRF check or act for another user than the key's. A read-only key is refused by every route with an unsafe
method, unless the route declares `READING`.
"""

from typing import Any

from django.contrib.auth.models import User
from django.http import HttpRequest
from ninja import security

from convmemory.accounts.keys import KEYS_ONLY_READ, row_of_key, user_of_key
from convmemory.accounts.pages import archive_of_address, use_space
from convmemory.accounts.spaces import MINE, chosen_archives, get_membership, spaces_named_by_key, spaces_seen_by
from convmemory.core import acting
from convmemory.core.errors import NotAllowed

SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})


class BearerKey(security.HttpBearer):
    """Accepts `Authorization: Bearer KEY`. `reads` says that the route changes nothing, whatever its method."""

    def __init__(self, *, reads: bool = False) -> None:
        self.reads = reads
        super().__init__()

    def authenticate(self, request: HttpRequest, token: str) -> User | None:
        user = user_of_key(token, writes=not self.reads and request.method not in SAFE_METHODS)
        if user is not None:
            acting.authenticated(user.pk)
            request.user = user
            named = spaces_named_by_key(user)
            if named and request.resolver_match is not None:
                owner_id = archive_of_address(request.resolver_match.kwargs)
                if owner_id is not None and owner_id in named:
                    if not self.reads and request.method not in SAFE_METHODS:
                        refuse_reading_key(request)
                    use_space(request, get_membership(person=user, space_id=owner_id))
        return user


class SessionAuth(security.SessionAuth):
    """Accepts the session cookie, for requests without an Authorization header.

    Pages link to the API with it, so that an address that names an object of a space is answered to its members.
    """

    def __call__(self, request: HttpRequest) -> User | None:
        if "Authorization" in request.headers or not request.user.is_authenticated:
            return None  # before the CSRF check: without a session, the error asks for a key
        user: User | None = super().__call__(request)
        if user is not None and request.resolver_match is not None:
            owner_id = archive_of_address(request.resolver_match.kwargs)
            if owner_id is not None and owner_id != user.pk:
                use_space(request, get_membership(person=user, space_id=owner_id))
        return user


AUTHENTICATION: list[Any] = [BearerKey(), SessionAuth()]
READING: list[Any] = [BearerKey(reads=True), SessionAuth()]
"""For a route that changes nothing though its method is unsafe: it admits read-only keys."""


def key_writes_spaces(request: HttpRequest) -> bool:
    """Return whether the request's key also writes to the spaces that it names; a session does.

    One query for a key, as its owner.
    """
    caller = caller_of(request)
    if not hasattr(caller, "key_spaces"):
        return True
    _, _, key = request.headers.get("Authorization", "").partition(" ")
    return row_of_key(owner=caller, key=key.strip()).writes_spaces


def refuse_reading_key(request: HttpRequest) -> None:
    """Raises: NotAllowed for a key that only reads spaces."""
    if not key_writes_spaces(request):
        raise NotAllowed(KEYS_ONLY_READ)


def archive_of_request(request: HttpRequest, space: str) -> User:
    """Return the owner of the archive that the request names, and continue the request there.

    It is the caller, or the space with this number or name. Raises: NotFound for a space that the caller does not read,
    NotAllowed for a request that would write as a reader or with a key that only reads spaces, InvalidInput.
    """
    caller = caller_of(request)
    if space in ("", MINE):
        return caller
    (member,) = filter(None, chosen_archives(spaces_seen_by(caller), space))
    if request.method not in SAFE_METHODS:
        refuse_reading_key(request)
    use_space(request, member)
    return member.space


def caller_of(request: HttpRequest) -> User:
    """Return the authenticated user of a request that has passed authentication."""
    assert isinstance(request.user, User)
    return request.user
