"""The changes that a tool call makes to a file, as removed and added lines. Takes parameters, returns plain values.

`messages/edits.py` recognises the edits. Lines that both texts share at the start and the end are omitted except for a
few; nothing else is compared, so the work is linear in the length of the texts.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import Any, Literal

from convmemory.conversations.messages.edits import content_in, patch_in, path_in, replacements_in
from convmemory.conversations.messages.file_versions import aligned

LineKind = Literal["added", "removed", "same", "heading"]

CONTEXT_LINES = 3
_HEADINGS = ("*** ", "diff --git ", "--- ", "+++ ", "@@", "index ")
MARKED_LINES, MIN_MARKED_CHARS = 20, 4
_NO_NEW_LINE = "\\ No newline at end of file"


@dataclass(frozen=True, slots=True)
class DiffLine:
    """One line, without its leading sign. `mark` says that a passage is in it: in this line first, or in it too."""

    kind: LineKind
    text: str
    mark: Literal["", "first", "next"] = ""

    @property
    def sign(self) -> str:
        return {"added": "+", "removed": "-", "same": " ", "heading": ""}[self.kind]


@dataclass(frozen=True, slots=True)
class Diff:
    """The changes that a call makes to the file at `path`, which is empty if the lines name their files."""

    path: str
    lines: tuple[DiffLine, ...]

    @property
    def added(self) -> int:
        return sum(line.kind == "added" for line in self.lines)

    @property
    def removed(self) -> int:
        return sum(line.kind == "removed" for line in self.lines)

    def marking(self, passage: str) -> "Diff | None":
        """Return the changes with the lines marked that a passage of the call says; None if there is no such line."""
        marked = [line for text in passage.splitlines() if len(line := text.strip()) >= MIN_MARKED_CHARS][:MARKED_LINES]
        lines = list(self.lines)
        numbers = [
            number
            for number, line in enumerate(lines)
            if len(text := line.text.strip()) >= MIN_MARKED_CHARS
            and any(each in text or text in each for each in marked)
        ]
        for number in numbers:
            lines[number] = replace(lines[number], mark="first" if number == numbers[0] else "next")
        return Diff(self.path, tuple(lines)) if numbers else None

    def cut(self, max_chars: int) -> tuple["Diff", int]:
        """Return the first `max_chars` characters, with the last line cut if necessary; and how many were left out."""
        kept: list[DiffLine] = []
        room = max_chars
        for line in self.lines:
            if room <= 0:
                break
            kept.append(replace(line, text=line.text[:room]))
            room -= len(line.text) + 1
        left_out = sum(len(line.text) for line in self.lines) - sum(len(line.text) for line in kept)
        return Diff(self.path, tuple(kept)), left_out


def diff_of(tool: str, parameters: Mapping[str, Any]) -> Diff | None:
    """Return the changes that the call makes; None if it does not edit a file."""
    path = path_in(parameters)
    lines: list[DiffLine] = []
    replaced = list(replacements_in(parameters))
    if not replaced and (patch := patch_in(parameters)):
        for line in patch.splitlines():
            if line.startswith(_HEADINGS):
                lines.append(DiffLine("heading", line))
            elif line.startswith("+"):
                lines.append(DiffLine("added", line[1:]))
            elif line.startswith("-"):
                lines.append(DiffLine("removed", line[1:]))
            elif line != _NO_NEW_LINE:
                lines.append(DiffLine("same", line.removeprefix(" ")))
    lines = lines or [line for each in replaced for line in compare(each.removed, each.added)]
    if not lines and path:
        lines = [DiffLine("added", line) for line in content_in(tool, parameters).splitlines()]
    return Diff(path, tuple(lines)) if lines else None


def compare(old: str, new: str) -> Iterator[DiffLine]:
    """Yield the lines that differ, with some of the shared lines before and after them."""
    before, after = old.splitlines(), new.splitlines()
    head = _shared(before, after)
    tail = _shared(before[head:][::-1], after[head:][::-1])
    yield from _same(before[max(0, head - CONTEXT_LINES) : head])
    yield from (DiffLine("removed", line) for line in before[head : len(before) - tail])
    yield from (DiffLine("added", line) for line in after[head : len(after) - tail])
    yield from _same(before[len(before) - tail :][:CONTEXT_LINES])


def difference(before: Sequence[str | None], after: Sequence[str | None]) -> Iterator[DiffLine]:
    """Yield the lines that differ between two versions of a file, with some around them. None is a gap."""
    old, new = (["…" if text is None else text for text in texts] for texts in (before, after))
    lines: list[DiffLine] = []
    added: list[DiffLine] = []
    start = 0
    for text, match in [*zip(new, aligned(old, new), strict=True), (None, len(old))]:
        if match is None:
            added.append(DiffLine("added", text or ""))
            continue
        lines += [*(DiffLine("removed", each) for each in old[start:match]), *added]
        lines += [] if text is None else [DiffLine("same", text)]
        added, start = [], match + 1
    changed = [number for number, line in enumerate(lines) if line.kind != "same"]
    near = {at for number in changed for at in range(number - CONTEXT_LINES, number + CONTEXT_LINES + 1)}
    last = -1
    for number in sorted(near & set(range(len(lines)))):
        if number > last + 1:
            yield DiffLine("heading", "…")
        yield lines[number]
        last = number


def _shared(one: Sequence[str], other: Sequence[str]) -> int:
    """Return the number of equal lines at the beginning of both."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))


def _same(lines: Iterable[str]) -> Iterator[DiffLine]:
    return (DiffLine("same", line) for line in lines)
