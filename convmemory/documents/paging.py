"""The pages of a PDF around a position, as pictures, or as text until they have been drawn."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby

from convmemory.documents.drawing import Picture, picture_of
from convmemory.documents.models import Document, Section
from convmemory.documents.sheets import Mark, SheetLine, marks_of, text_lines
from convmemory.documents.viewing import Place, SectionView, section_views

BEFORE, SHOWN = 1, 6  # pages
MAX_SECTIONS = 300

AskForDrawing = Callable[[int], None]
"""Called with a page that has not been drawn yet."""


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


def view_pages(document: Document, place: Place, ask: AskForDrawing) -> PageWindow:
    """Return the pages around the place. At most two queries."""
    count = document.page_count or 1
    target = min(max(_page_of(document, place), 1), count)
    first = max(1, target - BEFORE)
    last = min(first + SHOWN - 1, count)
    return PageWindow(
        sheets=tuple(_sheets(document, first, last, place, ask)),
        target=target,
        earlier=max(1, first - SHOWN + BEFORE) if first > 1 else None,
        later=last + 1 if last < count else None,
    )


def view_page(document: Document, page: int, place: Place, ask: AskForDrawing) -> Sheet | None:
    """Return one page; None if there is no page with this number. One query."""
    if not 1 <= page <= (document.page_count or 0):
        return None
    return _sheets(document, page, page, place, ask)[0]


def _page_of(document: Document, place: Place) -> int:
    if place.page is not None:
        return place.page
    if place.section is None:
        return 1
    return document.sections.filter(number=place.section).values_list("page", flat=True).first() or 1


def _sheets(document: Document, first: int, last: int, place: Place, ask: AskForDrawing) -> list[Sheet]:
    chosen = document.sections.filter(page__gte=first, page__lte=last).order_by("number")[:MAX_SECTIONS]
    rows = {page: list(found) for page, found in groupby(chosen, key=lambda section: section.page or 0)}
    return [_sheet(document, page, rows.get(page, []), place, ask) for page in range(first, last + 1)]


def _sheet(document: Document, page: int, rows: Sequence[Section], place: Place, ask: AskForDrawing) -> Sheet:
    views = tuple(section_views(rows, place.section, place))
    picture = picture_of(document, page)
    if picture is None:
        ask(page)
    if picture is None or not picture.is_drawn:
        return Sheet(page, views, picture)
    before, passage = _passage(views)
    marks = marks_of(picture.lines, passage=passage, before=before)
    return Sheet(page, views, picture, tuple(text_lines(picture.lines)), tuple(marks), passage)


def _passage(views: Sequence[SectionView]) -> tuple[str, str]:
    """Return the page's text before the mark, and the marked text."""
    pieces = [piece for view in views for piece in view.pieces]
    first = next((number for number, piece in enumerate(pieces) if piece.is_marked), len(pieces))
    before = "".join(piece.text for piece in pieces[:first])
    return before, "".join(piece.text for piece in pieces if piece.is_marked)
