"""Health checks come from inside a network, by address: a name that `ALLOWED_HOSTS` lists cannot be asked of them.

Their two answers say nothing that depends on the name, so they are asked under one that is allowed. Every other path
keeps the name that it was asked by.
"""

from convmemory.core.asgi_types import Application, Receive, Scope, Send
from convmemory.core.options import SiteOptions

PROBES = {"/health", "/ready", "/api/v1/health", "/api/v1/ready"}


class AnsweredProbes:
    """The application, whose health is told whatever name it is asked by."""

    def __init__(self, application: Application) -> None:
        self._application = application

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["path"] in PROBES:
            others = [(name, value) for name, value in scope["headers"] if name != b"host"]
            scope = {**scope, "headers": [*others, (b"host", _allowed_name())]}
        await self._application(scope, receive, send)


def _allowed_name() -> bytes:
    first = next(iter(SiteOptions.from_settings().allowed_hosts), "localhost")
    return ("localhost" if first == "*" else first.removeprefix(".")).encode()
