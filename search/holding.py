"""Blocks of owners' data that this process has read from the database and keeps in memory.

A block is never changed but replaced by one with another id. So a process compares a digest of the ids and reads only
new blocks; nothing in memory can be outdated.
"""

import time
from collections import OrderedDict
from dataclasses import dataclass, field
from threading import Lock
from typing import Generic, Protocol, TypeVar

HELD_S = 3_600.0  # after the last search of an owner

Digest = tuple[int, int]
"""How many blocks there are, and their ids hashed and combined by exclusive or."""
NO_BLOCKS: Digest = (0, 0)


class Held(Protocol):
    """What was made of an owner's blocks."""

    @property
    def digest(self) -> Digest:
        """Of the blocks that it was made of."""

    @property
    def size(self) -> int:
        """Bytes."""


V = TypeVar("V", bound=Held)


@dataclass(slots=True)
class _Entry(Generic[V]):
    value: V
    searched_at: float = field(default_factory=time.monotonic)


class Holder(Generic[V]):
    """What is held of the owners that were searched last, shared by the threads of a process.

    An owner may have several sets of blocks, told apart by a number: an embedding space's, for example.
    """

    def __init__(self, max_bytes: int) -> None:
        """`max_bytes` counts all owners together; the owner searched last is held whatever the size."""
        self.max_bytes = max_bytes
        self._held: OrderedDict[tuple[int, int], _Entry[V]] = OrderedDict()
        self._lock = Lock()

    def get(self, owner_id: int, which: int) -> V | None:
        with self._lock:
            entry = self._held.get((owner_id, which))
            if entry is None:
                return None
            entry.searched_at = time.monotonic()
            self._held.move_to_end((owner_id, which))
            self._make_room()
            return entry.value

    def put(self, owner_id: int, which: int, value: V) -> None:
        """Hold this; what was searched longest ago makes room, and what was not for `HELD_S` goes."""
        with self._lock:
            self._held[owner_id, which] = _Entry(value)
            self._held.move_to_end((owner_id, which))
            self._make_room()

    def drop(self, owner_id: int, which: int) -> None:
        with self._lock:
            self._held.pop((owner_id, which), None)

    def _make_room(self) -> None:
        while len(self._held) > 1 and self._is_too_much():
            self._held.popitem(last=False)

    def _is_too_much(self) -> bool:
        oldest = next(iter(self._held.values()))
        return (
            time.monotonic() - oldest.searched_at > HELD_S
            or sum(entry.value.size for entry in self._held.values()) > self.max_bytes
        )
