"""The course of a piece of work through the modules of the repository: which rooms it enters, in which order.

A room is a module with those that it opens for itself, as a table of `docs/architecture.md` names them. It is entered
where another room calls one of its functions. Methods, with what they call in their own module, go with the object that
was handed over and enter no room; what else they call may. Modules that the table does not name enter none either.
"""

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


def rooms_of(heading: str) -> dict[str, str]:
    """The room of each module in the table below a heading of the page, rooms in their order.

    A row's first column names the room, its last one the modules that the room opens, from the room's own folder.
    """
    found: dict[str, str] = {}
    for row in _section(heading).splitlines():
        if row.startswith("| `"):
            first, *_, last = row.strip("| ").split(" | ")
            room = MODULE.findall(first)[0]
            found |= {room: room} | {_absolute(room, name): room for name in MODULE.findall(last)}
    return found


def modules_named_below(heading: str) -> tuple[str, ...]:
    """The modules and folders that the text under a heading names, whatever for."""
    return tuple(MODULE.findall(_section(heading)))


def _section(heading: str) -> str:
    return PAGE.read_text(encoding="utf-8").split(f"## {heading}\n")[1].split("\n## ")[0]


def _absolute(room: str, name: str) -> str:
    return name if name.startswith(TOP_FOLDERS) else f"{room.rsplit('/', 1)[0]}/{name}"


def module_of(frame: FrameType) -> str:
    """The frame's module as a path without its suffix, "" outside of the repository."""
    path = frame.f_code.co_filename
    inside = path.startswith(f"{ROOT}/") and "/.venv/" not in path
    return path.removeprefix(f"{ROOT}/").removesuffix(".py") if inside else ""


def is_method(frame: FrameType) -> bool:
    """Whether it is code of a class, or a function within such code."""
    name = frame.f_code.co_qualname
    return "." in name.split(".<locals>")[0]


class Course:
    """What was called while it was watched: modules by their first call, and rooms as they were entered."""

    def __init__(self, rooms: Mapping[str, str]) -> None:
        self._rooms = rooms
        self._stack: list[tuple[str, str]] = [("", "")]  # of each frame, the room and the module
        self._entered: list[str] = []
        self.modules: dict[str, None] = {}

    @property
    def rooms(self) -> list[str]:
        """Each visit once: calls that follow each other into the same room are one."""
        return [room for room, _ in groupby(self._entered)]

    @property
    def unnamed(self) -> list[str]:
        """The modules that belong to no room, in the order of their first call."""
        return [module for module in self.modules if not self._room_of(module)]

    def watch(self, frame: FrameType, event: str, argument: Any) -> None:
        """A profiler as `sys.setprofile` takes it."""
        if event == "call":
            self._stack.append(self._enter(frame))
        elif event == "return" and len(self._stack) > 1:
            self._stack.pop()

    def _enter(self, frame: FrameType) -> tuple[str, str]:
        here, caller = self._stack[-1]
        module = module_of(frame)
        if not module:
            return here, caller
        self.modules.setdefault(module)
        room = self._room_of(module)
        if not room or room == here or module == caller or is_method(frame):
            return here, module
        self._entered.append(room)
        return room, module

    def _room_of(self, module: str) -> str:
        """That of the module, or of the folder that a table names."""
        while module and module not in self._rooms:
            module = module.rpartition("/")[0]
        return self._rooms.get(module, "")


@contextmanager
def course_through(rooms: Mapping[str, str]) -> Iterator[Course]:
    """Watch what this thread calls."""
    course = Course(rooms)
    sys.setprofile(course.watch)
    try:
        yield course
    finally:
        sys.setprofile(None)


def course_of(work: Callable[[], object], rooms: Mapping[str, str]) -> Course:
    """The course of some work."""
    with course_through(rooms) as course:
        work()
    return course
