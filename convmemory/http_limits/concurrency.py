"""Limits how many requests are handled at once: in all, of one caller, and of those that check a password.

A request takes a place when its body has arrived; until then it counts among the requests that are being received,
which have a limit of their own, because each keeps a part of its body in memory. Excess requests are refused before
they take a thread or a database connection. uvicorn's own limit on connections counts idle ones too, so that one client
could shut out all others by opening connections.
"""

import re
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from http import HTTPStatus

from django.db import InterfaceError, OperationalError

from convmemory.core.config import config
from convmemory.core.errors import DatabaseUnavailable
from convmemory.core.web.asgi_types import DISCONNECT, Application, Message, Receive, Scope, Send, has_body
from convmemory.core.web.callers import network_of
from convmemory.core.web.fair_requests import FairRequests, RequestLimits
from convmemory.core.web.middleware import StaticFilesMiddleware
from convmemory.http_limits.refusals import Refusal, refuse
from convmemory.http_limits.senders import caller_of, is_signed_in, is_user

PASSWORD_PATHS = re.compile(r"/(login|settings/(password|confirm|account/delete))/?")
# A hash takes a third of a second of a core, and there are as many places in `convmemory.sign_in.hashing`.
PASSWORDS_AT_ONCE = 8
PASSWORDS_AT_ONCE_PER_ADDRESS = 4
SHARE = 4  # a caller gets at most 1/4 of the places, unknown callers never the last 1/4
SMALLEST_SHARE = 8  # a browser opens six connections to one server
BUSY = 4  # concurrent requests of an address from which its credentials are looked up
LOOKUPS_AT_ONCE = 8  # of unknown credentials: a flood of invented keys must not take all connections
RETRY_AFTER_S = 2
ALIVE = "/health"  # a busy process must not be restarted

_TOO_MANY = Refusal(
    HTTPStatus.SERVICE_UNAVAILABLE,
    "The server is answering as many requests as it can (MAX_CONCURRENT_REQUESTS): try again in a moment.",
    retry_after_s=RETRY_AFTER_S,
)
_TOO_MANY_OF_CALLER = Refusal(
    HTTPStatus.TOO_MANY_REQUESTS,
    "Too many requests of yours, or of your address, are under way: wait until some are answered, then try again.",
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


@dataclass(frozen=True, slots=True)
class Bound:
    """The most requests at a time, in total and by one name, and the refusals of further ones."""

    in_all: int
    by_name: int
    full: Refusal
    full_of_name: Refusal


class UnderWay:
    """Counts the requests in progress, in total and by name."""

    def __init__(self) -> None:
        self.total = 0
        self.by_name: Counter[str] = Counter()

    def refusal(self, name: str, bound: Bound) -> Refusal | None:
        """Return the refusal of a further request of this name, None if there is room."""
        if self.by_name[name] >= bound.by_name:
            return bound.full_of_name
        return bound.full if self.total >= bound.in_all else None

    @contextmanager
    def one_more(self, name: str) -> Iterator[None]:
        self.total += 1
        self.by_name[name] += 1
        try:
            yield
        finally:
            self.total -= 1
            self.by_name[name] -= 1
            if not self.by_name[name]:
                del self.by_name[name]


class ConcurrencyLimit:
    """Runs the application with no more concurrent requests than this process can serve well.

    `knows_sender` looks up a request's key or session; it is called only if the request would otherwise share the
    places of its address with others.
    """

    def __init__(
        self, application: Application, *, knows_sender: Callable[[Scope], Awaitable[bool]] = is_signed_in
    ) -> None:
        self.application = application
        self._knows_sender = knows_sender
        self._lookups = 0
        self._receiving, self._running, self._passwords = UnderWay(), UnderWay(), UnderWay()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["path"] == ALIVE and scope["method"] in ("GET", "HEAD") and not has_body(scope):
            await self.application(scope, receive, send)
            return
        await _Request(self, scope, receive, send, caller=await self._caller_of(scope)).run()

    def enter_receiving(self, stack: ExitStack, caller: str) -> Refusal | None:
        """Count a request whose body is still arriving until `stack` ends, or return why it is refused."""
        bound = _bound_of(caller, config.max_concurrent_requests // 2)
        refusal = self._receiving.refusal(caller, bound)
        if refusal is None:
            stack.enter_context(self._receiving.one_more(caller))
        return refusal

    def enter_running(self, stack: ExitStack, caller: str, scope: Scope) -> Refusal | None:
        """Give the request a place until `stack` ends, or return why it is refused."""
        bound = _bound_of(caller, config.max_concurrent_requests)
        refusal = self._running.refusal(caller, bound)
        if refusal is None and scope["method"] == "POST" and PASSWORD_PATHS.fullmatch(scope["path"]):
            network = network_of(scope["client"][0] if scope.get("client") else "")
            refusal = self._passwords.refusal(
                network,
                Bound(PASSWORDS_AT_ONCE, PASSWORDS_AT_ONCE_PER_ADDRESS, _TOO_MANY_PASSWORDS, _TOO_MANY_FROM_THERE),
            )
            if refusal is None:
                stack.enter_context(self._passwords.one_more(network))
        if refusal is None:
            stack.enter_context(self._running.one_more(caller))
        return refusal

    async def _caller_of(self, scope: Scope) -> str:
        """Return the caller's name. A credential that is new to this process is looked up if its address is busy."""
        caller = caller_of(scope)
        if is_user(caller) or not self._is_busy(caller) or self._lookups >= LOOKUPS_AT_ONCE:
            return caller
        self._lookups += 1
        try:
            await self._knows_sender(scope)
        except (OperationalError, InterfaceError, DatabaseUnavailable):
            return caller  # counted by its address; the response reports the database's failure
        finally:
            self._lookups -= 1
        return caller_of(scope)

    def _is_busy(self, caller: str) -> bool:
        """Return whether the caller has several requests under way, or would not get a place."""
        places = config.max_concurrent_requests
        return any(
            under_way.by_name[caller] >= BUSY or under_way.refusal(caller, _bound_of(caller, most)) is not None
            for under_way, most in ((self._running, places), (self._receiving, places // 2))
        )


def _bound_of(caller: str, places: int) -> Bound:
    in_all = places if is_user(caller) else places - places // SHARE
    return Bound(in_all, max(places // SHARE, SMALLEST_SHARE), _TOO_MANY, _TOO_MANY_OF_CALLER)


class _Request:
    """One request: counted as being received until its body is complete, then as running."""

    def __init__(self, limit: ConcurrencyLimit, scope: Scope, receive: Receive, send: Send, *, caller: str) -> None:
        self._limit, self._caller = limit, caller
        self._scope, self._receive, self._send = scope, receive, send
        self._held = ExitStack()
        self._is_whole = not has_body(scope)
        self._is_answered = self._is_refused = False

    async def run(self) -> None:
        with self._held:
            if self._is_whole:
                refusal = self._limit.enter_running(self._held, self._caller, self._scope)
            else:
                refusal = self._limit.enter_receiving(self._held, self._caller)
            if refusal is None:
                await self._limit.application(self._scope, self.receive, self.send)
            else:
                await refuse(self._scope, self._send, refusal)

    async def receive(self) -> Message:
        """Return the next message; the one that ends the body only if the request gets a place."""
        if self._is_refused:
            return DISCONNECT
        message = await self._receive()
        if self._is_whole or self._is_answered or message["type"] != "http.request" or message.get("more_body", False):
            return message
        self._is_whole = True
        self._held.close()
        refusal = self._limit.enter_running(self._held, self._caller, self._scope)
        if refusal is None:
            return message
        self._is_refused = True
        await refuse(self._scope, self._send, refusal)
        return DISCONNECT

    async def send(self, message: Message) -> None:
        """Pass the answer on, unless the request was refused."""
        if not self._is_refused:
            self._is_answered = True
            await self._send(message)


# --- request limits -------------------------------------------------------------------------------
# Limits the concurrent requests of one caller, according to the settings; wraps the whole application in `asgi.py`.


WAITING_FOR_A_MODEL = re.compile(r"/v1/.*|/chat/send|/conversations/\d+/send|/api/v1/conversations/\d+/stream")
WAITING_FOR_A_WORKER = "/api/v1/imports"  # with `wait`, it answers when the import has ended
HEALTH = "/health"


def limited(application: Application) -> FairRequests:
    """Return the application with the limits of `REQUESTS_PER_USER` and the related settings."""
    limits = RequestLimits(
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
