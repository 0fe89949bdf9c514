"""Lets health checks through under any host name: they come from inside a network, by address.

The two responses do not depend on the name, so these requests are handled under a name that `ALLOWED_HOSTS` lists.
Every other path keeps its host name.
"""

from convmemory.core.asgi_types import Application, Receive, Scope, Send
from convmemory.core.config import config

PROBES = {"/health", "/ready", "/api/v1/health", "/api/v1/ready"}


class AnsweredProbes:
    """Lets health checks bypass ALLOWED_HOSTS."""

    def __init__(self, application: Application) -> None:
        self._application = application

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["path"] in PROBES:
            others = [(name, value) for name, value in scope["headers"] if name != b"host"]
            first = next(iter(config.allowed_hosts), "localhost")
            allowed = "localhost" if first == "*" else first.removeprefix(".")
            scope = {**scope, "headers": [*others, (b"host", allowed.encode())]}
        await self._application(scope, receive, send)
