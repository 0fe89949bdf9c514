"""Limits the concurrent requests of one caller, according to the settings; wraps the whole application in `asgi.py`."""

from typing import Any

from convmemory.core.asgi_types import Application, Scope
from convmemory.core.callers import USER, caller_of_request
from convmemory.core.fair_requests import FairRequests, Limits
from convmemory.core.options import SiteOptions
from convmemory.edge.options import CallerOptions

WAITING_FOR_A_MODEL = ("/stream", "/send")  # the ends of addresses whose answers come as fast as a model writes
WAITING_FOR_A_WORKER = "/api/v1/imports"  # answered when the import has ended, if its sender wants to wait
PROXY = "/v1/"
FREE = ("/static/", "/health")  # answered from memory


def limited(application: Application) -> FairRequests:
    """The application with the limits of `REQUESTS_PER_USER` and the settings beside it."""
    options = CallerOptions.from_settings()
    limits = Limits(
        at_once=options.requests_per_user,
        beside_others=min(options.requests_per_user, options.requests_beside_others),
        streams=options.streams_per_user,
        waiting=options.waiting_per_user,
    )
    return FairRequests(
        application,
        limits=limits,
        name_caller=_name_caller,
        is_stream=waits_for_others,
        is_free=lambda path: path.startswith(FREE),
        is_user=lambda name: name.startswith(USER),
    )


def waits_for_others(path: str) -> bool:
    """Whether a response from this address mostly waits, for a model or a worker, and costs this process little."""
    return path.startswith(PROXY) or path.endswith(WAITING_FOR_A_MODEL) or path == WAITING_FOR_A_WORKER


def _name_caller(scope: Scope) -> str:
    client: Any = scope.get("client")
    address = client[0] if client else ""
    return caller_of_request(scope["headers"], address, session_cookie=SiteOptions.from_settings().session_cookie_name)
