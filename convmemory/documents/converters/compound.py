"""Compound files, in which old programs of Microsoft and Outlook store folders of streams.

Source: [MS-CFB] 9.0. Each chain of sectors is followed at most as far as the file has sectors, and all streams together
may be read once: a small file can name one chain many times.
"""

import struct
from dataclasses import dataclass

from convmemory.documents.converters.base import DAMAGED, Unreadable

SIGNATURE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
ENTRY_BYTES = 128
LAST_SECTOR = 0xFFFFFFFA  # larger numbers end a chain
STREAM = 2


@dataclass(frozen=True, slots=True)
class Entry:
    """A stream or a folder: its name, kind, neighbours in the tree of its folder, first child, place and size."""

    name: str
    kind: int
    left: int
    right: int
    child: int
    start: int
    size: int


class CompoundFile:
    """Reads the folders and streams of a file. Raises: Unreadable."""

    def __init__(self, data: bytes) -> None:
        try:
            shift, mini_shift = struct.unpack_from("<HH", data, 30)
            fat_count, directory, _, self._cutoff, mini_fat, _, difat, _ = struct.unpack_from("<8I", data, 44)
            if not 7 <= shift <= 16 or not 4 <= mini_shift <= shift:
                raise Unreadable("broken", DAMAGED)
            self._data, self._size, self._mini_size = data, 1 << shift, 1 << mini_shift
            self._budget = 2 * len(data)
            self._fat: tuple[int, ...] = ()
            self._fat = self._numbers(self._sectors_of_fat(fat_count, difat))
            entries = self._chain(directory)
            self.entries = [_entry(entries, at) for at in range(0, len(entries) - ENTRY_BYTES + 1, ENTRY_BYTES)]
            self._mini_fat = self._numbers([self._chain(mini_fat)])
            self._mini = self._chain(self.entries[0].start)
        except (struct.error, IndexError) as error:
            raise Unreadable("broken", DAMAGED) from error

    def folder(self, entry: Entry) -> dict[str, Entry]:
        """Return the entries of a folder by name."""
        by_name, waiting, seen = {}, [entry.child], set[int]()
        while waiting:
            number = waiting.pop()
            if number >= len(self.entries) or number in seen:
                continue
            seen.add(number)
            child = self.entries[number]
            by_name[child.name] = child
            waiting += (child.left, child.right)
        return by_name

    def stream(self, entry: Entry) -> bytes:
        """Return the bytes of a stream."""
        if entry.size >= self._cutoff:
            return self._chain(entry.start, entry.size)
        pieces, sector, left = [], entry.start, entry.size
        while left > 0 and sector < len(self._mini_fat):
            pieces.append(self._mini[sector * self._mini_size : (sector + 1) * self._mini_size])
            sector, left = self._mini_fat[sector], left - self._mini_size
        return b"".join(pieces)[: entry.size]

    def _sectors_of_fat(self, count: int, difat: int) -> list[bytes]:
        numbers = list(struct.unpack_from("<109I", self._data, 76))
        for _ in range(len(self._data) // self._size):
            if difat >= LAST_SECTOR:
                break
            *more, difat = struct.unpack(f"<{self._size // 4}I", self._sector(difat))
            numbers += more
        return [self._sector(number) for number in numbers[: min(count, len(self._data) // self._size)]]

    def _numbers(self, sectors: list[bytes]) -> tuple[int, ...]:
        data = b"".join(sectors)
        return struct.unpack(f"<{len(data) // 4}I", data[: len(data) // 4 * 4])

    def _sector(self, number: int) -> bytes:
        start = (number + 1) * self._size
        return self._data[start : start + self._size]

    def _chain(self, sector: int, size: int | None = None) -> bytes:
        pieces = []
        length = 0
        while sector < len(self._fat) and (size is None or length < size):
            pieces.append(self._sector(sector))
            length += self._size
            self._budget -= self._size
            if self._budget < 0:
                raise Unreadable("broken", DAMAGED)
            sector = self._fat[sector]
        return b"".join(pieces)[:size]


def _entry(data: bytes, at: int) -> Entry:
    length, kind = struct.unpack_from("<HB", data, at + 64)
    left, right, child = struct.unpack_from("<III", data, at + 68)
    start, size = struct.unpack_from("<II", data, at + 116)
    name = data[at : at + max(0, min(length, 64) - 2)].decode("utf-16-le", "replace")
    return Entry(name, kind, left, right, child, start, size)
