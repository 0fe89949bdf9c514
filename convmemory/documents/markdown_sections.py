"""Renders the sections of a Markdown document as safe HTML, each by itself.

Sections end by length, also in the middle of a code block or a table. A section that begins inside one gets its opening
again: the line that opens the code, or the head of the table. All sections of a page share one budget of rendering
work; beyond it, a section stays text. See docs/adr/0071-render-markdown-by-section.md.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from django.utils.safestring import SafeString, mark_safe

from convmemory.conversations.pages.highlighting import MarkedSpan, highlight_markdown, without_markers
from convmemory.conversations.pages.markdown_html import PageWork, TooMuchWork, sanitised_html
from convmemory.documents.converters.plain import end_of_fields
from convmemory.documents.models import Section

MAX_OPENING_CHARS = 2_000

_FENCE = re.compile(r"\A[ \t]*+(`{3,}+|~{3,}+)")
_TABLE_RULE = re.compile(r"\A[ \t]*+\|?[ \t]*+:?-++:?[ \t]*+(?:\|[ \t]*+:?-++:?[ \t]*+)*+\|?[ \t]*+")
_RULE, _FENCE_OF_FIELDS = "---", "~~~"


@dataclass(frozen=True, slots=True)
class LaidOut:
    """A section as HTML. `is_marked` says that its part of the passage is marked."""

    html: SafeString
    is_marked: bool


def lay_out(
    sections: Iterable[Section], *, opening: str = "", passage: MarkedSpan | None = None, target: int | None = None
) -> Iterator[LaidOut | None]:
    """Yield each section in order, with a passage of the document marked; None for a section that stays text.

    `opening` is the opening of the block in which the first section begins. Links lead to the mark in section `target`.
    """
    work = PageWork()
    path: object = None
    for section in sections:
        if path is not None and section.path != path:
            opening = ""  # a heading ends code blocks and tables
        try:
            yield _lay_out_one(section, opening, passage, work, is_target=section.number == target)
        except TooMuchWork:
            yield None
        opening, path = opening_after(section.text, opening), section.path


def opening_of(before: Iterable[str]) -> str:
    """Return the opening of the block in which a section begins, from the texts before it under the same heading."""
    opening = ""
    for text in before:
        opening = opening_after(text, opening)
    return opening


def opening_after(text: str, opening: str = "") -> str:
    """Return the opening of the block at the end of the text: a fence's first line, a table's head, or "".

    The text itself begins within `opening`.
    """
    fence = fence_mark = table = before = ""
    for line in (opening + text).splitlines(keepends=True):
        stripped = line.strip()
        mark = _FENCE.match(line)
        if fence:
            if mark and mark[1].startswith(fence_mark) and not stripped.strip(fence_mark[0]):
                fence = ""
        elif mark:
            fence, fence_mark, table = line.lstrip(), mark[1], ""
        elif not stripped:
            table = ""
        elif not table and "|" in line and "|" in before and _TABLE_RULE.fullmatch(stripped):
            table = before + line
        before = line
    block_opening = fence or table
    return block_opening if block_opening.endswith("\n") and len(block_opening) <= MAX_OPENING_CHARS else ""


def _lay_out_one(
    section: Section, opening: str, passage: MarkedSpan | None, work: PageWork, *, is_target: bool
) -> LaidOut:
    """Render one section. Raises: TooMuchWork."""
    text = _with_fenced_fields(section.text) if section.number == 0 else section.text
    # Code continues until it is closed, a table with a row.
    if not (_FENCE.match(opening) or "|" in text.partition("\n")[0]):
        opening = ""

    def render(shown: str) -> str:
        return sanitised_html(shown, work, has_breaks=False)

    if passage:
        before = len(opening)
        start, end = max(passage.start, section.start), min(passage.end, section.end)
        span = MarkedSpan(start, end).shifted(before - section.start) if start < end else None
    else:
        span = None
    text = without_markers(opening + text)
    marked = highlight_markdown(text, span, render, is_first=is_target) if span else None
    return LaidOut(marked or mark_safe(render(text)), marked is not None)  # noqa: S308 - the sanitiser's output


def _with_fenced_fields(text: str) -> str:
    """Return the beginning of a document with its fields between fences instead of rules: as code, at the same
    offsets.
    """
    end = end_of_fields(text)
    if not end:
        return text
    closes = text.rindex(_RULE, 0, end)
    return f"{_FENCE_OF_FIELDS}{text[len(_RULE) : closes]}{_FENCE_OF_FIELDS}{text[closes + len(_RULE) :]}"
