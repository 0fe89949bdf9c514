"""A bounded cache in the memory of one process whose entries belong to owners.

No owner finds another's entries, and no entry is evicted in favour of an owner who has more entries.
"""

from collections import OrderedDict
from collections.abc import Callable, Hashable
from threading import Lock
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class OwnerCache(Generic[K, V]):
    """The most recently used values, by owner and key. Thread-safe."""

    def __init__(self, *, per_owner: int, total: int) -> None:
        """Limit the entries to `per_owner` of one owner and `total` of all."""
        self._per_owner, self._total = per_owner, total
        self._lock = Lock()
        self._owners: OrderedDict[int, OrderedDict[K, V]] = OrderedDict()  # both in order of last use

    def get_or_make(self, owner_id: int, key: K, make: Callable[[], V]) -> V:
        """Return the owner's value for `key`, computed if missing; an exception of `make` is not cached."""
        with self._lock:
            entries = self._owners.get(owner_id)
            if entries is not None and key in entries:
                self._owners.move_to_end(owner_id)
                entries.move_to_end(key)
                return entries[key]
        value = make()  # outside the lock, so that other owners need not wait for slow values
        with self._lock:
            entries = self._owners.setdefault(owner_id, OrderedDict())
            entries[key] = value
            entries.move_to_end(key)
            self._owners.move_to_end(owner_id)
            self._evict(entries)
        return value

    def clear(self) -> None:
        with self._lock:
            self._owners.clear()

    def _evict(self, entries: OrderedDict[K, V]) -> None:
        while len(entries) > self._per_owner:
            entries.popitem(last=False)
        while sum(map(len, self._owners.values())) > self._total:
            owner_id, largest = max(self._owners.items(), key=lambda item: len(item[1]))
            largest.popitem(last=False)
            if not largest:
                del self._owners[owner_id]
