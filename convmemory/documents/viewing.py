"""Shows a document's page: the sections around a position, with the passage marked, and the outline."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from django.utils.safestring import SafeString

from convmemory.conversations.highlighting import MarkedSpan
from convmemory.documents.markdown_sections import lay_out, opening_of
from convmemory.documents.models import Document, Section

BEFORE, SHOWN = 4, 24  # sections on a page
# Sections before a page that are read to find the code block or table in which it begins.
LOOKED_BACK = 40
OUTLINE_SECTIONS = 5_000
OUTLINE_ENTRIES = 400


@dataclass(frozen=True, slots=True)
class Place:
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
class OutlineEntry:
    """A heading, or a page where there are no headings."""

    title: str
    depth: int
    section: int
    page: int | None


def view_sections(document: Document, place: Place, *, before: int = BEFORE, shown: int = SHOWN) -> DocumentWindow:
    """Return the sections around the place, `before` of them in front of it. One query, two for Markdown."""
    count = document.section_count
    target = place.section if place.section is not None and place.section < count else None
    first = max(0, (target or 0) - before)
    rows = list(document.sections.filter(number__gte=first, number__lt=first + shown).order_by("number"))
    views = _laid_out(document, rows, place, target) if is_laid_out(document) else section_views(rows, target, place)
    return DocumentWindow(
        views=tuple(views),
        target=target,
        earlier=max(0, first - shown + before) if first else None,
        later=first + shown + before if first + shown < count else None,
    )


def is_laid_out(document: Document) -> bool:
    """Return whether the document is rendered by its markup; reStructuredText, which is read as Markdown, is not."""
    return document.format == "markdown" and not document.name.lower().endswith(".rst")


def section_views(rows: Sequence[Section], target: int | None, place: Place) -> list[SectionView]:
    """Return the sections in order, with the passage marked in each."""
    views, path, page = [], None, None
    for row in rows:
        heading = " > ".join(row.path) if row.path != path else ""
        shown_page = row.page if row.page != page else None
        views.append(SectionView(row.number, heading, shown_page, _pieces(row, place), row.number == target))
        path, page = row.path, row.page
    return views


def _laid_out(document: Document, rows: Sequence[Section], place: Place, target: int | None) -> list[SectionView]:
    """Return the sections of a Markdown document, which have their headings in their text; the first shows its path."""
    opening = _opening_before(document, rows[0]) if rows else ""
    has_passage = place.start is not None and place.end is not None
    passage = MarkedSpan(place.start or 0, place.end or 0) if has_passage else None
    found = lay_out(rows, opening=opening, passage=passage, target=target)
    views = [
        replace(view, heading="", html=laid_out.html, is_passage=view.has_mark and not laid_out.is_marked)
        if laid_out
        else view
        for view, laid_out in zip(section_views(rows, target, place), found, strict=True)
    ]
    if views and rows[0].number:
        above = rows[0].path[:-1] if rows[0].text.lstrip().startswith("#") else rows[0].path
        views[0] = replace(views[0], heading=" > ".join(above))
    return views


def _opening_before(document: Document, first: Section) -> str:
    """Return the opening of the code block or table in which a page's first section begins.

    One query, or none for the first section.
    """
    if not first.number:
        return ""
    before = document.sections.filter(number__lt=first.number, number__gte=first.number - LOOKED_BACK, path=first.path)
    return opening_of(before.order_by("number").values_list("text", flat=True))


def _pieces(section: Section, place: Place) -> tuple[Piece, ...]:
    """Return the section's text, with its part of the passage marked."""
    text = section.text
    if place.start is None or place.end is None:
        return (Piece(text),)
    start = min(max(place.start - section.start, 0), len(text))
    end = min(max(place.end - section.start, start), len(text))
    pieces = (Piece(text[:start]), Piece(text[start:end], is_marked=True), Piece(text[end:]))
    return tuple(piece for piece in pieces if piece.text)


def outline_of(document: Document) -> list[OutlineEntry]:
    """Return the headings in order, repeated ones once; for a document without headings its pages. One query."""
    rows = document.sections.order_by("number").values_list("number", "path", "page")[:OUTLINE_SECTIONS]
    entries: list[OutlineEntry] = []
    above: list[str] = []
    last_page = None
    for number, path, page in rows:
        shared = next((at for at, (old, new) in enumerate(zip(above, path, strict=False)) if old != new), None)
        first_new = min(len(above), len(path)) if shared is None else shared
        entries += [OutlineEntry(title, depth, number, page) for depth, title in enumerate(path[first_new:], first_new)]
        if not path and page is not None and page != last_page:
            entries.append(OutlineEntry(f"Page {page}", 0, number, page))
        above, last_page = path, page
        if len(entries) >= OUTLINE_ENTRIES:
            break
    return entries[:OUTLINE_ENTRIES]
