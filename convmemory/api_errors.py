"""Converts every error under /api/ to problem JSON, including those outside of routes: unknown paths, methods, bad ids.

Django and django-ninja answer these with a page or a line of text; the status and its headers stay unchanged.
"""

from collections.abc import Awaitable
from http import HTTPStatus

from django.http import HttpRequest
from django.http.response import HttpResponseBase

from convmemory.core.middleware import EitherMiddleware
from convmemory.problems import problem

PREFIX = "/api/"
OF_THE_BODY = frozenset({"Content-Type", "Content-Length"})
DETAILS = {
    HTTPStatus.BAD_REQUEST: "The request cannot be read.",
    HTTPStatus.FORBIDDEN: "The request comes from a page without its CSRF token: load the page again, or send a key.",
    HTTPStatus.NOT_FOUND: "There is nothing at this address: /api/v1/docs lists what there is. Ids are numbers.",
    HTTPStatus.INTERNAL_SERVER_ERROR: "An error of the server: its log has the rest.",
}


class ProblemJsonMiddleware(EitherMiddleware):
    """Converts errors that are not problem documents yet."""

    def __call__(self, request: HttpRequest) -> HttpResponseBase | Awaitable[HttpResponseBase]:
        response = self.get_response(request)
        if isinstance(response, HttpResponseBase):
            return as_problem(request, response)

        async def answer() -> HttpResponseBase:
            return as_problem(request, await response)

        return answer()


def as_problem(request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
    """Return the response itself, or the problem document that replaces it."""
    is_error = response.status_code >= HTTPStatus.BAD_REQUEST
    if not is_error or not request.path.startswith(PREFIX) or "json" in response.headers.get("Content-Type", ""):
        return response
    made = problem(HTTPStatus(response.status_code), _detail(request, response))
    for name, value in response.items():
        if name not in OF_THE_BODY:
            made.headers.setdefault(name, value)
    return made


def _detail(request: HttpRequest, response: HttpResponseBase) -> str:
    status = HTTPStatus(response.status_code)
    if status is HTTPStatus.METHOD_NOT_ALLOWED:
        allowed = ", ".join(sorted(response.headers.get("Allow", "another method").split(", ")))
        return f"{request.method} is not possible here: use {allowed}."
    return DETAILS.get(status, status.description or status.phrase)
