"""The order and the kinds of the middleware."""

import inspect

from django.conf import settings
from django.core.handlers.asgi import ASGIHandler
from django.core.handlers.wsgi import WSGIHandler
from django.utils.module_loading import import_string

from convmemory.core.web.middleware import Inline


def test_middleware_of_django_itself_runs_inline() -> None:
    """Django's own hands every hook to a thread under ASGI, which costs more than the hook."""
    named = [import_string(path) for path in settings.MIDDLEWARE]
    assert not [middleware for middleware in named if middleware.__module__.startswith("django.")]
    of_django = [m for m in named if any(base.__module__.startswith("django.middleware") for base in m.__mro__)]
    assert of_django
    assert all(issubclass(middleware, Inline) for middleware in of_django)


def test_middleware_chain_runs_without_switching_threads() -> None:
    assert inspect.iscoroutinefunction(ASGIHandler()._middleware_chain)  # type: ignore[attr-defined]
    handler = WSGIHandler()
    assert not inspect.iscoroutinefunction(handler._middleware_chain)  # type: ignore[attr-defined]
