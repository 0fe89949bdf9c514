"""Finds lines of a Claude Code session that a rewind superseded, after which the thread continued from an earlier line.

Each line names the one before it. A rewind is a prompt that follows the same message as an older prompt that was
answered: everything after the older prompt is superseded, unless the session was last written there.
"""

from collections import defaultdict
from dataclasses import dataclass, field
from enum import IntEnum

NOTHING = -1


class Kind(IntEnum):
    """The kind of a line in a thread."""

    BESIDE = 0  # no message, or a message of the harness
    PROMPT = 1
    ANSWER = 2
    OTHER = 3  # a tool's result


@dataclass(slots=True)
class RewindTracker:
    """Receives the lines of a session in order; stores only numbers, about 150 bytes per line."""

    _places: dict[int, int] = field(default_factory=dict)  # a line's number by the hash of its uuid
    _uuids: list[int] = field(default_factory=list)
    _parents: list[int] = field(default_factory=list)  # numbers of earlier lines
    _kinds: bytearray = field(default_factory=bytearray)

    def line(self, uuid: str, parent: str, kind: Kind) -> None:
        """Record a line; a line without a uuid, or one that occurs again, is ignored."""
        name = hash(uuid)
        if not uuid or name in self._places:
            return
        self._places[name] = len(self._uuids)
        self._uuids.append(name)
        self._parents.append(self._places.get(hash(parent), NOTHING) if parent else NOTHING)
        self._kinds.append(kind)
        if self._parents[-1] == self._places[name]:
            self._parents[-1] = NOTHING

    def superseded(self) -> frozenset[int]:
        """Return the hashes of the uuids of superseded lines."""
        gone = bytearray(len(self._uuids))
        for prompt in self._taken_back():
            gone[prompt] = 1
        for number, parent in enumerate(self._parents):
            if parent != NOTHING and gone[parent]:
                gone[number] = 1
        return frozenset(self._uuids[number] for number, is_gone in enumerate(gone) if is_gone)

    def _taken_back(self) -> list[int]:
        """Return the prompts that another prompt replaced."""
        last, answered = self._reach()
        found: list[int] = []
        for prompts in self._rivals():
            kept = max(prompts, key=last.__getitem__)
            found += [prompt for prompt in prompts if prompt != kept and answered[prompt]]
        return found

    def _rivals(self) -> list[list[int]]:
        """Return the groups of prompts that follow the same message."""
        before: list[int] = []  # the nearest message above each line
        behind: defaultdict[int, list[int]] = defaultdict(list)
        for number, parent in enumerate(self._parents):
            is_beside = parent != NOTHING and self._kinds[parent] == Kind.BESIDE
            before.append(before[parent] if is_beside else parent)
            if self._kinds[number] == Kind.PROMPT and before[number] != NOTHING:
                behind[before[number]].append(number)
        return [prompts for prompts in behind.values() if len(prompts) > 1]

    def _reach(self) -> tuple[list[int], bytearray]:
        """Return for each line the last one that descends from it, and whether an answer does."""
        last = list(range(len(self._parents)))
        answered = bytearray(len(self._parents))
        # Parents precede their children, so that one backward pass is enough.
        for number in range(len(self._parents) - 1, -1, -1):
            if self._kinds[number] == Kind.ANSWER:
                answered[number] = 1
            parent = self._parents[number]
            if parent != NOTHING:
                last[parent] = max(last[parent], last[number])
                answered[parent] |= answered[number]
        return last, answered
