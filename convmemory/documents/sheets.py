"""Lays out pages of a PDF for the viewer: the picture, its text over it, and the passage marked. Pure.

The words of a picture and the text of a section come from the same page but differ in spacing and hyphenation, so they
are compared without white space and hyphens.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

Word = tuple[str, int, int, int, int]
"""The text, and its left, top, right and bottom edge in pixels."""

# The baseline of the letters, as a share of a line's height.
BASELINE = 0.8


@dataclass(frozen=True, slots=True)
class SheetLine:
    """A line of text in pixels.

    `x` and `y` locate its start and its baseline, `size` is its height, `width` its width.
    """

    text: str
    x: int
    y: int
    size: int
    width: int


@dataclass(frozen=True, slots=True)
class Mark:
    """The marked part of a line, in pixels."""

    x: int
    y: int
    width: int
    height: int


def text_lines(lines: Sequence[Sequence[Word]]) -> list[SheetLine]:
    """Return the lines, each as one text that can be selected over the picture."""
    shown = []
    for line in lines:
        left, top, right, bottom = _box(line)
        text = " ".join(word[0] for word in line)
        shown.append(SheetLine(text, left, round(top + (bottom - top) * BASELINE), bottom - top, right - left))
    return shown


def marks_of(lines: Sequence[Sequence[Word]], *, passage: str, before: str) -> list[Mark]:
    """Return the marks of the passage.

    If it occurs more than once, the occurrence nearest to the end of the text `before` is marked.
    """
    words = [word for line in lines for word in line]
    squeezed_words = [squeezed(word[0]) for word in words]
    text, squeezed_passage = "".join(squeezed_words), squeezed(passage)
    start = _nearest(text, squeezed_passage, len(squeezed(before))) if squeezed_passage else -1
    if start < 0:
        return []
    ends = list(accumulate(map(len, squeezed_words)))
    chosen = {
        index
        for index, (end, squeezed_word) in enumerate(zip(ends, squeezed_words, strict=True))
        if squeezed_word and end > start and end - len(squeezed_word) < start + len(squeezed_passage)
    }
    marks, number = [], 0
    for line in lines:
        marked = [word for index, word in enumerate(line, number) if index in chosen]
        number += len(line)
        if marked:
            left, top, right, bottom = _box(marked)
            marks.append(Mark(left, top, right - left, bottom - top))
    return marks


def _box(words: Sequence[Word]) -> tuple[int, int, int, int]:
    return min(w[1] for w in words), min(w[2] for w in words), max(w[3] for w in words), max(w[4] for w in words)


def _nearest(text: str, passage: str, expected: int) -> int:
    """Return the occurrence of `passage` in `text` nearest to `expected`; -1 if there is none."""
    before = text.rfind(passage, 0, expected + len(passage))
    after = text.find(passage, expected)
    starts = [start for start in (before, after) if start >= 0]
    return min(starts, key=lambda start: abs(start - expected), default=-1)


def squeezed(text: str) -> str:
    """Return `text` without white space, hyphens and invisible characters."""
    return "".join(char for char in text if char.isprintable() and not char.isspace() and char != "-")
