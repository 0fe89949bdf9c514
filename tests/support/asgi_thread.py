"""Runs an ASGI application on a free port of 127.0.0.1, in a thread of its own, for the time of a block."""

import asyncio
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import uvicorn

START_TIMEOUT_S = 30.0
GRACE_S = 1.0  # for requests that a test has left
LOOK_S = 0.005


class PromptServer(uvicorn.Server):
    """Starts and ends as uvicorn does, but ends at once: 0.2 s less in a test that has a server."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.may_end = threading.Event()

    async def main_loop(self) -> None:
        await self.on_tick(0)  # makes the headers of all answers
        await asyncio.to_thread(self.may_end.wait)  # to look every 5 ms takes 1.5 % of a core

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        for listening in (*self.servers, *(sockets or ())):
            listening.close()
        state = self.server_state
        for connection in list(state.connections):
            connection.shutdown()
        until = time.monotonic() + GRACE_S
        while (state.connections or state.tasks) and time.monotonic() < until:
            await asyncio.sleep(LOOK_S)
        for task in state.tasks:
            task.cancel()
        await self.lifespan.shutdown()


@contextmanager
def running_application(
    application: Any, *, lifespan: str = "off", guarded: bool = True, at: socket.socket | None = None
) -> Iterator[str]:
    """The address, without a slash at its end. Connections are `guarded` as those of `manage.py up` are.

    The application listens `at` this socket, which stays open for the next one.
    """
    listener = at.dup() if at else socket.create_server(("127.0.0.1", 0), backlog=256)
    config = uvicorn.Config(
        application,
        log_config=None,
        log_level="critical",
        access_log=False,
        lifespan=lifespan,  # type: ignore[arg-type]
        http="convmemory.http_limits.connections:GuardedConnection" if guarded else "auto",
    )
    server = PromptServer(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    try:
        _wait_until_started(server, thread)
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        server.may_end.set()
        thread.join(START_TIMEOUT_S)
        listener.close()


def _wait_until_started(server: uvicorn.Server, thread: threading.Thread) -> None:
    deadline = time.monotonic() + START_TIMEOUT_S
    while not server.started:
        assert thread.is_alive(), "the server ended while it started"
        assert time.monotonic() < deadline, "the server did not start"
        time.sleep(0.01)
