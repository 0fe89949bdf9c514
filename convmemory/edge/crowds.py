"""Limits how many requests are handled at once, in all and of those that check a password.

Excess requests are refused here, before they take a thread or a database connection. A server's own limit on
connections would count idle ones too, so that somebody could shut everybody out by opening connections.
"""

import re
from collections import Counter
from http import HTTPStatus

from convmemory.core.addresses import network_of
from convmemory.core.asgi_types import Application, Receive, Scope, Send
from convmemory.edge.options import EdgeOptions
from convmemory.edge.refusals import Refusal, refuse

PASSWORD_PATHS = re.compile(r"/(login|admin/login|admin/password_change|settings/password|settings/account/delete)/?")
PASSWORDS_AT_ONCE = 8
PASSWORDS_AT_ONCE_PER_ADDRESS = 4
RETRY_AFTER_S = 2
ALIVE = "/health"  # a process that is busy need not be started again

_TOO_MANY = Refusal(
    HTTPStatus.SERVICE_UNAVAILABLE,
    "The server is answering as many requests as it can (MAX_CONCURRENT_REQUESTS): try again in a moment.",
    retry_after_s=RETRY_AFTER_S,
)
_TOO_MANY_PASSWORDS = Refusal(
    HTTPStatus.SERVICE_UNAVAILABLE,
    "Too many people are signing in at this moment: try again in some seconds.",
    retry_after_s=RETRY_AFTER_S,
)
_TOO_MANY_FROM_THERE = Refusal(
    HTTPStatus.TOO_MANY_REQUESTS,
    "Too many passwords come from your address at once: try again in some seconds.",
    retry_after_s=RETRY_AFTER_S,
)


class BoundedCrowds:
    """The application, asked by no more requests at once than this process can serve well."""

    def __init__(self, application: Application) -> None:
        self._application = application
        self._running = 0
        self._passwords: Counter[str] = Counter()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._running >= EdgeOptions.from_settings().max_concurrent_requests and scope["path"] != ALIVE:
            await refuse(scope, send, _TOO_MANY)
            return
        self._running += 1
        try:
            if scope["method"] == "POST" and PASSWORD_PATHS.fullmatch(scope["path"]):
                await self._check_password(scope, receive, send)
            else:
                await self._application(scope, receive, send)
        finally:
            self._running -= 1

    async def _check_password(self, scope: Scope, receive: Receive, send: Send) -> None:
        network = network_of(scope["client"][0] if scope.get("client") else "")
        if self._passwords[network] >= PASSWORDS_AT_ONCE_PER_ADDRESS:
            await refuse(scope, send, _TOO_MANY_FROM_THERE)
        elif self._passwords.total() >= PASSWORDS_AT_ONCE:
            await refuse(scope, send, _TOO_MANY_PASSWORDS)
        else:
            await self._count_in(network, scope, receive, send)

    async def _count_in(self, network: str, scope: Scope, receive: Receive, send: Send) -> None:
        self._passwords[network] += 1
        try:
            await self._application(scope, receive, send)
        finally:
            self._passwords[network] -= 1
            self._passwords += Counter()  # forgets those at zero
