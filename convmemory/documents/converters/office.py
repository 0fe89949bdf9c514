"""Office files: paragraphs and tables of DOCX, slides of PPTX, sheets of workbooks. Macros are never read.

python-docx, python-pptx and calamine read them.
"""

import re
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from contextlib import suppress
from datetime import date, datetime, time
from itertools import islice
from typing import Any

from convmemory.documents.converters.base import (
    Converted,
    SourceFile,
    Unreadable,
    collected,
    open_packed,
    parsed_xml,
    require_declared_sizes,
)
from convmemory.documents.structure import Block

# Counted before calamine allocates them: it reserves the whole rectangle from the first to the last cell (ADR 30).
MAX_CELLS = 2_000_000
MAX_COLUMNS = 200
MAX_SHEETS = 1_000
# The limit over all slides: each shape takes half a millisecond.
MAX_SHAPES = 20_000
_SHAPES = ("{*}sp", "{*}pic", "{*}cxnSp", "{*}grpSp", "{*}graphicFrame")
CELL_CHARS = 2_000
HEADER_CHARS = 160
CELL = re.compile(  # cells of SpreadsheetML with content: formats alone may reach to the last column
    rb"""<(?:\w{1,20}:)?c\s[^<>]{0,200}?\br=["']([A-Z]{1,3})([0-9]{1,7})["'][^<>]{0,200}(?<!/)>(?!</)"""
)
# A cell may be cut by the end of a chunk, so the last bytes of each are scanned again with the next.
SCANNED_BYTES, LONGEST_CELL_BYTES = 1024**2, 512
WORD_WITH_MACROS = "application/vnd.ms-word.document.macroEnabled.main+xml"
_DAMAGED = "The file is damaged and cannot be read: save it again from the program that made it."


def convert_docx(file: SourceFile) -> Converted:
    """Convert a Word file: headings by their styles, a row of a table as a line. Raises: Unreadable."""
    open_packed(file).close()
    from docx.opc.part import PartFactory
    from docx.package import Package
    from docx.parts.document import DocumentPart

    # Without this, python-docx opens a file with macros as a part without a document.
    PartFactory.part_type_for[WORD_WITH_MACROS] = DocumentPart
    try:
        with file.path.open("rb") as stream:
            document = Package.open(stream).main_document_part.document
    except Exception as error:
        raise Unreadable("broken", _DAMAGED) from error
    return Converted(collected(_docx_blocks(document), file), title=_title_of(document))


def _title_of(file: Any) -> str:
    """Return the title of an Office file; "" if its properties are not declared as such."""
    try:
        return str(file.core_properties.title or "")
    except (AttributeError, KeyError):
        return ""


def _docx_blocks(document: Any) -> Iterator[Block]:
    # The level of each heading style by its id; none if the styles are not declared as such.
    try:
        levels = {style.style_id: level for style in document.styles if (level := _heading_level(style.name or ""))}
    except (AttributeError, KeyError):
        levels = {}
    for item in document.iter_inner_content():
        if hasattr(item, "rows"):
            yield Block("".join(f"{line}\n" for line in _table_rows(item._tbl)) + "\n")
            continue
        text = item.text
        if not text.strip():
            continue
        level = levels.get(item._p.style or "", 0)
        yield Block(f"{text}\n\n", level=level, title=text if level else "")


def _table_rows(table: Any) -> Iterator[str]:
    """Yield the rows of an XML table; the libraries' own cells take quadratic time in a table's size."""
    for row in table.tr_lst:
        yield joined_row("".join(node.text or "" for node in cell.iter("{*}t")) for cell in row.tc_lst)


def _heading_level(style: str) -> int:
    if style == "Title":
        return 1
    name, _, number = style.rpartition(" ")
    return int(number) if name.lower() in ("heading", "überschrift", "titre") and number.isdigit() else 0


def convert_pptx(file: SourceFile) -> Converted:
    """Convert slides: each is a page, followed by its notes. Raises: Unreadable."""
    open_packed(file).close()
    from pptx import Presentation

    try:
        with file.path.open("rb") as stream:
            show = Presentation(stream)
        slides = list({slide.part.partname: slide for slide in islice(show.slides, file.limits.max_pages + 1)}.values())
    except Exception as error:
        raise Unreadable("broken", _DAMAGED) from error
    if len(slides) > file.limits.max_pages:
        most = f"{file.limits.max_pages:,} (MAX_DOCUMENT_PAGES)"
        raise Unreadable("too_large", f"There are more than {most} slides: split the file.")
    if sum(1 for slide in slides for _ in slide._element.iter(*_SHAPES)) > MAX_SHAPES:
        raise Unreadable("too_large", f"The slides have more than {MAX_SHAPES:,} shapes: split the file.")
    numbered = file.watched(enumerate(slides, 1))
    blocks = (block for number, slide in numbered for block in _slide_blocks(slide, number))
    return Converted(collected(blocks, file), title=_title_of(show), pages=len(slides))


def _slide_blocks(slide: Any, number: int) -> Iterator[Block]:
    title = slide.shapes.title
    heading = " ".join(title.text_frame.text.split()) if title is not None and title.has_text_frame else ""
    heading = heading or f"Slide {number}"
    yield Block(f"{heading}\n\n", level=1, page=number, title=heading)
    for shape in _shapes(slide.shapes):
        if title is not None and shape._element is title._element:
            continue
        if shape.has_text_frame and shape.text_frame.text.strip():
            yield Block(f"{shape.text_frame.text}\n\n", page=number)
        elif getattr(shape, "has_table", False) and shape.has_table:
            yield Block("".join(f"{row}\n" for row in _table_rows(shape.table._tbl)) + "\n", page=number)
    if slide.has_notes_slide and (notes := slide.notes_slide.notes_text_frame) is not None and notes.text.strip():
        yield Block(f"{notes.text}\n\n", page=number)


def _shapes(shapes: Iterable[Any]) -> Iterator[Any]:
    """Yield the shapes, including those in groups."""
    waiting = list(reversed(list(shapes)))
    while waiting:
        shape = waiting.pop()
        if hasattr(shape, "shapes"):
            waiting += reversed(list(shape.shapes))
        else:
            yield shape


def convert_sheets(file: SourceFile) -> Converted:
    """Convert a workbook: each sheet is a page.

    The first row, the names of the columns, is part of the heading of all sections. Raises: Unreadable.
    """
    import python_calamine

    if zipfile.is_zipfile(file.path):
        # Counted before calamine opens the file, which allocates the whole range of a sheet at once.
        _require_few_cells(sum(_cells_of_parts(file)))
        with open_packed(file) as archive:
            require_declared_sizes(archive)
            _require_own_sheets(archive)
    try:
        book = python_calamine.CalamineWorkbook.from_path(str(file.path))
    except python_calamine.PasswordError as error:
        raise Unreadable(
            "encrypted", "The workbook is encrypted: save it without a password, and upload that."
        ) from error
    except (python_calamine.CalamineError, OSError, ValueError) as error:
        raise Unreadable("broken", _DAMAGED) from error
    if len(book.sheet_names) > MAX_SHEETS:
        raise Unreadable(
            "too_large",
            f"The workbook has {len(book.sheet_names):,} sheets; at most {MAX_SHEETS:,} are read: save it in parts.",
        )
    sheets, notes, cells = [], [], 0
    for name in file.watched(book.sheet_names):
        try:
            sheet = book.get_sheet_by_name(name)
        except (python_calamine.CalamineError, ValueError):
            notes.append(f"The sheet {name!r} cannot be read: save it again from the program that made it.")
            continue
        last_row, last_column = sheet.end or (0, 0)
        # Rows are read from the first on, even if the range begins far below.
        cells += (last_row + 1) * (last_column + 1)
        _require_few_cells(cells)
        sheets.append((name, sheet))
    if not sheets:
        raise Unreadable("broken", _DAMAGED)
    blocks = (block for number, (name, sheet) in enumerate(sheets, 1) for block in _sheet_blocks(name, sheet, number))
    return Converted(collected(blocks, file), pages=len(sheets), notes=notes)


def _require_own_sheets(archive: zipfile.ZipFile) -> None:
    """Refuse a workbook that names one part as several sheets, each of which would be read. Raises: Unreadable."""
    try:
        sheets = list(parsed_xml(archive.read("xl/workbook.xml")).iter("{*}sheet"))
        relations = parsed_xml(archive.read("xl/_rels/workbook.xml.rels")).iter("{*}Relationship")
        target_of = {each.get("Id"): each.get("Target") for each in relations}
    except (KeyError, SyntaxError, zipfile.BadZipFile):
        return  # another kind of workbook, or a damaged one, which its reader reports
    names = [value for sheet in sheets for name, value in sheet.items() if name.endswith("}id")]
    targets = [target_of.get(name) for name in names]
    if len(set(targets)) < len(targets):
        raise Unreadable("broken", "Several sheets of the workbook are one and the same: save it again.")


def _require_few_cells(count: int) -> None:
    if count > MAX_CELLS:
        raise Unreadable(
            "too_large",
            f"The workbook has {count:,} cells, counted up to the last row and column with content; at most "
            f"{MAX_CELLS:,} are read: delete cells far outside, or save it in parts.",
        )


def _cells_of_parts(file: SourceFile) -> Iterator[int]:
    """Yield, for each XML part of a workbook, the cells from the first to the last row and column with content."""
    with open_packed(file) as archive:
        for entry in file.watched(archive.infolist()):
            last_row = last_column = 0
            with suppress(zipfile.BadZipFile, zlib.error, EOFError, OSError), archive.open(entry) as part:
                held = b""  # calamine reports the error of a damaged part
                while chunk := part.read(SCANNED_BYTES):
                    found = CELL.findall(held + chunk)
                    last_row = max([last_row, *(int(row) for _, row in found)])
                    last_column = max([last_column, *map(_column_number, {column for column, _ in found})])
                    held = chunk[-LONGEST_CELL_BYTES:]
            yield last_row * last_column


def _column_number(name: bytes) -> int:
    """Return the number of a column: 1 for A, 27 for AA."""
    number = 0
    for letter in name:
        number = number * 26 + letter - 64
    return number


def _sheet_blocks(name: str, sheet: Any, number: int) -> Iterator[Block]:
    yield Block(f"{name}\n\n", level=1, page=number, title=name)
    header = ""
    for row in sheet.iter_rows():
        line = joined_row(map(shown_cell, row[:MAX_COLUMNS]))
        if not line:
            continue
        if header:
            yield Block(f"{line}\n", page=number)
        else:
            header = line
            yield Block(f"{line}\n", level=2, page=number, title=line[:HEADER_CHARS])


def joined_row(cells: Iterable[str]) -> str:
    """Return a row as one line, without empty cells at the end."""
    kept = [" ".join(cell[:CELL_CHARS].split()) for cell in cells]
    while kept and not kept[-1]:
        kept.pop()
    return " | ".join(kept)


def shown_cell(value: Any) -> str:
    """Return a cell's value in a readable form."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() and abs(value) < 1e15 else repr(value)
    if isinstance(value, datetime) and value.time() == time.min:
        value = value.date()
    if isinstance(value, datetime):
        return value.isoformat(" ")
    return value.isoformat() if isinstance(value, date) else str(value)
