"""An application behind the limits, the requests that it is asked, and settings for them."""

import asyncio
import functools
from collections.abc import Awaitable, Callable
from typing import Any

from pytest_django import Settings

from convmemory.core.web.asgi_types import Message, Receive, Scope, Send
from convmemory.http_limits.concurrency import ConcurrencyLimit

STATIC = "/static/app.css"
STREAM, SECOND_STREAM = "/chat/send", "/conversations/2/send"
USERS = {"ada": 1, "bob": 2, "flood": 3}


def scope_of(
    method: str, path: str, *headers: tuple[bytes, bytes], key: str = "", address: str = "192.0.2.1"
) -> dict[str, Any]:
    given = [*headers, (b"authorization", f"Bearer {key}".encode())] if key else [*headers]
    return {"type": "http", "method": method, "path": path, "headers": given, "client": (address, 1)}


class Site:
    """An application behind the limits whose requests are answered when the test says so.

    A stream makes one piece at once, which its client takes when the test says so, and then the rest.
    """

    def __init__(self, *, refusal_pause_s: float = 0.0) -> None:
        self.now = 0.0
        self.running: list[str] = []
        self.disconnected: list[str] = []
        self.go_on: dict[str, asyncio.Event] = {}
        self.takes: dict[str, asyncio.Event] = {}
        self.limit = ConcurrencyLimit(
            self._answer,
            knows_sender=self._knows_sender,
            clock=lambda: self.now,
            refusal_pause_s=refusal_pause_s,
        )

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        name = scope["path"]
        if name == "/listening":
            await send({"type": "http.response.start", "status": 200, "headers": []})
        while (message := await receive()).get("more_body"):
            pass
        if message["type"] == "http.disconnect":
            self.disconnected.append(name)
            return
        self.running.append(name)
        is_streamed = name.startswith(("/export", "/file"))
        if is_streamed:
            length = [(b"content-length", b"999999")] if name.startswith("/file") else []
            await send({"type": "http.response.start", "status": 200, "headers": length})
            await send({"type": "http.response.body", "body": b"piece", "more_body": True})
        await self.go_on.setdefault(name, asyncio.Event()).wait()
        if not is_streamed and name != "/listening":
            await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
        await send({"type": "http.response.body", "body": b"ok"})
        self.running.remove(name)

    async def _knows_sender(self, scope: Scope) -> bool:
        return False

    def ask(self, caller: str = "", path: str = "/", *, address: str = "192.0.2.1", has_body: bool = False) -> "Asked":
        headers = [(b"content-length", b"4")] if has_body else []
        scope = scope_of("GET" if path == STATIC else "POST", path, *headers, key=caller, address=address)
        takes = self.takes.setdefault(path, asyncio.Event())
        return Asked(self.limit, scope, b"ab" if has_body else b"", takes, more_body=has_body)

    async def send(self, count: int, **options: Any) -> list["Asked"]:
        """Send so many requests of an address, or with `addresses` of as many addresses."""
        network = options.pop("addresses", "")
        if network:
            asked = [self.ask(**options, address=f"{network}{number}") for number in range(count)]
        else:
            asked = [self.ask(**options) for _ in range(count)]
        await settle()
        return asked

    async def answer(self, caller: str, path: str, *, seconds: float) -> None:
        """A request from beginning to end that takes so long."""
        asked = self.ask(caller, path)
        await settle()
        assert self.running == [path]
        self.now += seconds
        await self.let_go_on(path)
        assert asked.status == 200

    async def let_go_on(self, *names: str) -> None:
        for name in names:
            self.go_on.setdefault(name, asyncio.Event()).set()
        await self.let_take(*names)

    async def let_take(self, *names: str) -> None:
        for name in names:
            self.takes.setdefault(name, asyncio.Event()).set()
        await settle()


class Asked:
    """A request that a caller sent, and its response."""

    def __init__(
        self, limit: ConcurrencyLimit, scope: Scope, body: bytes, takes: asyncio.Event, *, more_body: bool
    ) -> None:
        self.takes = takes
        self.sent: list[Message] = []
        self.incoming: asyncio.Queue[Message] = asyncio.Queue()
        self.arrive(body, more_body=more_body)
        self.task = asyncio.ensure_future(limit(scope, self.incoming.get, self._send))

    def arrive(self, body: bytes, *, more_body: bool = False) -> None:
        self.incoming.put_nowait({"type": "http.request", "body": body, "more_body": more_body})

    async def _send(self, message: Message) -> None:
        self.sent.append(message)
        if message.get("body") == b"piece":
            await self.takes.wait()

    @property
    def status(self) -> int | None:
        return self.sent[0]["status"] if self.sent else None


async def settle() -> None:
    for _ in range(30):
        await asyncio.sleep(0)


def statuses(asked: list[Asked]) -> list[int | None]:
    return [one.status for one in asked]


def on_site(**limits: int) -> Callable[[Callable[[Site], Awaitable[None]]], Callable[..., None]]:
    """Run a scenario on a site with these settings, by default two requests and one stream of a user at once."""
    defaults = {"REQUESTS_PER_USER": 2, "REQUESTS_BESIDE_OTHERS": 2, "STREAMS_PER_USER": 1, "WAITING_PER_USER": 3}

    def decorate(scenario: Callable[[Site], Awaitable[None]]) -> Callable[..., None]:
        @functools.wraps(scenario, updated=())
        def run(settings: Settings) -> None:
            for name, value in {**defaults, **limits}.items():
                setattr(settings, name, value)
            asyncio.run(asyncio.wait_for(scenario(Site()), 30))

        del run.__wrapped__  # pytest would read its arguments
        return run

    return decorate
