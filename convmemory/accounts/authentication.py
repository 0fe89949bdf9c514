"""Who is calling the API: a bearer key, or the browser's session (with CSRF protection).

A request with an Authorization header is judged by that header alone: a wrong key never falls back to the
session, which would answer with the CSRF check, or as somebody whom the key does not name.
"""

from typing import Any

from django.contrib.auth.models import User
from django.http import HttpRequest
from ninja import security

from convmemory.accounts.keys import user_of_key


class BearerKey(security.HttpBearer):
    """`Authorization: Bearer KEY`."""

    def authenticate(self, request: HttpRequest, token: str) -> User | None:
        user = user_of_key(token)
        if user is not None:
            request.user = user
        return user


class SessionAuth(security.SessionAuth):
    """The session's cookie, where the request brings no Authorization header."""

    def __call__(self, request: HttpRequest) -> User | None:
        if "Authorization" in request.headers:
            return None
        user: User | None = super().__call__(request)
        return user


AUTHENTICATION: list[Any] = [BearerKey(), SessionAuth()]


def caller_of(request: HttpRequest) -> User:
    """The authenticated user of a request that has passed authentication."""
    assert isinstance(request.user, User)
    return request.user
