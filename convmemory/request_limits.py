"""What one caller may have under way at once, from the settings: put round the whole application in `asgi.py`."""

from typing import Any

from django.conf import settings

from convmemory.core.callers import USER, caller_of_request
from convmemory.core.fair_requests import Application, FairRequests, Limits, Scope

WAITING_FOR_A_MODEL = ("/stream", "/send")  # the ends of addresses whose answers come as fast as a model writes
WAITING_FOR_A_WORKER = "/api/v1/imports"  # answered when the import has ended, if its sender wants to wait
PROXY = "/v1/"
FREE = ("/static/", "/health")  # answered from memory


def limited(application: Application) -> FairRequests:
    """The application with the limits of `REQUESTS_PER_USER` and its neighbours among the settings."""
    limits = Limits(
        at_once=settings.REQUESTS_PER_USER,
        beside_others=min(settings.REQUESTS_PER_USER, settings.REQUESTS_BESIDE_OTHERS),
        streams=settings.STREAMS_PER_USER,
        waiting=settings.WAITING_PER_USER,
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
    """Whether an answer from this address mostly waits, for a model or a worker, and costs this process little."""
    return path.startswith(PROXY) or path.endswith(WAITING_FOR_A_MODEL) or path == WAITING_FOR_A_WORKER


def _name_caller(scope: Scope) -> str:
    client: Any = scope.get("client")
    address = client[0] if client else ""
    return caller_of_request(scope["headers"], address, session_cookie=settings.SESSION_COOKIE_NAME)
