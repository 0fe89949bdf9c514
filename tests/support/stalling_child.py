"""A child process that touches a file for a while and then works on without progress."""

import os
import time
from collections.abc import Sequence

from convmemory.core.processes.child_limits import run_under_limits


def _work(arguments: Sequence[str]) -> None:
    path, steps = arguments
    for _ in range(int(steps)):
        _use_processor(0.2)
        os.utime(path)
    if not int(steps):
        _use_processor(600)


def _use_processor(seconds: float) -> None:
    end = time.process_time() + seconds
    while time.process_time() < end:
        pass


if __name__ == "__main__":
    run_under_limits(_work)
