"""Limits the concurrent requests of one caller, according to the settings; wraps the whole application in `asgi.py`."""

import re

from convmemory.core.asgi_types import Application, Scope
from convmemory.core.config import config
from convmemory.core.fair_requests import FairRequests, Limits
from convmemory.core.inline_middleware import StaticFilesMiddleware
from convmemory.edge.senders import caller_of, is_user
from convmemory.edge.wire import has_body

WAITING_FOR_A_MODEL = re.compile(r"/v1/.*|/chat/send|/conversations/\d+/send|/api/v1/conversations/\d+/stream")
WAITING_FOR_A_WORKER = "/api/v1/imports"  # with `wait`, it answers when the import has ended
HEALTH = "/health"


def limited(application: Application) -> FairRequests:
    """The application with the limits of `REQUESTS_PER_USER` and the settings beside it."""
    limits = Limits(
        at_once=config.requests_per_user,
        beside_others=min(config.requests_per_user, config.requests_beside_others),
        streams=config.streams_per_user,
        waiting=config.waiting_per_user,
    )
    return FairRequests(
        application,
        limits=limits,
        name_caller=caller_of,
        is_stream=waits_for_others,
        is_free=is_answered_from_memory,
        is_user=is_user,
    )


def waits_for_others(scope: Scope) -> bool:
    """Return whether the response mostly waits, for a model or a worker, and costs this process little."""
    if scope["path"] == WAITING_FOR_A_WORKER:
        return bool(scope["method"] == "POST")
    return WAITING_FOR_A_MODEL.fullmatch(scope["path"]) is not None


def is_answered_from_memory(scope: Scope) -> bool:
    """Return whether a health check or an existing static file is read: neither needs a thread or a query."""
    is_known = scope["path"] == HEALTH or scope["path"] in StaticFilesMiddleware.paths
    return is_known and scope["method"] in ("GET", "HEAD") and not has_body(scope)
