"""The common code of adapters: reads requests as JSON lines and answers with JSON lines. Standard library alone.

A request names the action in `do`: `start`, `index` (an archive with its turns), `finish`, `search`, `stop`. Times are
measured here, around the system's own work, so that they include neither pipe nor JSON. The answer to an error is
`{"error": ...}`, and the program ends.
"""

import json
import os
import sys
import time
from abc import ABC, abstractmethod
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any, TextIO

Turn = tuple[str, str]
"""Id and text."""


class Adapter(ABC):
    """One system, by default in this process with files in `folder`. Its archives are searched separately."""

    packages: Sequence[str] = ()
    """The packages whose versions are reported."""

    def __init__(self, options: Namespace) -> None:
        self.folder: Path = options.folder
        self.archives: dict[str, Any] = {}

    def start(self) -> None:  # noqa: B027 - most have nothing to load
        """Load what a running system has loaded; not counted as indexing."""

    @abstractmethod
    def index(self, archive: str, turns: Sequence[Turn]) -> None:
        """Index an archive."""

    def finish(self) -> None:  # noqa: B027 - most write when they index
        """Do the final work after indexing: statistics, files."""

    @abstractmethod
    def search(self, archive: str, question: str, limit: int) -> list[str]:
        """Return the ids of the turns found, best first."""

    def bytes_on_disk(self) -> int:
        """Return the disk space of the archives."""
        return sum(path.stat().st_size for path in self.folder.rglob("*") if path.is_file())

    def servers(self) -> list[int]:
        """Return the process numbers of servers that work for it outside its own process tree."""
        return []


def serve(make: type[Adapter]) -> None:
    """Answer requests until `stop`."""
    options = _options()
    requests, answers = sys.stdin, _own_stdout()
    adapter = make(options)
    for request in map(json.loads, requests):
        if request["do"] == "stop":
            return
        try:
            answer = _answer(adapter, request)
        except Exception as error:
            _write(answers, {"error": f"{type(error).__name__}: {error}"})
            raise
        _write(answers, answer)


def _options() -> Namespace:
    parser = ArgumentParser()
    parser.add_argument("--folder", type=Path, required=True, help="where the system keeps its data")
    parser.add_argument("--graph", type=Path, required=True, help="the ONNX graph of the model")
    parser.add_argument("--tokenizer", type=Path, required=True)
    parser.add_argument("--dataset", required=True, help="the evaluation set, for a system that reads it itself")
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--variant", default="")
    return parser.parse_args()


def _own_stdout() -> TextIO:
    """Return the pipe to the caller; output of libraries goes to standard error from here on."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    return answers


def _answer(adapter: Adapter, request: dict[str, Any]) -> dict[str, Any]:
    match request["do"]:
        case "start":
            seconds = _seconds(adapter.start)
            versions = {name: version(name) for name in adapter.packages}
            return {"seconds": seconds, "servers": adapter.servers(), "versions": versions}
        case "index":
            turns = [(turn_id, text) for turn_id, text in request["turns"]]
            return {"seconds": _seconds(lambda: adapter.index(request["archive"], turns))}
        case "finish":
            return {"seconds": _seconds(adapter.finish), "bytes": adapter.bytes_on_disk()}
        case "search":
            started = time.perf_counter()
            ids = adapter.search(request["archive"], request["question"], request["limit"])
            return {"found": ids, "milliseconds": (time.perf_counter() - started) * 1000}
        case other:
            raise ValueError(f"unknown request {other!r}")


def _seconds(run: Callable[[], object]) -> float:
    started = time.perf_counter()
    run()
    return time.perf_counter() - started


def _write(answers: TextIO, answer: dict[str, Any]) -> None:
    answers.write(json.dumps(answer) + "\n")
    answers.flush()
