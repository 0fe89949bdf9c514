"""A document as its page shows it: the sections around a position, with the passage marked, and the outline."""

from collections.abc import Sequence
from dataclasses import dataclass

from convmemory.documents.models import Document, Section

BEFORE, SHOWN = 4, 24  # sections on a page
OUTLINE_SECTIONS = 5_000
OUTLINE_ENTRIES = 400


@dataclass(frozen=True, slots=True)
class Place:
    """What the address asks for: a section or a page, and characters of the document's text that are marked."""

    section: int | None = None
    start: int | None = None
    end: int | None = None
    page: int | None = None


@dataclass(frozen=True, slots=True)
class Piece:
    """A stretch of text; `is_marked` where it is of the passage."""

    text: str
    is_marked: bool = False


@dataclass(frozen=True, slots=True)
class SectionView:
    """A section with its text in pieces. `heading` and `page` are there where they are not those before it."""

    number: int
    heading: str
    page: int | None
    pieces: tuple[Piece, ...]
    is_target: bool


@dataclass(frozen=True, slots=True)
class DocumentWindow:
    """Sections in order; `earlier` and `later` are where the pages before and after them begin, if there are any."""

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


def view_sections(document: Document, place: Place) -> DocumentWindow:
    """The sections around the place. One query."""
    count = document.section_count
    target = place.section if place.section is not None and place.section < count else None
    first = max(0, (target or 0) - BEFORE)
    rows = list(document.sections.filter(number__gte=first, number__lt=first + SHOWN).order_by("number"))
    return DocumentWindow(
        views=tuple(section_views(rows, target, place)),
        target=target,
        earlier=max(0, first - SHOWN + BEFORE) if first else None,
        later=first + SHOWN + BEFORE if first + SHOWN < count else None,
    )


def section_views(rows: Sequence[Section], target: int | None, place: Place) -> list[SectionView]:
    """The sections in order, what of the passage stands in them marked."""
    views, path, page = [], None, None
    for row in rows:
        heading = " > ".join(row.path) if row.path != path else ""
        shown_page = row.page if row.page != page else None
        views.append(SectionView(row.number, heading, shown_page, _pieces(row, place), row.number == target))
        path, page = row.path, row.page
    return views


def _pieces(section: Section, place: Place) -> tuple[Piece, ...]:
    """The section's text, what of the passage stands in it marked."""
    text = section.text
    if place.start is None or place.end is None:
        return (Piece(text),)
    start = min(max(place.start - section.start, 0), len(text))
    end = min(max(place.end - section.start, start), len(text))
    pieces = (Piece(text[:start]), Piece(text[start:end], is_marked=True), Piece(text[end:]))
    return tuple(piece for piece in pieces if piece.text)


def outline_of(document: Document) -> list[OutlineEntry]:
    """The headings in order, the first of equal ones; of a document without headings its pages. One query."""
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
