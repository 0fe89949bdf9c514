"""Answers errors that views raise with pages, with the statuses and sentences of `problems`.

The views may be synchronous or not, for a whole page or a part of one. Programs get a problem document: routes of the
API answer with theirs before an error arrives here.
"""

import math
import sys
from http import HTTPStatus

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views import defaults

from convmemory import problems
from convmemory.core.logs import route_of
from convmemory.core.middleware import EitherMiddleware
from convmemory.edge.wire import is_for_programs

TEMPLATES = {HTTPStatus.NOT_FOUND: "404.html"}


class PageErrorMiddleware(EitherMiddleware):
    """Answers a view's error that `problems.told` knows with a page, or a problem document."""

    def process_exception(self, request: HttpRequest, error: Exception) -> HttpResponse | None:
        return response_to(request, error)


def server_error(request: HttpRequest) -> HttpResponse:
    """Return the response to an error that was raised outside of a view, such as a full disk while a form is read."""
    error = sys.exc_info()[1]
    response = response_to(request, error) if isinstance(error, Exception) else None
    return response or defaults.server_error(request)


def response_to(request: HttpRequest, error: Exception) -> HttpResponse | None:
    """Return the page, or for programs the problem document, of a known error; None for an unexpected one."""
    said = problems.told(error)
    if said is None:
        return None
    if is_for_programs(request.path):
        return problems.on_error(request, error)
    problems.log(route_of(request), error)
    response = _page(request, said)
    response.headers["Cache-Control"] = "no-store"
    if said.retry_after_s is not None:
        response.headers["Retry-After"] = str(math.ceil(said.retry_after_s))
    return response


def _page(request: HttpRequest, said: problems.Told) -> HttpResponse:
    if said.detail == problems.DATABASE_SILENT:
        return render(None, "503.html", status=said.status)  # with a request, context processors would query the user
    if said.retry_after_s is not None:
        context = {"title": "Not now", "reason": said.detail, "again": request.path}
        return render(None, "refused.html", context, status=said.status)
    template = TEMPLATES.get(said.status, "400.html")
    return render(None, template, {"reason": said.detail}, status=said.status)
