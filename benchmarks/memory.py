"""Measures the peak memory of a system: the proportional set sizes of its processes, sampled while it works.

Memory shared between processes is counted once, which matters for PostgreSQL's buffers. It is read from Linux's /proc;
elsewhere it is not measured.
"""

import threading
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import Self

import psutil

PERIOD_S = 0.1
PSS = "Pss:"


class PeakMemory:
    """Samples memory on a thread inside its `with` block. `watch` adds the process trees of servers."""

    def __init__(self, process: int) -> None:
        self._roots = [process]
        self._peak = 0
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._sample, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._ended.set()
        self._thread.join()

    def watch(self, processes: Iterable[int]) -> None:
        self._roots = [*self._roots, *processes]

    @property
    def peak_bytes(self) -> int | None:
        """Return the peak; None if it could not be read."""
        return self._peak or None

    def _sample(self) -> None:
        while not self._ended.wait(PERIOD_S):
            self._peak = max(self._peak, sum(map(tree_bytes, self._roots)))


def tree_bytes(root: int) -> int:
    """Return the memory of a process and all its descendants; 0 if it has ended."""
    try:
        process = psutil.Process(root)
        numbers = [root, *(child.pid for child in process.children(recursive=True))]
    except psutil.NoSuchProcess:
        return 0
    return sum(map(process_bytes, numbers))


def process_bytes(number: int) -> int:
    """Return the proportional set size of a process; 0 if it has ended or may not be read."""
    try:
        text = Path(f"/proc/{number}/smaps_rollup").read_text(encoding="ascii")
    except OSError:
        return 0
    return next((int(line.split()[1]) * 1024 for line in text.splitlines() if line.startswith(PSS)), 0)
