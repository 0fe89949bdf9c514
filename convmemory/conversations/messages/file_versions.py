"""The versions of a file as edits wrote them, and which edit wrote each line. Pure.

Edits say the text that they remove and add, seldom the whole file: a version is its known lines with gaps between them.
An edit whose removed text differs from the known lines says that the file was changed in between, outside of the edits.
Takes n log n for n lines and edits of a file that is known, and as often as there are edits.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from typing import NamedTuple

from convmemory.conversations.messages.edits import Edit, Replacement

MIN_ANCHOR_CHARS = 4


class Line(NamedTuple):
    """A line with the number of the version that wrote it; None for one that no edit wrote. A gap has no text."""

    text: str | None
    version: int | None = None


GAP = Line(None)


@dataclass(slots=True)
class Version:
    """The file after some edits. `is_whole` says that all lines are known."""

    number: int
    lines: list[Line]
    was_changed_outside: bool = False
    is_deleted: bool = False

    @property
    def is_whole(self) -> bool:
        return GAP not in self.lines


@dataclass(slots=True)
class _File:
    lines: list[Line] = field(default_factory=lambda: [GAP])
    was_changed_outside: bool = False

    def apply(self, edit: Edit, version: int) -> None:
        if edit.is_deleted:
            self.lines = []
        elif edit.content is not None:
            self.lines = carried(self.lines, edit.content.split("\n"), version)
        elif not edit.replaced:
            self.lines = [GAP]
        for replacement in edit.replaced:
            self._replace(replacement, version)

    def _replace(self, replacement: Replacement, version: int) -> None:
        removed, added, is_everywhere = replacement.removed, replacement.added, replacement.is_everywhere
        if not removed:
            self.lines = [*self.lines, *(Line(text, version) for text in added.split("\n"))]
            return
        is_replaced = False
        for start, end in reversed(_runs(self.lines)):
            run = self.lines[start:end]
            text = "\n".join(line.text or "" for line in run)
            if removed in text and (is_everywhere or not is_replaced):
                changed = text.replace(removed, added, -1 if is_everywhere else 1)
                self.lines[start:end] = carried(run, changed.split("\n"), version)
                is_replaced = True
        if is_replaced:
            return
        old = removed.split("\n")
        start, end = self._region(old)
        region = self.lines[start:end]
        there = carried(region, old, None)
        kept = sum(match is not None for match in aligned([line.text for line in region], old))
        is_unknown = not region and GAP not in self.lines
        self.was_changed_outside |= bool(self.lines) and (is_unknown or kept < len(region))
        written = carried(there, added.split("\n"), version)
        if region:
            self.lines[start:end] = written
        else:
            self.lines = [*self.lines, *([] if self.lines[-1:] == [GAP] else [GAP]), *written, GAP]

    def _region(self, old: Sequence[str]) -> tuple[int, int]:
        """Return the known lines that the old ones overlap, by lines that occur once; an empty region without any."""
        counts = Counter(line.text for line in self.lines)
        places = {line.text: number for number, line in enumerate(self.lines) if counts[line.text] == 1}
        anchors = [
            (number, places[text])
            for number, text in enumerate(old)
            if len(text.strip()) >= MIN_ANCHOR_CHARS and text in places
        ]
        if not anchors:
            return len(self.lines), len(self.lines)
        first, last = anchors[0], anchors[-1]
        run = next((start, end) for start, end in _runs(self.lines) if start <= first[1] < end)
        start, end = max(run[0], first[1] - first[0]), min(run[1], last[1] + len(old) - last[0])
        return (start, end) if first[1] <= last[1] < run[1] else (first[1], first[1] + 1)


def versions_of(edits: Iterable[tuple[int, Edit]]) -> list[Version]:
    """Return the versions that edits wrote, in their order: each edit comes with the number of its version."""
    file, versions = _File(), list[Version]()
    for number, edit in edits:
        if not versions or versions[-1].number != number:
            file.was_changed_outside = False
            versions.append(Version(number, []))
        file.apply(edit, number)
        versions[-1] = Version(number, list(file.lines), file.was_changed_outside, edit.is_deleted)
    return versions


def carried(before: Sequence[Line], after: Sequence[str], version: int | None) -> list[Line]:
    """Return the lines, each from before if it was there, else of this version."""
    matches = aligned([line.text for line in before], after)
    return [Line(text, version) if match is None else before[match] for text, match in zip(after, matches, strict=True)]


def aligned(before: Sequence[str | None], after: Sequence[str]) -> list[int | None]:
    """Return for each line after a change which line before it is, if any.

    Lines shared at both ends are the same, then the longest series of lines that occur once in both, and their equal
    neighbours. Source: patience diff.
    """
    head = _shared(before, after)
    tail = min(_shared(before[::-1], after[::-1]), len(before) - head, len(after) - head)
    matches: list[int | None] = [*range(head), *[None] * (len(after) - head - tail)]
    matches += range(len(before) - tail, len(before))
    old_end, new_end = len(before) - tail, len(after) - tail
    old_counts, new_counts = Counter(before[head:old_end]), Counter(after[head:new_end])
    places = {text: number for number, text in enumerate(before[head:old_end], head) if old_counts[text] == 1}
    pairs = [(places[text], number) for number, text in enumerate(after[head:new_end], head)
             if new_counts[text] == 1 and text in places]  # fmt: skip
    for old, new in _rising(pairs):
        matches[new] = old
    for new in range(head, new_end):
        above = matches[new - 1] if new else None
        if matches[new] is None and above is not None and above + 1 < old_end and before[above + 1] == after[new]:
            matches[new] = above + 1
    for new in range(new_end - 1, head - 1, -1):
        below = matches[new + 1] if new + 1 < len(matches) else None
        if matches[new] is None and below is not None and below > head and before[below - 1] == after[new]:
            matches[new] = below - 1
    # No line before is the same as two lines after, or out of order.
    last = -1
    for number, match in enumerate(matches):
        if match is not None and match <= last:
            matches[number] = None
        elif match is not None:
            last = match
    return matches


def _rising(pairs: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the longest series of pairs whose first values rise; the second ones do."""
    tops: list[int] = []
    ends: list[int] = []
    previous: list[int] = []
    for number, (old, _) in enumerate(pairs):
        length = bisect_left(tops, old)
        tops[length : length + 1] = [old]
        ends[length : length + 1] = [number]
        previous.append(ends[length - 1] if length else -1)
    series: list[tuple[int, int]] = []
    number = ends[-1] if ends else -1
    while number >= 0:
        series.append(pairs[number])
        number = previous[number]
    return series[::-1]


def _shared(one: Sequence[str | None], other: Sequence[str | None]) -> int:
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))


def _runs(lines: Sequence[Line]) -> list[tuple[int, int]]:
    """Return the beginnings and ends of the known lines between gaps."""
    runs, start = [], 0
    for number, line in enumerate([*lines, GAP]):
        if line.text is None:
            if number > start:
                runs.append((start, number))
            start = number + 1
    return runs
