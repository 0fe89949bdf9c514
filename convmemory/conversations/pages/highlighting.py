"""Marks a passage in the HTML of a message part. Takes text, returns safe HTML.

A passage is given as character positions in the source text of the part. In Markdown, two characters that no text may
use (Unicode noncharacters) are put at its ends before rendering and become `<mark>` after sanitising. The result is
used only if it is otherwise identical to the page without them, so they can neither break nor inject anything.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from html import escape

from django.utils.safestring import SafeString, mark_safe

from convmemory.core.text import Span

_START, _END = "\ufdd0", "\ufdd1"
_MARKER = re.compile(f"([{_START}{_END}])")
_TAG = re.compile(r'(<(?:[^"<>]++|"[^"]*+")*+>)')
_CHARACTER = re.compile(r"&(?:#\w+|\w+);|[\s\S]")
_WORD = re.compile(r"([^\W_]+)")
_TRIES = 8  # words or lines at either end to leave out before marking the whole part instead
_FIRST_MARK = '<mark class="passage" id="passage" tabindex="-1">'
_NEXT_MARK = '<mark class="passage">'


@dataclass(frozen=True, slots=True)
class MarkedSpan:
    """From `start` up to `end`, in characters of a text."""

    start: int
    end: int

    def shifted(self, by: int) -> "MarkedSpan":
        return MarkedSpan(max(0, self.start + by), max(0, self.end + by))

    def within(self, text: str) -> "MarkedSpan | None":
        """Return the part of the span that lies in `text`, without surrounding white space; None if nothing does."""
        piece = text[self.start : self.end]
        start = self.start + len(piece) - len(piece.lstrip())
        end = self.start + len(piece.rstrip())
        return MarkedSpan(start, end) if start < end else None


@dataclass(frozen=True, slots=True)
class MarkedPassage:
    """A span of one part of one message."""

    message_id: int
    part_index: int
    span: MarkedSpan


def without_markers(text: str) -> str:
    """Return `text` with the two characters that mark a passage replaced, one for one."""
    return _MARKER.sub("\ufffd", text)


def highlight_text(text: str, span: MarkedSpan, *, is_first: bool = True) -> SafeString | None:
    """Return plain `text` as HTML with the span marked; None if it lies outside."""
    inside = span.within(text)
    if inside is None:
        return None
    before, marked, after = text[: inside.start], text[inside.start : inside.end], text[inside.end :]
    mark = _FIRST_MARK if is_first else _NEXT_MARK
    return mark_safe(f"{escape(before)}{mark}{escape(marked)}</mark>{escape(after)}")  # noqa: S308 - escaped


def highlight_markdown(
    text: str, span: MarkedSpan, render: Callable[[str], str], *, is_first: bool = True
) -> SafeString | None:
    """Return Markdown as HTML with the span marked; None if its ends cannot be located in the output of `render`.

    `render` sanitises, and leaves the marker characters in place in text. Links lead to the first mark of a page.
    """
    text = without_markers(text)
    inside = span.within(text)
    if inside is None:
        return None
    plain = render(text)
    for start in _starts(text, inside):
        if _is_same(render(text[:start] + _START + text[start:]), plain, _START):
            break
    else:
        return None
    for end in _ends(text, MarkedSpan(start, inside.end)):
        html = render(text[:start] + _START + text[start:end] + _END + text[end:])
        if _is_same(html, plain, _START + _END):
            return mark_safe(_wrap(html, is_first=is_first))  # noqa: S308 - sanitised, and only fixed tags are put in
    return None


def _starts(text: str, span: MarkedSpan) -> Iterator[int]:
    """Yield the span's start, then those of its first words and lines: a list's or heading's sign may precede them."""
    yield span.start
    places = {start for start, _ in _pieces(text, span)}
    yield from sorted(places - {span.start})[:_TRIES]


def _ends(text: str, span: MarkedSpan) -> Iterator[int]:
    yield span.end
    places = {end for _, end in _pieces(text, span)}
    yield from sorted(places - {span.end}, reverse=True)[:_TRIES]


def _pieces(text: str, span: MarkedSpan) -> Iterator[Span]:
    """Yield the start and end of the span's words and lines, without surrounding white space."""
    yield from (match.span() for match in _WORD.finditer(text, span.start, span.end))
    at = span.start
    for line in text[span.start : span.end].split("\n"):
        stripped = line.strip()
        if stripped:
            start = at + len(line) - len(line.lstrip())
            yield start, start + len(stripped)
        at += len(line) + 1


def _is_same(html: str, plain: str, markers: str) -> bool:
    """Return whether `html` differs from `plain` only by the markers, which occur once each, in order, in text."""
    return "".join(_MARKER.findall(_TAG.sub("", html))) == markers and _MARKER.sub("", html) == plain


def _wrap(html: str, *, is_first: bool) -> str:
    """Wrap every stretch of text between the markers in its own `mark` element, so that elements stay well nested."""
    pieces: list[str] = []
    mark, is_inside, in_code = _FIRST_MARK if is_first else _NEXT_MARK, False, False
    for piece in _TAG.split(html):
        if piece.startswith("<"):
            in_code = piece == "<pre>" or (in_code and piece != "</pre>")
            pieces.append(piece)
            continue
        for run in _MARKER.split(piece):
            if run in (_START, _END):
                is_inside = run == _START
            # Line breaks between elements are not text, except in code.
            elif is_inside and run and (in_code or run.strip() or "\n" not in run):
                pieces += [mark, run, "</mark>"]
                mark = _NEXT_MARK
            else:
                pieces.append(run)
    return "".join(pieces)


def around_markers(text: str, render: Callable[[str], str]) -> str:
    """Return `render(text)` of the text without markers, with the markers inserted at the same characters."""
    if not _MARKER.search(text):
        return render(text)
    plain, places = "", []
    for run in _MARKER.split(text):
        if run in (_START, _END):
            places.append((len(plain), run))
        else:
            plain += run
    # Insert a start right before its character, an end right after the one before it.
    html = render(plain)
    pieces, count, waiting = [], 0, list(places)
    for piece in _TAG.split(html):
        if piece.startswith("<"):
            pieces.append(piece)
            continue
        for match in _CHARACTER.finditer(piece):
            while waiting and waiting[0] == (count, _START):
                pieces.append(waiting.pop(0)[1])
            pieces.append(match.group())
            count += 1
            while waiting and waiting[0] == (count, _END):
                pieces.append(waiting.pop(0)[1])
    return "".join(pieces)


def unmarked(text: str) -> str:
    """Return `text` without markers, for attributes."""
    return _MARKER.sub("", text)
