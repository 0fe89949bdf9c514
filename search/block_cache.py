"""An in-memory cache of owners' blocks, or other rows, that this process has read from the database.

A block is never changed but replaced by one with another id. So a process compares a digest of the ids and reads only
new blocks; nothing in memory can be outdated.
"""

import time
from collections import OrderedDict
from dataclasses import dataclass, field
from threading import Lock
from typing import Generic, Protocol, TypeVar

EXPIRES_AFTER_S = 3_600.0  # after the last search of an owner

Digest = tuple[int, int]
"""How many blocks there are, and their ids hashed and combined by exclusive or."""
NO_BLOCKS: Digest = (0, 0)


class Cached(Protocol):
    """Data made from an owner's rows."""

    @property
    def size(self) -> int:
        """In bytes."""


V = TypeVar("V", bound=Cached)


@dataclass(slots=True)
class _Entry(Generic[V]):
    value: V
    searched_at: float = field(default_factory=time.monotonic)


class BlockCache(Generic[V]):
    """The data of recently searched owners, shared by the threads of a process.

    An owner may have several sets of blocks, distinguished by a number: an embedding space's id, for example.
    """

    def __init__(self, max_bytes: int) -> None:
        """`max_bytes` limits all owners together; the most recently searched owner stays whatever the size."""
        self.max_bytes = max_bytes
        self._entries: OrderedDict[tuple[int, int], _Entry[V]] = OrderedDict()
        self._lock = Lock()

    def get(self, owner_id: int, which: int) -> V | None:
        with self._lock:
            entry = self._entries.get((owner_id, which))
            if entry is None:
                return None
            entry.searched_at = time.monotonic()
            self._entries.move_to_end((owner_id, which))
            self._evict()
            return entry.value

    def put(self, owner_id: int, which: int, value: V) -> None:
        """Cache the value, and evict owners not searched for longest, or for `EXPIRES_AFTER_S`."""
        with self._lock:
            self._entries[owner_id, which] = _Entry(value)
            self._entries.move_to_end((owner_id, which))
            self._evict()

    def drop(self, owner_id: int, which: int) -> None:
        with self._lock:
            self._entries.pop((owner_id, which), None)

    def _evict(self) -> None:
        while len(self._entries) > 1 and self._is_too_much():
            self._entries.popitem(last=False)

    def _is_too_much(self) -> bool:
        oldest = next(iter(self._entries.values()))
        return (
            time.monotonic() - oldest.searched_at > EXPIRES_AFTER_S
            or sum(entry.value.size for entry in self._entries.values()) > self.max_bytes
        )
