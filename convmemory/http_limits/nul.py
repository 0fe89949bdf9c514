"""Refuses the character NUL in addresses, queries and forms, in one place for all of them.

PostgreSQL stores no NUL, so that any filter over one would fail in the database. JSON bodies are not checked here:
texts of people may contain one, which is removed before they are stored.
"""

from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import Any

from asgiref.sync import iscoroutinefunction, sync_to_async
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase

from convmemory.core.web.middleware import EitherMiddleware
from convmemory.http_limits.refusals import refusal_response
from convmemory.problems import Refusal

NUL = "\x00"
FORMS = frozenset({"application/x-www-form-urlencoded", "multipart/form-data"})


class NulMiddleware(EitherMiddleware):
    """Answers 400 to a request with a NUL. It follows the CSRF check, which has read the form already."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase | Awaitable[HttpResponseBase]]) -> None:
        super().__init__(get_response)
        self._async = iscoroutinefunction(get_response)
        if self._async:
            self.process_view = self._process_view_inline  # type: ignore[method-assign,assignment]

    def __call__(self, request: HttpRequest) -> HttpResponseBase | Awaitable[HttpResponseBase]:
        # The part of the address that contains a NUL, empty if none does.
        if NUL in request.path:
            part = "The address"
        else:
            query = request.META.get("QUERY_STRING", "")
            part = "The query" if "%00" in query or NUL in query else ""
        if not part:
            return self.get_response(request)
        response = _refused(request, part)
        return _ready(response) if self._async else response

    def process_view(self, request: HttpRequest, view: Any, args: Any, kwargs: Any) -> HttpResponse | None:
        return _check_form(request) if _is_form(request, view) else None

    async def _process_view_inline(
        self, request: HttpRequest, view: Any, args: Any, kwargs: Any
    ) -> HttpResponse | None:
        return await sync_to_async(_check_form)(request) if _is_form(request, view) else None


def _is_form(request: HttpRequest, view: Any) -> bool:
    """Return whether a form is posted to a page; the API reads its own."""
    is_form = request.method == "POST" and request.content_type in FORMS
    return is_form and not getattr(view, "csrf_exempt", False)


def _check_form(request: HttpRequest) -> HttpResponse | None:
    for name, values in request.POST.lists():
        if NUL in name or any(NUL in value for value in values if isinstance(value, str)):
            return _refused(request, "The form")
    return None


def _refused(request: HttpRequest, part: str) -> HttpResponse:
    detail = f"{part} holds the character NUL (%00), which cannot be stored or searched for: leave it out."
    return refusal_response(request.path, Refusal(HTTPStatus.BAD_REQUEST, detail))


async def _ready(response: HttpResponseBase) -> HttpResponseBase:
    return response
