"""An in-memory cache of blocks, or other rows, that this process has read from the database for some owners.

A block is never changed but replaced by one with another id. A process therefore compares a digest of the ids and reads
only new blocks; the cache cannot be outdated.
"""

import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from threading import Lock
from typing import Generic, Protocol, TypeVar

# Erased rows can outlive their erasure in memory for this long (ADR 10, ADR 44).
EXPIRES_AFTER_S = 3_600.0

Digest = tuple[int, int]
"""The number of blocks, and the exclusive or of their hashed ids."""
NO_BLOCKS: Digest = (0, 0)


class Cached(Protocol):
    """Data made from an owner's rows."""

    @property
    def digest(self) -> Digest:
        """Return the digest of the blocks that it was made from."""

    @property
    def size(self) -> int:
        """Return the size in bytes."""


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
        """Limit the cache to `max_bytes` for all owners; the most recently searched owner stays whatever the size."""
        self.max_bytes = max_bytes
        self._entries: OrderedDict[tuple[int, int], _Entry[V]] = OrderedDict()
        self._lock = Lock()

    def get(self, archive_id: int, which: int) -> V | None:
        with self._lock:
            entry = self._entries.get((archive_id, which))
            if entry is None:
                return None
            entry.searched_at = time.monotonic()
            self._entries.move_to_end((archive_id, which))
            self._evict()
            return entry.value

    def current(self, archive_id: int, which: int, digest: Digest, read: Callable[[V | None], V | None]) -> V | None:
        """Return the data of the blocks with this digest, None if there are none; `read` renews what is cached.

        A renewed entry evicts the owners not searched for longest, or for `EXPIRES_AFTER_S`.
        """
        cached = self.get(archive_id, which)
        if cached is not None and cached.digest == digest:
            return cached
        renewed = None if digest == NO_BLOCKS else read(cached)
        with self._lock:
            self._entries.pop((archive_id, which), None)
            if renewed is not None:
                self._entries[archive_id, which] = _Entry(renewed)
                self._evict()
        return renewed

    def _evict(self) -> None:
        while len(self._entries) > 1 and (
            time.monotonic() - next(iter(self._entries.values())).searched_at > EXPIRES_AFTER_S
            or sum(entry.value.size for entry in self._entries.values()) > self.max_bytes
        ):
            self._entries.popitem(last=False)
