"""Runs an ASGI application on a free port of 127.0.0.1, in a thread of its own, for the time of a block."""

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import uvicorn

START_TIMEOUT_S = 30.0


@contextmanager
def running_application(application: Any, *, lifespan: str = "off", guarded: bool = True) -> Iterator[str]:
    """The address, without a slash at its end. Connections are `guarded` as those of `manage.py up` are."""
    listener = socket.create_server(("127.0.0.1", 0), backlog=256)
    config = uvicorn.Config(
        application,
        log_config=None,
        log_level="critical",
        access_log=False,
        lifespan=lifespan,  # type: ignore[arg-type]
        timeout_graceful_shutdown=1,
        http="convmemory.http_limits.connections:GuardedConnection" if guarded else "auto",
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    try:
        _wait_until_started(server, thread)
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(START_TIMEOUT_S)
        listener.close()


def _wait_until_started(server: uvicorn.Server, thread: threading.Thread) -> None:
    deadline = time.monotonic() + START_TIMEOUT_S
    while not server.started:
        assert thread.is_alive(), "the server ended while it started"
        assert time.monotonic() < deadline, "the server did not start"
        time.sleep(0.01)
