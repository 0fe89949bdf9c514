"""The systems that the scoreboard compares, and how each is installed, run and measured.

Each has a separate environment from its pinned requirements, never the project's own, and runs as an adapter that
answers JSON lines. An environment is created once, and again if the file names another version. pip uses its configured
index.
"""

import contextlib
import hashlib
import json
import shutil
import subprocess
import sys
import threading
import venv
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import psutil

from benchmarks.runs import ROOT

PEERS = Path(__file__).parent / "peers"
DONE = "installed.sha256"
# txtai brings PyTorch, whose wheels are large.
INSTALL_TIMEOUT_S = 1_800
END_TIMEOUT_S = 60
MEMORY_PERIOD_S = 0.1


@dataclass(frozen=True, slots=True)
class System:
    """One system.

    `adapter` is a module of `benchmarks.peers`; `requirements` a file there, "" for systems that run in our
    environment.
    """

    name: str
    title: str
    adapter: str
    requirements: str = ""
    variant: str = ""

    @property
    def key(self) -> str:
        """Return the inputs of its results other than the set and the commit."""
        pinned = self.requirements_file.read_text(encoding="utf-8") if self.requirements else ""
        return f"{self.adapter} {self.variant} {pinned}"

    @property
    def requirements_file(self) -> Path:
        return PEERS / "requirements" / f"{self.requirements}.txt"


OURS = "convmemory"

SYSTEMS = (
    System(OURS, "convmemory", "convmemory_peer"),
    System("txtai", "txtai (hybrid)", "txtai_peer", "txtai"),
    System("bm25s", "bm25s", "bm25s_peer", "bm25s"),
    System("chroma", "Chroma", "chroma_peer", "chroma"),
    System("pgvector", "pgvector (HNSW)", "pgvector_peer", "postgres"),
    System("pgvector-hybrid", "pgvector (HNSW and full text)", "pgvector_peer", "postgres", "hybrid"),
    System("papers", "the papers' design (IVFFlat)", "papers_peer", "postgres"),
    System("papers-exact", "the papers' design (exact scan)", "papers_peer", "postgres", "exact"),
)


class NotInstalled(Exception):
    """A system cannot be installed on this machine; the message gives the reason."""


def python_of(system: System, folder: Path) -> Path:
    """Return the Python that runs the system's adapter. Raises: NotInstalled."""
    if not system.requirements:
        return Path(sys.executable)
    target = folder / system.requirements
    python = target / "bin" / "python"
    digest = hashlib.sha256(system.requirements_file.read_bytes()).hexdigest()
    done = target / DONE
    if not done.exists() or done.read_text(encoding="utf-8") != digest:
        shutil.rmtree(target, ignore_errors=True)
        venv.create(target, with_pip=True)
        install(python, system.requirements_file)
        done.write_text(digest, encoding="utf-8")
    return python


def install(python: Path, requirements: Path) -> None:
    """Install the requirements. Raises: NotInstalled with pip's output."""
    command = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-r", str(requirements)]
    try:
        completed = subprocess.run(command, capture_output=True, text=True, timeout=INSTALL_TIMEOUT_S, check=False)  # noqa: S603
    except subprocess.TimeoutExpired:
        raise NotInstalled(f"pip did not end within {INSTALL_TIMEOUT_S} s") from None
    if completed.returncode:
        last = [line for line in completed.stderr.splitlines() if line.startswith("ERROR")] or ["pip failed"]
        raise NotInstalled(last[-1].removeprefix("ERROR: "))


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


class PeakMemory:
    """Samples the proportional set sizes of a system's processes on a thread inside its `with` block.

    Memory shared between processes is counted once, which matters for PostgreSQL's buffers. Only Linux tells it;
    elsewhere it is not measured. `watch` adds the process trees of servers.
    """

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
        while not self._ended.wait(MEMORY_PERIOD_S):
            self._peak = max(self._peak, sum(map(tree_bytes, self._roots)))


def tree_bytes(root: int) -> int:
    """Return the memory of a process and all its descendants, without those that have ended or may not be read."""
    total = 0
    with contextlib.suppress(psutil.NoSuchProcess):
        process = psutil.Process(root)
        for one in (process, *process.children(recursive=True)):
            with contextlib.suppress(psutil.Error):
                total += getattr(one.memory_full_info(), "pss", 0)
    return total
