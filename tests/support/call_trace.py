"""Traces a piece of work through the modules of the repository: which steps it takes, in which order.

A step is a module with those that belong to it, as a table of `docs/architecture.md` lists them. It is entered when
another one calls one of its functions; a generator that goes on enters none. Methods, with what they call in their
own module, belong to the object that was passed and enter no step; what else they call may. Neither do modules that
the table does not list.
"""

import inspect
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from itertools import groupby
from pathlib import Path
from types import FrameType
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "architecture.md"
MODULE = re.compile(r"`([a-z_/]+)(?:\.py|/…)`")
TOP_FOLDERS = ("convmemory/", "memory/", "search/", "summaries/")


def steps_of(heading: str) -> dict[str, str]:
    """The step of each module in the table below a heading of the page, in the order of the steps.

    A row's first column names the step, its last one the modules that belong to it, relative to the step's own folder.
    """
    found: dict[str, str] = {}
    for row in _section(heading).splitlines():
        if row.startswith("| `"):
            first, *_, last = row.strip("| ").split(" | ")
            step = MODULE.findall(first)[0]
            found |= {step: step} | {_absolute(step, name): step for name in MODULE.findall(last)}
    return found


def modules_named_below(heading: str) -> tuple[str, ...]:
    """The modules and folders that the text under a heading names, whatever for."""
    return tuple(MODULE.findall(_section(heading)))


def _section(heading: str) -> str:
    return PAGE.read_text(encoding="utf-8").split(f"## {heading}\n")[1].split("\n## ")[0]


def _absolute(step: str, name: str) -> str:
    return name if name.startswith(TOP_FOLDERS) else f"{step.rsplit('/', 1)[0]}/{name}"


def module_of(frame: FrameType) -> str:
    """The frame's module as a path without its suffix, "" outside of the repository."""
    path = frame.f_code.co_filename
    inside = path.startswith(f"{ROOT}/") and "/.venv/" not in path
    return path.removeprefix(f"{ROOT}/").removesuffix(".py") if inside else ""


def is_method(frame: FrameType) -> bool:
    """Return whether it is code of a class, or a function within such code."""
    name = frame.f_code.co_qualname
    return "." in name.split(".<locals>")[0]


class CallTrace:
    """The calls that were watched: modules by their first call, and steps in the order of entry."""

    def __init__(self, steps: Mapping[str, str]) -> None:
        self._steps = steps
        self._stack: list[tuple[str, str]] = [("", "")]  # of each frame, the step and the module
        self._entered: list[str] = []
        self._generators: dict[FrameType, tuple[str, str]] = {}  # step and module of those that have begun
        self.modules: dict[str, None] = {}

    @property
    def steps(self) -> list[str]:
        """Each visit once: consecutive calls into the same step are one."""
        return [step for step, _ in groupby(self._entered)]

    @property
    def unnamed(self) -> list[str]:
        """The modules that belong to no step, in the order of their first call."""
        return [module for module in self.modules if not self._step_of(module)]

    def watch(self, frame: FrameType, event: str, argument: Any) -> None:
        """A profiler as `sys.setprofile` takes it."""
        if event == "call":
            self._stack.append(self._generators.get(frame) or self._enter(frame))
            if frame.f_code.co_flags & inspect.CO_GENERATOR:
                self._generators[frame] = self._stack[-1]
        elif event == "return" and len(self._stack) > 1:
            self._stack.pop()

    def _enter(self, frame: FrameType) -> tuple[str, str]:
        here, caller = self._stack[-1]
        module = module_of(frame)
        if not module:
            return here, caller
        self.modules.setdefault(module)
        step = self._step_of(module)
        if not step or step == here or module == caller or is_method(frame):
            return here, module
        self._entered.append(step)
        return step, module

    def _step_of(self, module: str) -> str:
        """That of the module, or of the folder that a table names."""
        while module and module not in self._steps:
            module = module.rpartition("/")[0]
        return self._steps.get(module, "")


@contextmanager
def trace_through(steps: Mapping[str, str]) -> Iterator[CallTrace]:
    """Watch the calls of this thread."""
    trace = CallTrace(steps)
    sys.setprofile(trace.watch)
    try:
        yield trace
    finally:
        sys.setprofile(None)


def trace_of(work: Callable[[], object], steps: Mapping[str, str]) -> CallTrace:
    """The trace of a piece of work."""
    with trace_through(steps) as trace:
        work()
    return trace
