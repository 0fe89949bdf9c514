"""A document as its page shows it: sections or pictures of pages around a position, marks, and the outline."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from django.utils.safestring import SafeString

from convmemory.conversations.pages.highlighting import MarkedSpan
from convmemory.core.folding import folded, pattern_of, places_of_words
from convmemory.core.text import one_line
from convmemory.documents.drawing import Picture, picture_of
from convmemory.documents.markdown_sections import lay_out, opening_of
from convmemory.documents.models import Document, Section
from convmemory.documents.sheets import Mark, SheetLine, marks_of, text_lines

SECTIONS_BEFORE, SECTIONS_SHOWN = 4, 24  # sections on a page
# Sections before a page that are read to find the code block or table in which it begins.
LOOKED_BACK = 40
OUTLINE_SECTIONS = 5_000
OUTLINE_ENTRIES = 400
FOUND_SECTIONS, FOUND_WORDS, FOUND_CHARS = 100, 10, 160

PAGES_BEFORE, PAGES_SHOWN = 1, 6  # pages
MAX_SECTIONS_ON_PAGES = 300

AskForDrawing = Callable[[int], None]
"""Called with a page that has not been drawn yet."""


@dataclass(frozen=True, slots=True)
class Target:
    """The target of the URL: a section or a page, and the characters of the document's text to mark."""

    section: int | None = None
    start: int | None = None
    end: int | None = None
    page: int | None = None


@dataclass(frozen=True, slots=True)
class Piece:
    """A span of text; `is_marked` if it belongs to the passage."""

    text: str
    is_marked: bool = False


@dataclass(frozen=True, slots=True)
class SectionView:
    """A section with its text in pieces, and as HTML if it can be rendered.

    `heading` and `page` are set if they differ from those before; `is_passage` is set if the HTML contains the passage
    without a mark of its own.
    """

    number: int
    heading: str
    page: int | None
    pieces: tuple[Piece, ...]
    is_target: bool
    html: SafeString | None = None
    is_passage: bool = False

    @property
    def has_mark(self) -> bool:
        return any(piece.is_marked for piece in self.pieces)


@dataclass(frozen=True, slots=True)
class DocumentWindow:
    """Sections in order; `earlier` and `later` are where the previous and next pages begin, None at the ends."""

    views: tuple[SectionView, ...]
    target: int | None
    earlier: int | None
    later: int | None


@dataclass(frozen=True, slots=True)
class FoundWords:
    """A section with the words that were looked for: where one is in the document's text, and the text around it."""

    section: int
    heading: str
    page: int | None
    start: int
    end: int
    text: str


@dataclass(frozen=True, slots=True)
class OutlineEntry:
    """A heading, or a page where there are no headings."""

    title: str
    depth: int
    section: int
    page: int | None


def view_sections(
    document: Document, link_target: Target, *, before: int = SECTIONS_BEFORE, shown: int = SECTIONS_SHOWN
) -> DocumentWindow:
    """Return the sections around the place, `before` of them in front of it. One query, two for Markdown."""
    count = document.section_count
    target = link_target.section if link_target.section is not None and link_target.section < count else None
    first = max(0, (target or 0) - before)
    rows = list(document.sections.filter(number__gte=first, number__lt=first + shown).order_by("number"))
    views = (
        _laid_out(document, rows, link_target, target)
        if is_laid_out(document)
        else section_views(rows, target, link_target)
    )
    return DocumentWindow(
        views=tuple(views),
        target=target,
        earlier=max(0, first - shown + before) if first else None,
        later=first + shown + before if first + shown < count else None,
    )


def is_laid_out(document: Document) -> bool:
    """Return whether the document is rendered by its markup; reStructuredText, which is read as Markdown, is not."""
    return document.format == "markdown" and not document.name.lower().endswith(".rst")


def section_views(rows: Sequence[Section], target: int | None, link_target: Target) -> list[SectionView]:
    """Return the sections in order, with the passage marked in each."""
    views, path, page = [], None, None
    for row in rows:
        heading = " > ".join(row.path) if row.path != path else ""
        shown_page = row.page if row.page != page else None
        views.append(SectionView(row.number, heading, shown_page, _pieces(row, link_target), row.number == target))
        path, page = row.path, row.page
    return views


def _laid_out(
    document: Document, rows: Sequence[Section], link_target: Target, target: int | None
) -> list[SectionView]:
    """Return the sections of a Markdown document, which have their headings in their text; the first shows its path."""
    if rows:
        # The opening of the code block or table in which a page's first section begins. One query, or none for the
        # first section.
        first = rows[0]
        if not first.number:
            opening = ""
        else:
            before = document.sections.filter(
                number__lt=first.number, number__gte=first.number - LOOKED_BACK, path=first.path
            )
            opening = opening_of(before.order_by("number").values_list("text", flat=True))
    else:
        opening = ""
    has_passage = link_target.start is not None and link_target.end is not None
    passage = MarkedSpan(link_target.start or 0, link_target.end or 0) if has_passage else None
    layouts = lay_out(rows, opening=opening, passage=passage, target=target)
    views = [
        replace(view, heading="", html=laid_out.html, is_passage=view.has_mark and not laid_out.is_marked)
        if laid_out
        else view
        for view, laid_out in zip(section_views(rows, target, link_target), layouts, strict=True)
    ]
    if views and rows[0].number:
        above = rows[0].path[:-1] if rows[0].text.lstrip().startswith("#") else rows[0].path
        views[0] = replace(views[0], heading=" > ".join(above))
    return views


def _pieces(section: Section, link_target: Target) -> tuple[Piece, ...]:
    """Return the section's text, with its part of the passage marked."""
    text = section.text
    if link_target.start is None or link_target.end is None:
        return (Piece(text),)
    start = min(max(link_target.start - section.start, 0), len(text))
    end = min(max(link_target.end - section.start, start), len(text))
    pieces = (Piece(text[:start]), Piece(text[start:end], is_marked=True), Piece(text[end:]))
    return tuple(piece for piece in pieces if piece.text)


def find_in(document: Document, text: str) -> list[FoundWords]:
    """Return the sections that contain all words of the text, in order, each with its first place of one. One query."""
    words = folded(text).split()[:FOUND_WORDS]
    if not words:
        return []
    rows = document.sections.order_by("number")
    for word in words:
        rows = rows.filter(text__iregex=pattern_of(word))
    matches = []
    for row in rows:
        places = places_of_words(row.text, words)
        if not places:
            continue
        start, end = places[words.index(max(words, key=len))]
        shown = max(0, start - FOUND_CHARS // 3)
        heading = " > ".join(row.path)
        piece = one_line(row.text[shown : shown + FOUND_CHARS], FOUND_CHARS)
        matches.append(FoundWords(row.number, heading, row.page, row.start + start, row.start + end, piece))
        if len(matches) == FOUND_SECTIONS:
            break
    return matches


def outline_of(document: Document) -> list[OutlineEntry]:
    """Return the headings in order, repeated ones once; for a document without headings its pages. One query."""
    rows = document.sections.order_by("number").values_list("number", "path", "page", "headings")[:OUTLINE_SECTIONS]
    entries: list[OutlineEntry] = []
    above: list[str] = []
    last_page = None
    paths = (
        (number, path, page)
        for number, row_path, page, inner in rows
        for path in (row_path, *(below for _, below in inner))
    )
    for number, path, page in paths:
        shared = next((at for at, (old, new) in enumerate(zip(above, path, strict=False)) if old != new), None)
        first_new = min(len(above), len(path)) if shared is None else shared
        entries += [OutlineEntry(title, depth, number, page) for depth, title in enumerate(path[first_new:], first_new)]
        if not path and page is not None and page != last_page:
            entries.append(OutlineEntry(f"Page {page}", 0, number, page))
        above, last_page = path, page
        if len(entries) >= OUTLINE_ENTRIES:
            break
    return entries[:OUTLINE_ENTRIES]


@dataclass(frozen=True, slots=True)
class Sheet:
    """One page. `lines` and `marks` are laid over the picture; without a picture, the sections are shown as text."""

    page: int
    sections: tuple[SectionView, ...]
    picture: Picture | None
    lines: tuple[SheetLine, ...] = ()
    marks: tuple[Mark, ...] = ()
    passage: str = ""

    @property
    def is_waiting(self) -> bool:
        return self.picture is None

    @property
    def heading(self) -> str:
        """Return the headings in force where the page begins."""
        return next((view.heading for view in self.sections if view.heading), "")


@dataclass(frozen=True, slots=True)
class PageWindow:
    """Pages in order; `earlier` and `later` are the pages at which the previous and next windows open.

    They are None at the ends of the document.
    """

    sheets: tuple[Sheet, ...]
    target: int
    earlier: int | None
    later: int | None


def view_pages(document: Document, link_target: Target, ask: AskForDrawing) -> PageWindow:
    """Return the pages around the place. At most two queries."""
    count = document.page_count or 1
    target = min(max(_page_of(document, link_target), 1), count)
    first = max(1, target - PAGES_BEFORE)
    last = min(first + PAGES_SHOWN - 1, count)
    return PageWindow(
        sheets=tuple(_sheets(document, first, last, link_target, ask)),
        target=target,
        earlier=max(1, first - PAGES_SHOWN + PAGES_BEFORE) if first > 1 else None,
        later=last + 1 if last < count else None,
    )


def view_page(document: Document, page: int, link_target: Target, ask: AskForDrawing) -> Sheet | None:
    """Return one page; None if there is no page with this number. One query."""
    if not 1 <= page <= (document.page_count or 0):
        return None
    return _sheets(document, page, page, link_target, ask)[0]


def _page_of(document: Document, link_target: Target) -> int:
    if link_target.page is not None:
        return link_target.page
    if link_target.section is None:
        return 1
    return document.sections.filter(number=link_target.section).values_list("page", flat=True).first() or 1


def _sheets(document: Document, first: int, last: int, link_target: Target, ask: AskForDrawing) -> list[Sheet]:
    chosen = document.sections.filter(page__gte=first, page__lte=last).order_by("number")[:MAX_SECTIONS_ON_PAGES]
    rows = {page: list(sections) for page, sections in groupby(chosen, key=lambda section: section.page or 0)}
    sheets = []
    for page in range(first, last + 1):
        views = tuple(section_views(rows.get(page, []), link_target.section, link_target))
        picture = picture_of(document, page)
        if picture is None:
            ask(page)
        if picture is None or not picture.is_drawn:
            sheets.append(Sheet(page, views, picture))
            continue
        # The page's text before the mark, and the marked text.
        pieces = [piece for view in views for piece in view.pieces]
        marked_at = next((number for number, piece in enumerate(pieces) if piece.is_marked), len(pieces))
        before = "".join(piece.text for piece in pieces[:marked_at])
        passage = "".join(piece.text for piece in pieces if piece.is_marked)
        marks = marks_of(picture.lines, passage=passage, before=before)
        sheets.append(Sheet(page, views, picture, tuple(text_lines(picture.lines)), tuple(marks), passage))
    return sheets
