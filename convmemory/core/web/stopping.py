"""The time between the signal that stops a web process and its end.

From SIGTERM on, `/ready` answers 503 and responses close their connections. The process accepts connections for the
first third of `DRAIN_S`, in which balancers find others, and replies may be written until its end. Ctrl-C (SIGINT)
stops at once.
"""

import asyncio
import math
import signal
import threading
import time
from types import FrameType

from convmemory.core.config import Config, config

REPLIES_S = 5.0  # for replies in progress if DRAIN_S is shorter, so that most are completed
ACCEPTING_SHARE = 1 / 3  # of DRAIN_S: at 30 s, five probes of a balancer that asks every two seconds


class _Stop:
    deadline: float | None = None  # of time.monotonic()


def is_stopping() -> bool:
    return _Stop.deadline is not None


def remaining_s() -> float:
    """Return the seconds until replies in progress have to end."""
    return 0.0 if _Stop.deadline is None else max(0.0, _Stop.deadline - time.monotonic())


def graceful_timeout_s() -> int:
    """Return how long uvicorn waits for open responses after it has closed its listener."""
    return math.ceil(max(REPLIES_S, Config.drain_s.read() * (1 - ACCEPTING_SHARE)))


def delay_sigterm() -> None:
    """Pass SIGTERM to the handler in force, uvicorn's, only after the time in which new connections are accepted.

    Has no effect outside of the main thread, which alone receives signals.
    """
    if threading.current_thread() is not threading.main_thread():
        return
    loop, stop = asyncio.get_running_loop(), signal.getsignal(signal.SIGTERM)

    def begin(number: int, frame: FrameType | None) -> None:
        if is_stopping() or not callable(stop):
            return
        accepting_s = config.drain_s * ACCEPTING_SHARE
        _Stop.deadline = time.monotonic() + accepting_s + graceful_timeout_s()
        loop.call_soon_threadsafe(loop.call_later, accepting_s, stop, number, None)

    signal.signal(signal.SIGTERM, begin)
