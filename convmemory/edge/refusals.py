"""Refuses a request before the application sees it: a problem document for programs, a plain page for people."""

from dataclasses import dataclass
from functools import lru_cache
from http import HTTPStatus

from django.http import HttpResponse
from django.template.loader import render_to_string

from convmemory.core.asgi_types import Scope, Send
from convmemory.core.middleware import POLICY
from convmemory.edge.wire import is_for_programs
from convmemory.problems import problem


@dataclass(frozen=True, slots=True)
class Refusal:
    """A refusal's status and its reason, a sentence that says what to do; `retry_after_s` is in whole seconds."""

    status: HTTPStatus
    detail: str
    retry_after_s: int | None = None


def refusal_response(path: str, refusal: Refusal) -> HttpResponse:
    """Return the response. Uses no database."""
    response = _document(path, refusal) if is_for_programs(path) else _page(refusal)
    response.headers["Cache-Control"] = "no-store"
    response.headers["X-Content-Type-Options"] = "nosniff"
    response.headers["Content-Length"] = str(len(response.content))
    if refusal.retry_after_s is not None:
        response.headers["Retry-After"] = str(refusal.retry_after_s)
    return response


async def start_refusal(scope: Scope, send: Send, refusal: Refusal) -> None:
    """Send the whole response without ending it: the client may still be sending.

    The connection closes after it.
    """
    response = refusal_response(scope["path"], refusal)
    response.headers["Connection"] = "close"
    headers = [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in response.items()]
    await send({"type": "http.response.start", "status": response.status_code, "headers": headers})
    await send({"type": "http.response.body", "body": response.content, "more_body": True})


async def end_refusal(send: Send) -> None:
    await send({"type": "http.response.body", "body": b""})


async def refuse(scope: Scope, send: Send, refusal: Refusal) -> None:
    """Send the refusal; the server closes the connection."""
    await start_refusal(scope, send, refusal)
    await end_refusal(send)


def _document(path: str, refusal: Refusal) -> HttpResponse:
    extra = {}
    if path.startswith("/v1/"):  # clients of OpenAI's API read this field
        extra["error"] = {"message": refusal.detail, "type": "invalid_request_error", "param": None, "code": None}
    return problem(refusal.status, refusal.detail, **extra)


def _page(refusal: Refusal) -> HttpResponse:
    headers = {"Content-Security-Policy": POLICY, "X-Frame-Options": "DENY"}
    return HttpResponse(_page_text(refusal), status=refusal.status, headers=headers)


@lru_cache(maxsize=64)
def _page_text(refusal: Refusal) -> str:
    """Return the page's HTML, cached because refusals of a flood have to cost little."""
    return render_to_string("refused.html", {"title": refusal.status.phrase, "reason": refusal.detail})
