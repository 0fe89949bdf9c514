"""An ASGI wrapper that limits each caller's concurrent requests; further requests of the caller wait in a line.

So one caller's flood does not take all threads, connections and processors. While other users are active, a caller with
a line, or with almost constant requests lately, has a lower limit, and callers that keep the process busy pause between
requests. A request counts from the arrival of its body until its answer is made; an answer that streams counts as a
stream, of which a caller may have more.
"""

import asyncio
import itertools
import json
import math
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from http import HTTPStatus

from convmemory.core.web.asgi_types import Application, Message, Receive, Scope, Send

RETRY_AFTER_S = 5
DETAIL = "You have too many requests under way: wait until some of them are answered, then send this one again."


@dataclass(frozen=True, slots=True)
class RequestLimits:
    """Limits of one caller: concurrent requests and streams, waiting requests, and the longest wait.

    `beside_others` replaces `at_once` for a caller who has a line or almost constant requests
    (`UsedTime.exceeds_fair_share`), while another user has sent a request within `others_s`. The line counts too, so
    that a flood is held back from its first second on.

    Callers that keep the process busy pause after a request if another user sent one during it or within `contended_s`
    before it: with no other user, a pause would only be a loss.
    """

    at_once: int
    beside_others: int
    streams: int
    waiting: int
    wait_s: float = 30.0
    others_s: float = 60.0
    contended_s: float = 3.0


class Places:
    """A variable number of places with a first-in-first-out line for them."""

    def __init__(self, count: Callable[[], int]) -> None:
        self._count = count
        self.entered = 0  # requests that have a place, wait for one, or still send their body
        self.taken = 0
        self.line: deque[asyncio.Future[None]] = deque()

    def take(self) -> bool:
        """Take a place if one is free; return whether it was."""
        is_free = self.taken < self._count()
        self.taken += is_free
        return is_free

    def stand_in_line(self) -> "asyncio.Future[None]":
        """Return a future that is done when the line has reached the caller and given it a place."""
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


@dataclass(slots=True)
class _Caller:
    """The requests and streams of one caller."""

    requests: Places
    streams: Places
    loop: asyncio.AbstractEventLoop

    @property
    def is_idle(self) -> bool:
        return not any(places.entered or places.taken for places in (self.requests, self.streams))


class FairRequests:
    """Wraps an application.

    `name_caller` names a request's caller, `is_user` says by that name whether the caller is signed in; `is_stream`
    says whether a request is a stream, `is_free` whether it is not counted.
    """

    def __init__(
        self,
        application: Application,
        *,
        limits: RequestLimits,
        name_caller: Callable[[Scope], str],
        is_stream: Callable[[Scope], bool],
        is_free: Callable[[Scope], bool],
        is_user: Callable[[str], bool],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._application, self._limits = application, limits
        self._name_caller, self._is_stream, self._is_free = name_caller, is_stream, is_free
        self._is_user, self._clock = is_user, clock
        self._seen: OrderedDict[str, float] = OrderedDict()  # the time of each user's last request, oldest first
        self._used = UsedTime(clock)
        self.callers: dict[str, _Caller] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or self._is_free(scope):
            await self._application(scope, receive, send)
            return
        name = self._name_caller(scope)
        limits = self._limits
        now = self._clock()
        if self._is_user(name):
            self._seen[name] = now
            self._seen.move_to_end(name)
        while self._seen and next(iter(self._seen.values())) < now - self._limits.others_s:
            self._seen.popitem(last=False)
        loop = asyncio.get_running_loop()
        caller = self.callers.get(name)
        if caller is None or caller.loop is not loop:  # requests of another event loop have ended with it
            own = Places(lambda: self._at_once(name)), Places(lambda: self._limits.streams)
            caller = self.callers[name] = _Caller(*own, loop)
        is_stream = self._is_stream(scope)
        places = caller.streams if is_stream else caller.requests
        if places.entered >= (limits.streams if is_stream else limits.at_once) + limits.waiting:
            await _refuse(scope, send)
            return
        places.entered += 1
        request = _Request(caller, places, limits.wait_s, self._clock, scope, receive, send)
        try:
            await self._application(scope, request.receive, request.send)
        finally:
            if request.started is None or request.is_stream:
                pause_s = 0.0
            else:
                seconds = self._clock() - request.started
                self._used.add(name, seconds, waited_s=request.waited_s)
                others = self._others(name, since=request.started - self._limits.contended_s)
                pause_s = self._used.pause_after(name, seconds, others=others) if others else 0.0
            if pause_s:
                asyncio.get_running_loop().call_later(pause_s, self._leave, name, caller, request.places)
            request.end(keeps_place=pause_s > 0)
            self._forget_if_idle(name, caller)

    def _leave(self, name: str, caller: _Caller, places: Places) -> None:
        places.leave()
        self._forget_if_idle(name, caller)

    def _forget_if_idle(self, name: str, caller: _Caller) -> None:
        if caller.is_idle and self.callers.get(name) is caller:
            del self.callers[name]

    def _at_once(self, name: str) -> int:
        has_line = name in self.callers and bool(self.callers[name].requests.line)
        is_flood = has_line or self._used.exceeds_fair_share(name)
        has_others = is_flood and bool(self._others(name, since=self._clock() - self._limits.others_s))
        return self._limits.beside_others if has_others else self._limits.at_once

    def _others(self, name: str, *, since: float) -> list[str]:
        """Return the other users who have sent a request since then."""
        latest = itertools.takewhile(lambda user: self._seen[user] >= since, reversed(self._seen))
        return [user for user in latest if user != name]


class _Request:
    """One request: it takes a place when its body has arrived, and frees it with its answer."""

    def __init__(
        self,
        caller: _Caller,
        places: Places,
        wait_s: float,
        clock: Callable[[], float],
        scope: Scope,
        receive: Receive,
        send: Send,
    ) -> None:
        self._caller, self.places, self._wait_s, self._clock = caller, places, wait_s, clock
        self.started: float | None = None  # when the request got its place
        self.waited_s = 0.0  # seconds in line
        self._scope, self._receive, self._send = scope, receive, send
        self._has_place = self._is_refused = self._is_whole = self._is_answered = False
        self._ahead: asyncio.Task[Message] | None = None  # a receive() begun while in line

    async def receive(self) -> Message:
        """Return the next message; the one that ends the body waits for the request's place."""
        ahead, self._ahead = self._ahead, None
        message = await (ahead or self._receive())
        if self._is_whole or message["type"] != "http.request" or message.get("more_body"):
            return message
        self._is_whole = True
        if self._is_answered:  # a stream that only waits for http.disconnect
            return message
        arrived = self._clock()
        if self.places.take() or await self._wait_in_line():
            self._has_place, self.started = True, self._clock()
            self.waited_s = self.started - arrived
            return message
        return {"type": "http.disconnect"}

    async def send(self, message: Message) -> None:
        if self._is_refused:
            return  # 429 has been sent, after too long a wait
        if message["type"] == "http.response.start":
            self._is_answered = True
            is_request = self.places is self._caller.requests
            if self._has_place and _is_streamed(message) and is_request and self._caller.streams.take():
                # A streamed answer counts as a stream from now on; with too many streams, it remains a request.
                self.places.leave()
                self.places.entered -= 1
                self.places = self._caller.streams
                self.places.entered += 1
        await self._send(message)

    @property
    def is_stream(self) -> bool:
        return self.places is self._caller.streams

    def end(self, *, keeps_place: bool = False) -> None:
        """Free the place, also if the application failed, or answered before the body was complete."""
        if self._ahead:
            self._ahead.cancel()
        if self._has_place and not keeps_place:
            self.places.leave()
        self.places.entered -= 1

    async def _wait_in_line(self) -> bool:
        """Wait for a place; False if that took too long, or the client has disconnected."""
        turn = self.places.stand_in_line()
        self._ahead = asyncio.ensure_future(self._receive())  # after the body, only http.disconnect can come
        try:
            await asyncio.wait((turn, self._ahead), timeout=self._wait_s, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            self.places.leave_line(turn)
            raise
        if turn.done() and not self._ahead.done():
            return True
        self.places.leave_line(turn)
        self._is_refused = True
        if not self._ahead.done():
            await _refuse(self._scope, self._send)
        return False


def _is_streamed(start: Message) -> bool:
    """Return whether an answer is produced while it is sent: it has no length then."""
    headers = {name.lower(): value for name, value in start.get("headers", ())}
    return b"content-length" not in headers and start["status"] == HTTPStatus.OK


async def _refuse(scope: Scope, send: Send) -> None:
    status = HTTPStatus.TOO_MANY_REQUESTS
    body, kind = DETAIL.encode(), b"text/plain; charset=utf-8"
    if scope["path"].startswith(("/api/", "/mcp", "/scim/")):
        problem = {"type": "about:blank", "title": status.phrase, "status": status.value, "detail": DETAIL}
        body, kind = json.dumps(problem).encode(), b"application/problem+json"
    headers = [
        (b"content-type", kind),
        (b"content-length", str(len(body)).encode()),
        (b"retry-after", str(RETRY_AFTER_S).encode()),
    ]
    await send({"type": "http.response.start", "status": status.value, "headers": headers})
    await send({"type": "http.response.body", "body": body})


# --- used time ------------------------------------------------------------------------------------
# Each caller's recently used time, and the pauses of callers that used much before their next request.
#
# A person who waits for each answer and reads it also uses time, on a slow machine much of it. A flood differs in
# that it has a request running or waiting almost always, so the time in line counts as well.


# The shares were measured: with 0.2 alone, a person whose searches came every third of a second on a slow machine was
# paused like the flood next to it. See docs/adr/0024-fair-scheduling-by-owner.md.
SPAN_S = 10.0  # seconds used this long ago count for a third (1/e)
FREE_SHARE = 0.2  # of the time; callers that use less never pause
REQUESTED_SHARE = 0.6  # of the time with a request running or waiting; callers with less never pause
PAUSE_BY_REQUEST = 4.0  # the pause as a multiple of the request's time
LONGEST_PAUSE_S = 4.0
FORGOTTEN_S = 5 * SPAN_S  # since the last request; less than a hundredth of it counts then


class FadingSums:
    """A sum of seconds for each name, in which older seconds decay exponentially, over `SPAN_S`."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._sums: OrderedDict[str, tuple[float, float]] = OrderedDict()  # the seconds, and when they were counted

    def add(self, name: str, seconds: float) -> None:
        self._sums[name] = (self.of(name) + seconds, self._clock())
        self._sums.move_to_end(name)
        while next(iter(self._sums.values()))[1] < self._clock() - FORGOTTEN_S:
            self._sums.popitem(last=False)

    def of(self, name: str) -> float:
        """Return the exponentially decayed seconds; one second in every second converges to `SPAN_S`."""
        seconds, since = self._sums.get(name, (0.0, 0.0))
        return seconds * math.exp((since - self._clock()) / SPAN_S)

    def names(self) -> list[str]:
        return list(self._sums)


class UsedTime:
    """Seconds that each caller's requests were worked on, and seconds that they waited in line."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._used, self._requested = FadingSums(clock), FadingSums(clock)

    def add(self, name: str, seconds: float, *, waited_s: float = 0.0) -> None:
        self._used.add(name, seconds)
        self._requested.add(name, seconds + waited_s)

    def of(self, name: str) -> float:
        """Return the exponentially decayed seconds of work; a caller with one request running at all times converges to
        `SPAN_S`.
        """
        return self._used.of(name)

    def exceeds_fair_share(self, name: str) -> bool:
        """Return whether a caller exceeds the free share of work time and has almost always a request running or
        waiting.
        """
        is_requesting = self._requested.of(name) > REQUESTED_SHARE * SPAN_S
        return is_requesting and self.of(name) > FREE_SHARE * SPAN_S

    def pause_after(self, name: str, seconds: float, *, others: Iterable[str]) -> float:
        """Return the seconds that a caller pauses after a request of `seconds`, so that the other active callers come
        first.

        A caller that exceeds its fair share pauses if one of the others does not; if all of them do, only the one that
        has used the most pauses, so the process never idles.
        """
        if not self.exceeds_fair_share(name):
            return 0.0
        has_used_most = all(
            self.of(other) <= self.of(name) for other in self._used.names() if self.exceeds_fair_share(other)
        )
        if not has_used_most and all(self.exceeds_fair_share(other) for other in others):
            return 0.0
        return min(PAUSE_BY_REQUEST * seconds, LONGEST_PAUSE_S)
