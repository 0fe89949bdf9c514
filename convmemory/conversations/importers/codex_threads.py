"""The files of a Codex thread, and how much of each is valid.

A rollout is called `rollout-<time>-<thread>.jsonl`, its continuations `rollout-<time>-<thread>_<rollout>.jsonl`, in the
folder of the day of their start. A continuation names the rollout before it and the byte at which that one is cut.
"""

import re
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

from convmemory.conversations.importers.base import FileReport
from convmemory.conversations.importers.lines import read_objects
from convmemory.conversations.importers.values import mapping_of, short_hash, text_of
from convmemory.core.errors import InvalidInput

MAX_LISTED = 200_000
LISTING_S = 60  # the lifetime of a cached listing of the folders

_UUID = r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
_NAME = re.compile(rf"(?:^|[-_])({_UUID})(?:_({_UUID}))?\.jsonl(?:\.zst)?$", re.IGNORECASE)
_DAY = re.compile(r"\d{2}|\d{4}")


@dataclass(frozen=True, slots=True)
class Page:
    """One file of a thread. `counts_until` is the byte at which it is cut, None if all of it is valid."""

    path: Path
    thread_id: str
    rollout_id: str
    is_paginated: bool = False
    base_rollout: str = ""
    base_until: int | None = None
    counts_until: int | None = None
    is_nameless: bool = False  # neither the file nor its name has an id

    @property
    def name(self) -> str:
        return self.path.name


def thread_of(path: Path) -> Page:
    """Return the page for a file, from its name and its first record. Raises: InvalidInput."""
    record = next(read_objects(path), None)
    value = {} if record is None else record.value
    if value.get("type") == "session_meta":
        meta = mapping_of(value.get("payload"))
    else:
        meta = value if "instructions" in value else {}
    named = _NAME.search(path.name)
    named_id = text_of(meta.get("id")) or text_of(meta.get("session_id")) or (named[1] if named else "")
    own_id = named_id
    if not own_id:
        # An id for a file without one: a hash of its first record, so that a copy is the same thread.
        first = next((item.raw for item in read_objects(path)), b"")
        own_id = f"{path.name.partition('.')[0]}:{short_hash(first.decode('utf-8', 'replace'))}"
    thread, rollout = (named[1], named[2] or named[1]) if named else (own_id, own_id)
    base = mapping_of(meta.get("history_base"))
    is_continuation = bool(named and named[2])
    end = base.get("end_byte_offset")
    return Page(
        path=path,
        thread_id=thread if is_continuation else own_id,
        rollout_id=rollout if is_continuation else own_id,
        is_paginated=meta.get("history_mode") == "paginated",
        base_rollout=text_of(base.get("thread_id")),
        base_until=end if type(end) is int and end >= 0 else None,
        is_nameless=not named_id,
    )


def pages_of(page: Page, report: FileReport) -> list[tuple[Page, bool]]:
    """Return the files of the page's thread, oldest first, and whether each belongs to the newest one's chain.

    Only a paginated thread has several. Missing and circular files are reported.
    """
    if not page.is_paginated:
        return [(page, True)]
    by_rollout = {page.rollout_id: page}
    for path in _rollouts_near(page.path):
        if _rollout_of(path)[0] == page.thread_id and path != page.path:
            other = thread_of(path)
            if other.thread_id == page.thread_id and not (
                other.rollout_id in by_rollout and path.name.endswith(".zst")
            ):
                by_rollout[other.rollout_id] = other
    pages = sorted(by_rollout.values(), key=lambda other: other.name)
    # The newest page and its predecessors, by rollout, each cut where the next one says.
    at = pages[-1]
    chain = {at.rollout_id: at}
    while at.base_rollout:
        before = by_rollout.get(at.base_rollout)
        if at.base_rollout in chain:
            report.repair(at.name, "the thread's files continue one another in a circle: cut open")
        elif before is None and at.rollout_id != at.thread_id:
            report.repair(at.name, f"the file before it, of rollout {at.base_rollout[:60]}, is missing: import it, too")
        if before is None or at.base_rollout in chain:
            break  # a fork begins a conversation of its own
        chain[before.rollout_id] = replace(before, counts_until=at.base_until)
        at = before
    return [(chain.get(other.rollout_id, other), other.rollout_id in chain) for other in pages]


def find_thread(near: Path, thread_id: str) -> Path | None:
    """Return the first file of another thread; the plain one if a compressed one exists too."""
    paths = [path for path in _rollouts_near(near) if _rollout_of(path) == (thread_id, thread_id)]
    return min(paths, key=lambda path: path.name.endswith(".zst"), default=None)


def _rollout_of(path: Path) -> tuple[str, str]:
    named = _NAME.search(path.name)
    return (named[1], named[2] or named[1]) if named else ("", "")


def _rollouts_near(path: Path) -> tuple[Path, ...]:
    """Return the rollouts in the same folder, or for the folder of a day, in the folders of all days."""
    root = path.parent
    while _DAY.fullmatch(root.name) and root.parent != root:
        root = root.parent
    return _listing(root, int(time.monotonic() // LISTING_S))


@lru_cache(maxsize=8)
def _listing(root: Path, minute: int) -> tuple[Path, ...]:
    return tuple(path for path, _ in zip(_rollouts(root, 0), range(MAX_LISTED), strict=False))


def _rollouts(folder: Path, depth: int) -> Iterator[Path]:
    try:
        entries = sorted(folder.iterdir())
    except OSError as error:
        raise InvalidInput(f"{folder.name} cannot be read: {error.strerror or error}.") from error
    for entry in entries:
        # Folders of year, month and day.
        if depth < 3 and _DAY.fullmatch(entry.name) and entry.is_dir():
            yield from _rollouts(entry, depth + 1)
        elif _NAME.search(entry.name):
            yield entry
