"""Who is calling the API: a bearer key, or the browser's session (with CSRF protection)."""

from typing import Any

from django.contrib.auth.models import User
from django.http import HttpRequest
from ninja.security import HttpBearer, SessionAuth

from convmemory.accounts.keys import user_of_key


class BearerKey(HttpBearer):
    """`Authorization: Bearer KEY`."""

    def authenticate(self, request: HttpRequest, token: str) -> User | None:
        user = user_of_key(token)
        if user is not None:
            request.user = user
        return user


AUTHENTICATION: list[Any] = [BearerKey(), SessionAuth()]


def caller_of(request: HttpRequest) -> User:
    """The authenticated user of a request that has passed authentication."""
    assert isinstance(request.user, User)
    return request.user
