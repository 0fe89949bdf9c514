"""OpenDocument: texts, presentations and spreadsheets, with deletions of tracked changes left out.

Notes, comments and text boxes follow their paragraph; headers and footers come last. Cells are read as they are shown.
Source: OpenDocument 1.3, part 3.
"""

import zipfile
from collections.abc import Callable, Iterator
from itertools import repeat
from typing import Any

from convmemory.documents.converters.base import (
    DAMAGED,
    Converted,
    SourceFile,
    Unreadable,
    collected,
    joined_row,
    open_packed,
    parsed_xml,
)
from convmemory.documents.converters.coverage import MAX_LOCATIONS, Coverage, Location
from convmemory.documents.converters.flow import Flow
from convmemory.documents.converters.ooxml import attribute, events, name_of
from convmemory.documents.structure import Block

SKIPPED = frozenset({
    "tracked-changes", "note-citation", "creator", "date-string", "initials", "sender-initials", "forms", "notes",
    "bibliography-source", "table-of-content-source", "sequence-decls", "script", "scripts",
})  # fmt: skip
COUNTED = {"note": "note", "annotation": "comment", "text-box": "text box", "custom-shape": "shape"}
MISSED = {"image": "picture", "object": "embedded object", "object-ole": "embedded file", "plugin": "recording"}
CHARACTERS = {"tab": "\t", "line-break": "\n", "soft-page-break": " "}
MAX_SPACES = 100
MAX_CELLS = 2_000_000
MAX_EMPTY_CELLS = 200
HEADER_CHARS = 160


def convert_text(file: SourceFile) -> Converted:
    """Convert a text document. Raises: Unreadable."""
    return _converted(file, lambda content, coverage: _flowing(content, coverage, None, ("", "")))


def convert_slides(file: SourceFile) -> Converted:
    """Convert a presentation: each slide is a page, followed by its notes. Raises: Unreadable."""
    return _converted(file, _slides, unit="slide", pages="page")


def convert_sheets(file: SourceFile) -> Converted:
    """Convert a spreadsheet: each sheet is a page. Raises: Unreadable."""
    return _converted(file, _sheets, unit="sheet", pages="table")


def _converted(
    file: SourceFile, read: Callable[[Any, Coverage], Iterator[Block]], *, unit: str = "", pages: str = ""
) -> Converted:
    coverage = Coverage()
    with open_packed(file) as archive:
        if b"encryption-data" in _part(archive, "META-INF/manifest.xml"):
            raise Unreadable("encrypted", "The file is encrypted: save it without a password, and upload that.")
        try:
            content = parsed_xml(archive.read("content.xml"))
            styles = parsed_xml(_part(archive, "styles.xml") or b"<none/>")
            meta = parsed_xml(_part(archive, "meta.xml") or b"<none/>")
        except (KeyError, SyntaxError, zipfile.BadZipFile, NotImplementedError) as error:
            raise Unreadable("broken", DAMAGED) from error
        if any(name.startswith("Basic/") for name in archive.namelist()):
            coverage.miss("macro")
    body = content.find("{*}body")
    count = sum(1 for _ in _pages(body, pages)) if pages and body is not None else None
    if count is not None and count > file.limits.max_pages:
        most = f"{file.limits.max_pages:,} (MAX_DOCUMENT_PAGES)"
        raise Unreadable("too_large", f"There are more than {most} {unit}s: split the file.")
    blocks = collected(_body_and_margins(content, styles, coverage, read), file)
    title = next((node.text or "" for node in meta.iter("{*}title")), "")
    hidden = list(_hidden_sheets(content)) if pages == "table" else []
    notes = [f"Hidden in the spreadsheet, and read: {', '.join(hidden[:MAX_LOCATIONS])}."] if hidden else []
    return Converted(blocks, title=title, pages=count, notes=notes, coverage=coverage)


def _part(archive: zipfile.ZipFile, name: str) -> bytes:
    try:
        return archive.read(name)
    except KeyError:
        return b""


def _pages(body: Any, name: str) -> Iterator[Any]:
    for kind in body:
        yield from (node for node in kind if name_of(node) == name)


def _body_and_margins(
    content: Any, styles: Any, coverage: Coverage, read: Callable[[Any, Coverage], Iterator[Block]]
) -> Iterator[Block]:
    body = content.find("{*}body")
    if body is not None:
        yield from read(content, coverage)
    shown = set()
    for node in styles.iterfind("{*}master-styles/{*}master-page/*"):
        for block in _flowing(node, coverage, None, ("", "")):
            if block.text not in shown:
                shown.add(block.text)
                yield block


def _slides(content: Any, coverage: Coverage) -> Iterator[Block]:
    for number, page in enumerate(_pages(content.find("{*}body"), "page"), 1):
        coverage.read["slide"] += 1
        titles = (node for node in page.iter("{*}frame") if attribute(node, "class") == "title")
        title = next(("".join(node.itertext()).strip() for node in titles), "")
        heading = " ".join(title.split()) or f"Slide {number}"
        yield Block(f"{heading}\n\n", level=1, page=number, title=heading)
        for block in _flowing(page, coverage, number, ("slide", number)):
            if block.text.split() != heading.split():
                yield block
        for notes in page.iterchildren("{*}notes"):
            coverage.read["note"] += 1
            # The picture of the slide on the page of its notes is no picture in the file.
            yield from _flowing(notes, Coverage(), number, ("slide", number))


def _flowing(root: Any, coverage: Coverage, page: int | None, location: Location) -> Iterator[Block]:
    """Yield paragraphs and tables below an element, each followed by the notes, comments and text boxes in it."""
    flow = Flow()
    skipping: Any = None
    for begins, name, node in events(root, frozenset()):
        if skipping is not None:
            if begins or node is not skipping:
                continue
            skipping = None
        elif begins:
            if (name in SKIPPED and node is not root) or (name == "date" and name_of(node.getparent()) == "annotation"):
                skipping = node
                continue
            flow.begin(name)
            _count(name, node, coverage, location)
            if flow.paragraphs:
                flow.paragraphs[-1].append(_text_of(name, node))
            elif name in ("title", "desc") and node is not root and (node.text or "").strip():
                yield Block(f"{node.text}\n\n", page=page)
            continue
        else:
            text = flow.end(name)
            if flow.is_outside and name in ("p", "h") and text.strip():
                level = int(attribute(node, "outline-level") or 0) if name == "h" else 0
                yield Block(f"{text}\n\n", level=min(level, 6), page=page, title=text if level else "")
            elif flow.is_outside and name == "table":
                yield Block(f"{text}\n", page=page)
            if flow.is_outside and name in ("p", "h", "table"):
                after, flow.after = flow.after, []
                yield from (Block(text, page=page) for text in after if text.strip())
        if flow.paragraphs and node.tail and node is not root:
            flow.paragraphs[-1].append(node.tail)


def _count(name: str, node: Any, coverage: Coverage, location: Location) -> None:
    if name in COUNTED:
        coverage.read[COUNTED[name]] += 1
        return
    before = node.getprevious() if name == "image" else None
    # A picture after an object stands for it.
    if name in MISSED and (before is None or name_of(before) not in MISSED):
        coverage.miss(MISSED[name], *location)


def _text_of(name: str, node: Any) -> str:
    if name == "s":
        count = attribute(node, "c")
        return " " * min(int(count) if count.isdecimal() else 1, MAX_SPACES)
    return CHARACTERS.get(name, "") + (node.text or "")


def _sheets(content: Any, coverage: Coverage) -> Iterator[Block]:
    cells = 0
    for number, sheet in enumerate(_pages(content.find("{*}body"), "table"), 1):
        name = attribute(sheet, "name")
        coverage.read["sheet"] += 1
        yield Block(f"{name}\n\n", level=1, page=number, title=name)
        header = ""
        for row in sheet.iter("{*}table-row"):
            line, width, attached = _row(row, coverage, ("sheet", name), number)
            times = _repeated(row, "number-rows-repeated") if line else 1
            cells += times * width
            if cells > MAX_CELLS:
                raise Unreadable(
                    "too_large", f"The spreadsheet has more than {MAX_CELLS:,} cells: save it in parts, or fewer rows."
                )
            for text in repeat(line, times if line else 0):
                yield Block(
                    f"{text}\n", level=0 if header else 2, page=number, title="" if header else text[:HEADER_CHARS]
                )
                header = header or text
            yield from attached
        for shapes in sheet.iterchildren("{*}shapes"):
            yield from _flowing(shapes, coverage, number, ("sheet", name))


def _row(row: Any, coverage: Coverage, location: Location, number: int) -> tuple[str, int, list[Block]]:
    """Return a row as one line, the number of its cells up to the last with text, and what is attached to them."""
    texts: list[str] = []
    attached_blocks: list[Block] = []
    empty = 0
    for cell in row:
        if name_of(cell) not in ("table-cell", "covered-table-cell"):
            continue
        times = _repeated(cell, "number-columns-repeated")
        paragraphs = ["".join(each.itertext()) for each in cell.iterchildren("{*}p")]
        text = " ".join(paragraphs).strip()
        if not text and attribute(cell, "formula"):
            coverage.miss("formula without a stored value", *location)
        for attached in cell:
            if name_of(attached) != "p":
                attached_blocks += _flowing(attached, coverage, number, location)
        if not text:
            empty += times
            continue
        texts += [""] * min(empty, MAX_EMPTY_CELLS)
        empty = 0
        if len(texts) + times > MAX_CELLS:
            return "", MAX_CELLS + 1, []
        texts += [text] * times
    return joined_row(texts), len(texts), attached_blocks


def _repeated(node: Any, name: str) -> int:
    count = attribute(node, name)
    return max(1, int(count[:9])) if count.isdecimal() else 1


def _hidden_sheets(content: Any) -> Iterator[str]:
    hidden = {
        attribute(style, "name")
        for style in content.iterfind("{*}automatic-styles/{*}style")
        if any(attribute(each, "display") == "false" for each in style.iterchildren("{*}table-properties"))
    }
    for sheet in _pages(content.find("{*}body"), "table"):
        if attribute(sheet, "style-name") in hidden:
            yield attribute(sheet, "name")
