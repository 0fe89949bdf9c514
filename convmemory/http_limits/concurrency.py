"""Limits how many requests a process handles at once: in all, and of one caller, whose further requests wait in a line.

Excess requests are refused before they take a thread or a database connection. uvicorn's own limit on connections
counts idle ones too, so that one client could shut out all others by opening connections.

While the body of a request arrives (`bodies.py`), the request counts among those that are being received, which have a
limit of their own, because each keeps a part of its body in memory. Then it takes a place of its caller until its
answer is made. An answer that streams, or is long, counts as a stream, of which a user may have more; the pieces of a
caller's streams are made one after the other. Callers without an account have places of their addresses, and are one
caller together for the requests that are worked on and for their streams, of which few are sent at once. While other
users are active, a caller with a line, or with almost constant requests lately, has fewer places, and callers that keep
the process busy pause between requests and between pieces (`used_time.py`).
"""

import asyncio
import itertools
import re
import time
from collections import Counter, OrderedDict, deque
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack, contextmanager
from http import HTTPStatus
from typing import Any

from django.db import InterfaceError, OperationalError

from convmemory.core.config import config
from convmemory.core.errors import DatabaseUnavailable
from convmemory.core.measuring import Measurement, report
from convmemory.core.numbers import parse_number
from convmemory.core.web.asgi_types import DISCONNECT, Application, Message, Receive, Scope, Send, has_body
from convmemory.core.web.middleware import StaticFilesMiddleware
from convmemory.http_limits.bodies import Body
from convmemory.http_limits.refusals import refuse
from convmemory.http_limits.senders import caller_of, is_signed_in, is_user
from convmemory.http_limits.used_time import UsedTime
from convmemory.problems import Refusal

SHARE = 4  # a caller gets at most 1/4 of a process, unknown callers never the last 1/4
SMALLEST_SHARE = 8  # a browser opens six connections to one server
STRANGERS = "strangers"  # all addresses without an account together
STREAMS_OF_ADDRESS = 2  # without an account; those of users are in the settings
LONG_BYTES = 256 * 1024  # of an answer; sockets buffer less, so that a slow client determines how long it takes
BUSY = 4  # concurrent requests of an address from which its credentials are looked up
LOOKUPS_AT_ONCE = 8  # of unknown credentials: a flood of invented keys must not take all connections
WAIT_S = 30.0  # the longest wait in a line
OTHERS_S = 60.0  # after another user's request, in which a flood has fewer places
CONTENDED_S = 3.0  # the same before a request of a flood, which pauses after it: with no other user, for nothing
RETRY_AFTER_S = 5
REFUSAL_PAUSE_S = 3.0  # before a refusal: clients that are refused at once ask again at once

HEALTH = "/health"
WAITING_FOR_A_MODEL = re.compile(r"/v1/.*|/chat/send|/conversations/\d+/send|/api/v1/conversations/\d+/stream")
WAITING_FOR_A_WORKER = "/api/v1/imports"  # with `wait`, it answers when the import has ended

_TOO_MANY = Refusal(
    HTTPStatus.SERVICE_UNAVAILABLE,
    "The server is answering as many requests as it can (MAX_CONCURRENT_REQUESTS): try again in a moment.",
    retry_after_s=RETRY_AFTER_S,
)
_TOO_MANY_STREAMS = Refusal(
    HTTPStatus.SERVICE_UNAVAILABLE,
    "The server is sending as many pages as it sends at once to people without an account: try again in a moment.",
    retry_after_s=RETRY_AFTER_S,
)
_TOO_MANY_OF_STRANGERS = Refusal(
    HTTPStatus.SERVICE_UNAVAILABLE,
    "The server is answering as many people without an account as it can at once: try again in a moment.",
    retry_after_s=RETRY_AFTER_S,
)
_TOO_MANY_OF_CALLER = Refusal(
    HTTPStatus.TOO_MANY_REQUESTS,
    "Too many requests of yours, or of your address, are under way: wait until some are answered, then try again.",
    retry_after_s=RETRY_AFTER_S,
)


class Stage:
    """Counts the requests of one stage, in all and by caller; it has a part of `MAX_CONCURRENT_REQUESTS`."""

    def __init__(self, *, part: int) -> None:
        self._part = part
        self._total = 0
        self._by_caller: Counter[str] = Counter()

    def refusal(self, name: str) -> Refusal | None:
        """Return the refusal of a further request of this caller, None if there is room."""
        most = config.max_concurrent_requests // self._part
        if self._by_caller[name] >= max(most // SHARE, SMALLEST_SHARE):
            return _TOO_MANY_OF_CALLER
        return _TOO_MANY if self._total >= (most if is_user(name) else most - most // SHARE) else None

    def is_busy(self, name: str) -> bool:
        """Return whether the caller has several requests in this stage, or would not be let in."""
        return self._by_caller[name] >= BUSY or self.refusal(name) is not None

    @contextmanager
    def one_more(self, name: str) -> Iterator[None]:
        self._total += 1
        self._by_caller[name] += 1
        try:
            yield
        finally:
            self._total -= 1
            self._by_caller[name] -= 1
            if not self._by_caller[name]:
                del self._by_caller[name]


class Semaphore:
    """A caller's places, with a first-in-first-out line for them. Of `most` places, `number()` can be used now."""

    def __init__(self, most: int, number: Callable[[], int]) -> None:
        self.most, self._number = most, number
        self.entered = 0  # requests that have a place, wait for one, or still send their body
        self.taken = 0
        self.line: deque[asyncio.Future[None]] = deque()

    def take(self) -> bool:
        """Take a place if one is free; return whether it was."""
        is_free = self.taken < self._number()
        self.taken += is_free
        return is_free

    def stand_in_line(self) -> "asyncio.Future[None]":
        """Return a future that is done when the line has reached the request and given it a place."""
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.line.append(turn)
        return turn

    def leave_line(self, turn: "asyncio.Future[None]") -> None:
        """Give up waiting; a place received at the same moment goes to the next in line."""
        if turn.done():
            self.leave()
        else:
            self.line.remove(turn)

    def leave(self) -> None:
        """Free a place, and give all free ones to the line."""
        self.taken -= 1
        while self.line and self.take():
            self.line.popleft().set_result(None)


class Caller:
    """The places of one caller: for requests, for streams, and for the pieces of streams that are being made."""

    def __init__(self, name: str, requests_at_once: Callable[[str], int]) -> None:
        self.name = name
        self.requests = Semaphore(config.requests_per_user, lambda: requests_at_once(name))
        self.pieces = Semaphore(1, lambda: 1)
        if is_user(name):
            streams = config.streams_per_user
        else:
            # Far fewer than connections of the database, of which each piece of a stream needs one while it is read.
            streams = max(1, config.database_pool_size // 2) if name == STRANGERS else STREAMS_OF_ADDRESS
        self.streams = Semaphore(streams, lambda: streams)
        self.loop = asyncio.get_running_loop()

    @property
    def is_idle(self) -> bool:
        return not any(places.entered or places.taken for places in (self.requests, self.pieces, self.streams))


class ConcurrencyLimit:
    """Runs the application with no more concurrent requests than this process can serve well.

    `knows_sender` looks up a request's key or session; it is called only if the request would otherwise share the
    places of its address with others, or has a large body.
    """

    def __init__(
        self,
        application: Application,
        *,
        knows_sender: Callable[[Scope], Awaitable[bool]] = is_signed_in,
        clock: Callable[[], float] = time.monotonic,
        refusal_pause_s: float = REFUSAL_PAUSE_S,
    ) -> None:
        self.application, self.knows_sender, self.clock = application, knows_sender, clock
        self._refusal_pause_s = refusal_pause_s
        self._refusing = 0  # requests that wait for their refusal
        self.receiving, self.running = Stage(part=2), Stage(part=1)
        self.callers: dict[str, Caller] = {}
        self._lookups = 0
        self._seen: OrderedDict[str, float] = OrderedDict()  # the time of each user's last request, oldest first
        self._used = UsedTime(clock)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        is_free = is_answered_from_memory(scope)
        if is_free and scope["path"] == HEALTH:  # a busy process must not be restarted
            await self.application(scope, receive, send)
            return
        name = await self._name_of(scope)
        stage = self.receiving if has_body(scope) else self.running
        if (refusal := stage.refusal(name)) is not None:
            await self.refuse(scope, send, refusal)
        elif is_free:
            with stage.one_more(name):
                await self.application(scope, receive, send)
        else:
            await _Request(self, self.caller(name), scope, receive, send).run(stage)

    async def refuse(self, scope: Scope, send: Send, refusal: Refusal) -> None:
        """Refuse a request after a pause, or at once if as many wait for theirs as may be answered at once."""
        if self._refusing < config.max_concurrent_requests:
            self._refusing += 1
            try:
                await asyncio.sleep(self._refusal_pause_s)
            finally:
                self._refusing -= 1
        await refuse(scope, send, refusal)

    async def _name_of(self, scope: Scope) -> str:
        """Return the caller's name.

        A credential that is new to this process is looked up if its address is busy, or has few places for the request,
        or if people without an account wait in a line.
        """
        name = caller_of(scope)
        is_busy = self.receiving.is_busy(name) or self.running.is_busy(name) or waits_for_others(scope)
        strangers = self.callers.get(STRANGERS)
        is_busy = is_busy or (strangers is not None and bool(strangers.requests.line))
        if is_user(name) or not is_busy or self._lookups >= LOOKUPS_AT_ONCE:
            return name
        self._lookups += 1
        try:
            await self.knows_sender(scope)
        except (OperationalError, InterfaceError, DatabaseUnavailable):
            return name  # counted by its address; the response reports the database's failure
        finally:
            self._lookups -= 1
        return caller_of(scope)

    def caller(self, name: str) -> Caller:
        """Return the caller's places, and note that it is active if it is a user."""
        now = self.clock()
        if is_user(name):
            self._seen[name] = now
            self._seen.move_to_end(name)
        while self._seen and next(iter(self._seen.values())) < now - OTHERS_S:
            self._seen.popitem(last=False)
        caller = self.callers.get(name)
        if caller is None or caller.loop is not asyncio.get_running_loop():  # those of another loop have ended with it
            caller = self.callers[name] = Caller(name, self._requests_at_once)
        return caller

    def forget_if_idle(self, caller: Caller) -> None:
        if caller.is_idle and self.callers.get(caller.name) is caller:
            del self.callers[caller.name]

    def _requests_at_once(self, name: str) -> int:
        has_line = name in self.callers and bool(self.callers[name].requests.line)
        is_flood = has_line or self._used.exceeds_fair_share(name)
        if is_flood and self._others(name, since=self.clock() - OTHERS_S):
            return min(config.requests_per_user, config.requests_beside_others)
        return config.requests_per_user

    def _others(self, name: str, *, since: float) -> list[str]:
        """Return the other users who have sent a request since then."""
        latest = itertools.takewhile(lambda user: self._seen[user] >= since, reversed(self._seen))
        return [user for user in latest if user != name]

    def pause_after(self, name: str, *, started: float, waited_s: float) -> float:
        """Count the time of a request that ends now; return how many seconds its caller pauses."""
        seconds = self.clock() - started
        self._used.add(name, seconds, waited_s=waited_s)
        others = self._others(name, since=started - CONTENDED_S)
        return self._used.pause_after(name, seconds, others=others) if others else 0.0


class _Request:
    """One request: it takes a place of its caller when its body has arrived, and frees it with its answer.

    A stream takes a further place for each piece, and frees it when the piece is made.
    """

    def __init__(self, limit: ConcurrencyLimit, caller: Caller, scope: Scope, receive: Receive, send: Send) -> None:
        self._limit, self._caller, self._scope, self._send = limit, caller, scope, send
        self._body = Body(scope, receive, send, knows_sender=limit.knows_sender)
        self._places = caller.streams if waits_for_others(scope) else caller.requests
        self._stage = ExitStack()
        self._work: tuple[Caller, Semaphore] | None = None  # of which it has a place: requests, or pieces
        self._turn: Caller | None = None  # the callers without an account, if it has one of their places for requests
        self._works_since = 0.0
        self._waited_s = 0.0  # in line for that place
        self._has_stream = False  # a place of the caller's streams
        self._streams_since: float | None = None  # None for one that waits for a model, and costs this process little
        self._strangers: Caller | None = None  # of whose streams this is one
        self._is_whole = self._is_answered = self._is_refused = False
        self._ahead: asyncio.Task[Message] | None = None  # a receive() begun while in line

    async def run(self, stage: Stage) -> None:
        """Run the application on the request, in the stage that its arrival begins."""
        if self._places.entered >= self._places.most + config.waiting_per_user:
            await self._limit.refuse(self._scope, self._send, _TOO_MANY_OF_CALLER)
            return
        self._places.entered += 1
        self._stage.enter_context(stage.one_more(self._caller.name))
        try:
            if await self._body.has_accepted_length():
                await self._limit.application(self._scope, self.receive, self.send)
        except asyncio.CancelledError:
            if not self._is_refused:
                raise
        finally:
            self._end()

    async def receive(self) -> Message:
        """Return the next message; the one that ends the body waits for the request's place."""
        if self._is_refused:
            return DISCONNECT
        ahead, self._ahead = self._ahead, None
        message = await (ahead or self._body.receive())
        if self._is_whole or message["type"] != "http.request" or message.get("more_body"):
            return message
        self._is_whole = True
        if self._is_answered:  # a stream that only waits for http.disconnect
            return message
        refusal = self._begin_running() or await self._take_place()
        if refusal is None:
            return message
        self._is_refused = True
        if not self._has_disconnected:
            await refuse(self._scope, self._send, refusal)
        return DISCONNECT

    @property
    def _has_disconnected(self) -> bool:
        """Return whether the client has disconnected while in line."""
        return self._ahead is not None and self._ahead.done()

    async def send(self, message: Message) -> None:
        """Pass the answer on, unless the request was refused."""
        if self._is_refused:
            return
        is_start = message["type"] == "http.response.start"
        if is_start:
            self._is_answered = True
            self._end_turn()  # from here on the client's speed decides how long it takes
            if self._work is not None and _is_streamed(message):
                await self._begin_streaming()
        elif self._streams_since is not None:
            self._end_work()
        await self._body.send(message)
        if self._streams_since is not None and (is_start or message.get("more_body")):
            arrived, maker = self._limit.clock(), self._strangers or self._caller
            await self._wait_in_line(maker.pieces, is_patient=True)
            self._begin_work(maker, maker.pieces, arrived)

    async def _begin_streaming(self) -> None:
        """Count the answer as a stream from now on; one to a caller without an account may have to wait for that.

        Raises: CancelledError if it waited too long and was refused; Django then ends its answer as if the client had
        disconnected.
        """
        streams = self._caller.streams
        # A credential that was new to this process when the request came is known by now.
        is_stranger = not is_user(caller_of(self._scope))
        if not is_stranger and not streams.take():
            return  # with too many streams, it remains a request
        is_refused = is_stranger and not await self._wait_in_line(streams)
        self._streams_since = self._limit.clock()
        if not is_refused:
            self._has_stream = True
            self._places.entered -= 1
            self._places = streams
            self._places.entered += 1
            self._end_work()
            if is_stranger:
                strangers = self._limit.caller(STRANGERS)
                is_refused = not await self._wait_in_line(strangers.streams)
                self._strangers = None if is_refused else strangers
        if is_refused:
            self._is_refused = True
            await refuse(self._scope, self._send, _TOO_MANY_STREAMS)
            raise asyncio.CancelledError

    def _begin_running(self) -> Refusal | None:
        """Count a request whose body has arrived among the running ones, or return why it is refused."""
        if not has_body(self._scope):
            return None  # counted there from the beginning
        running, name = self._limit.running, self._caller.name
        refusal = running.refusal(name)
        if refusal is None:
            self._stage.close()
            self._stage.enter_context(running.one_more(name))
        return refusal

    async def _take_place(self) -> Refusal | None:
        """Take a place, after a wait in line if need be; return a refusal if that took too long."""
        arrived = self._limit.clock()
        if not await self._wait_for(self._places):
            return _TOO_MANY_OF_CALLER
        if self._places is self._caller.streams:
            self._has_stream = True
            return None
        if not is_user(self._caller.name):
            strangers = self._limit.caller(STRANGERS)
            if not await self._wait_for(strangers.requests):
                self._leave(self._caller, self._places)
                return _TOO_MANY_OF_STRANGERS
            self._turn = strangers
        self._begin_work(self._caller, self._places, arrived)
        return None

    async def _wait_for(self, places: Semaphore) -> bool:
        """Take a place, after a wait in line if need be; return False if that took too long, or the client left."""
        if places.take():
            return True
        # After the body, only http.disconnect can come.
        self._ahead = self._ahead or asyncio.ensure_future(self._body.receive())
        return await self._wait_in_line(places, self._ahead)

    def _end_turn(self) -> None:
        if self._turn is not None:
            strangers, self._turn = self._turn, None
            self._leave(strangers, strangers.requests)

    def _begin_work(self, caller: Caller, places: Semaphore, arrived: float) -> None:
        self._work, self._works_since = (caller, places), self._limit.clock()
        self._waited_s = self._works_since - arrived

    def _end_work(self) -> None:
        """Free the place of what was worked on, after a pause if the caller keeps the process busy."""
        if self._work is None:
            return
        (caller, places), self._work = self._work, None
        pause_s = self._limit.pause_after(caller.name, started=self._works_since, waited_s=self._waited_s)
        if pause_s:
            asyncio.get_running_loop().call_later(pause_s, self._leave, caller, places)
        else:
            self._leave(caller, places)

    @staticmethod
    async def _wait_in_line(places: Semaphore, *ends: "asyncio.Future[Message]", is_patient: bool = False) -> bool:
        """Take a place, after a wait in line if need be; return False if that took too long, or one of `ends` came."""
        if places.take():
            return True
        turn = places.stand_in_line()
        outcomes: tuple[asyncio.Future[Any], ...] = (turn, *ends)
        try:
            timeout_s = None if is_patient else WAIT_S
            await asyncio.wait(outcomes, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            places.leave_line(turn)
            raise
        if turn.done() and not any(end.done() for end in ends):
            return True
        places.leave_line(turn)
        return False

    def _end(self) -> None:
        """Free the places, also if the application failed, or answered before the body was complete."""
        if self._ahead:
            self._ahead.cancel()
        self._stage.close()
        if self._streams_since is not None:
            kind = "user" if is_user(caller_of(self._scope)) else "stranger"
            seconds = self._limit.clock() - self._streams_since
            report(Measurement("stream", kind, seconds, failed=self._is_refused))
        self._places.entered -= 1
        self._end_turn()
        self._end_work()
        if self._strangers:
            self._leave(self._strangers, self._strangers.streams)
        if self._has_stream:
            self._leave(self._caller, self._caller.streams)
        self._limit.forget_if_idle(self._caller)

    def _leave(self, caller: Caller, places: Semaphore) -> None:
        places.leave()
        self._limit.forget_if_idle(caller)


def _is_streamed(start: Message) -> bool:
    """Return whether the rest of an answer takes its client's time: it has no length yet, or is long."""
    headers = {name.lower(): value for name, value in start.get("headers", ())}
    length = parse_number(headers.get(b"content-length", b"").decode("latin-1"))
    return start["status"] == HTTPStatus.OK and (length is None or length > LONG_BYTES)


def waits_for_others(scope: Scope) -> bool:
    """Return whether the response mostly waits, for a model or a worker, and costs this process little."""
    if scope["path"] == WAITING_FOR_A_WORKER:
        return bool(scope["method"] == "POST")
    return WAITING_FOR_A_MODEL.fullmatch(scope["path"]) is not None


def is_answered_from_memory(scope: Scope) -> bool:
    """Return whether a health check or an existing static file is read: neither needs a thread or a query."""
    is_known = scope["path"] == HEALTH or scope["path"] in StaticFilesMiddleware.paths
    return is_known and scope["method"] in ("GET", "HEAD") and not has_body(scope)
