"""How the middleware is put together."""

from asgiref.sync import SyncToAsync
from django.core.handlers.asgi import ASGIHandler


def test_a_request_passes_all_middleware_in_one_step() -> None:
    """Middleware that is asynchronous for Django hands each request to a thread twice, once a step in and out."""
    handler = ASGIHandler()
    assert isinstance(handler._middleware_chain, SyncToAsync)  # type: ignore[attr-defined]
