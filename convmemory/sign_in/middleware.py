"""Responds to passwords that were not checked with a page that says when to try again."""

from http import HTTPStatus

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from convmemory.core.middleware import EitherMiddleware
from convmemory.sign_in.attempts import PasswordsPaused
from convmemory.sign_in.hashing import HashingBusy


class UncheckedPasswordMiddleware(EitherMiddleware):
    """Turns PasswordsPaused and HashingBusy, whichever form raises them, into a 429 and a 503 with Retry-After."""

    def process_exception(self, request: HttpRequest, error: Exception) -> HttpResponse | None:
        if isinstance(error, PasswordsPaused):
            return _later(request, error, HTTPStatus.TOO_MANY_REQUESTS, error.retry_after_s)
        if isinstance(error, HashingBusy):
            return _later(request, error, HTTPStatus.SERVICE_UNAVAILABLE, error.retry_after_s)
        return None


def _later(request: HttpRequest, error: Exception, status: HTTPStatus, retry_after_s: int) -> HttpResponse:
    context = {"title": "Not now", "reason": str(error), "again": request.path}
    response = render(None, "refused.html", context, status=status)
    response.headers["Retry-After"] = str(retry_after_s)
    response.headers["Cache-Control"] = "no-store"
    return response
