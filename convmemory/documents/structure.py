"""Splits a document's text into sections by its structure. Pure.

A converter yields blocks in order: headings, paragraphs, rows. The document's text joins all of them, so that offsets
mean the same everywhere; for Markdown, plain text and code it is the file itself. A section begins at each heading and
on each page. A section longer than `SECTION_CHARS` is split into parts of about equal length, and one of a few words is
joined to the next.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

# Sections of 1,500 characters had a recall of .936 at 5, chunks of 400 tokens that overlap by half .938 (ADR 32).
SECTION_CHARS = 1_750  # at most about 400 tokens
# A shorter section joins the next one on its page, unless that has a higher heading.
TINY_CHARS = 200
HEADING_CHARS = 200
MAX_HEADING_DEPTH = 6


@dataclass(frozen=True, slots=True)
class Block:
    """A span of the text. `level` is a heading's, from 1; `page` counts pages, slides or sheets from 1.

    `title` is the heading for display, if its text differs (`## Plan` in Markdown).
    """

    text: str
    level: int = 0
    page: int | None = None
    title: str = ""


@dataclass(frozen=True, slots=True)
class SectionDraft:
    """A section before it is stored. `path` lists the headings down to its own, `start` counts characters.

    `headings` are those of small sections that were joined to it: where each begins in the text, and its path.
    """

    path: tuple[str, ...]
    page: int | None
    start: int
    text: str
    headings: tuple[tuple[int, tuple[str, ...]], ...] = ()

    @property
    def end(self) -> int:
        return self.start + len(self.text)


@dataclass(slots=True)
class _Open:
    """A section that is still growing, with its blocks."""

    path: tuple[str, ...]
    page: int | None
    start: int
    blocks: list[str]
    length: int = 0
    headings: list[tuple[int, tuple[str, ...]]] = field(default_factory=list)

    @property
    def path_at_end(self) -> tuple[str, ...]:
        return self.headings[-1][1] if self.headings else self.path

    def add(self, text: str) -> None:
        self.blocks.append(text)
        self.length += len(text)


def cut_sections(blocks: Iterable[Block], *, max_chars: int = SECTION_CHARS) -> list[SectionDraft]:
    """Return the sections of a document in order; together they are its whole text.

    Blank ones are merged with a neighbour.
    """
    cut: list[SectionDraft] = []
    for section in _merge_tiny(_by_structure(blocks)):
        # The section whole, or in parts of about equal length, cut at the end of a block, line, sentence or word.
        text = "".join(section.blocks)
        count = -(-len(text) // max_chars)
        start = 0
        while start < len(text):
            rest = len(text) - start
            end = len(text) if rest <= max_chars else _place_to_cut(text, start, -(-rest // max(2, count)), max_chars)
            path = path_at(section.path, section.headings, start)
            headings = tuple((at - start, below) for at, below in section.headings if start < at < end)
            cut.append(SectionDraft(path, section.page, section.start + start, text[start:end], headings))
            start, count = end, count - 1
    return cut


def _by_structure(blocks: Iterable[Block]) -> Iterator[_Open]:
    """Yield a section for each heading and page."""
    above: list[tuple[int, str]] = []
    current: _Open | None = None
    position = 0
    for block in blocks:
        if block.level:
            while above and above[-1][0] >= block.level:
                above.pop()
            above.append((block.level, " ".join((block.title or block.text).split())[:HEADING_CHARS]))
            del above[:-MAX_HEADING_DEPTH]
        if current is None or block.level or block.page != current.page:
            if current is not None:
                yield current
            current = _Open(tuple(title for _, title in above if title), block.page, position, [])
        current.add(block.text)
        position += len(block.text)
    if current is not None:
        yield current


def _merge_tiny(sections: Iterable[_Open]) -> Iterator[_Open]:
    """Merge a section of a few words, for example a heading above another, with the next one."""
    previous: _Open | None = None
    for section in sections:
        if previous is not None and _joins(previous, section):
            if section.path[: len(previous.path)] == previous.path and not previous.headings:
                previous.path = section.path
            elif section.path != previous.path_at_end:
                previous.headings.append((previous.length, section.path))
            for text in section.blocks:
                previous.add(text)
        else:
            if previous is not None:
                yield previous
            previous = section
    if previous is not None:
        yield previous


def _joins(previous: _Open, following: _Open) -> bool:
    is_blank = not any(text.strip() for text in previous.blocks)
    if is_blank or (previous.page == following.page and not any(text.strip() for text in following.blocks)):
        return True
    return (
        previous.page == following.page and previous.length < TINY_CHARS and len(following.path) >= len(previous.path)
    )


def path_at(path: tuple[str, ...], headings: Iterable[tuple[int, Sequence[str]]], offset: int) -> tuple[str, ...]:
    """Return the path of the heading above a character of a section, which begins below `path`."""
    above = [below for at, below in headings if at <= offset]
    return tuple(above[-1]) if above else path


def _place_to_cut(text: str, start: int, target: int, max_chars: int) -> int:
    """Return the best end for a part that begins at `start` and should have about `target` characters."""
    least, most = start + target * 2 // 3, min(start + max_chars, start + target * 4 // 3, len(text))
    for mark in ("\n\n", "\n", ". ", " "):
        before = text.rfind(mark, least, min(start + target, most))
        after = text.find(mark, start + target, most)
        cuts = [at for at in (before, after) if at >= 0]
        if cuts:
            return min(cuts, key=lambda at: abs(at - start - target)) + len(mark)
    return min(start + target, most)
