"""A running adapter: requests and answers as JSON lines over its standard input and output."""

import contextlib
import json
import subprocess
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from benchmarks.places import ROOT

END_TIMEOUT_S = 60


class AdapterFailed(Exception):
    """An adapter ended, or answered with an error; the message gives the reason."""


class AdapterProcess:
    """An adapter that starts when the block is entered and stops when it is left. Its standard error goes to `log`."""

    def __init__(self, command: Sequence[str], *, log: Path) -> None:
        self._command = command
        self._log = log

    def __enter__(self) -> Self:
        self._errors = self._log.open("w", encoding="utf-8")
        self._process = subprocess.Popen(  # noqa: S603
            self._command,
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
            encoding="utf-8",
        )
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        with contextlib.suppress(AdapterFailed):  # the adapter has ended
            self._send({"do": "stop"})
        try:
            self._process.wait(END_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout, self._errors):
            with contextlib.suppress(BrokenPipeError):  # unread requests
                if pipe is not None:
                    pipe.close()

    @property
    def process(self) -> int:
        return self._process.pid

    def ask(self, do: str, **values: Any) -> dict[str, Any]:
        """Send a request and return its answer. Raises: AdapterFailed."""
        self._send({"do": do, **values})
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise AdapterFailed(f"it ended at {do!r}: {self._last_words()}")
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise AdapterFailed(f"{do}: {answer['error']}")
        return answer

    def _send(self, request: dict[str, Any]) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(request) + "\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise AdapterFailed(f"it ended: {self._last_words()}") from None

    def _last_words(self) -> str:
        lines = self._log.read_text(encoding="utf-8").strip().splitlines()
        return lines[-1] if lines else "it said nothing"
