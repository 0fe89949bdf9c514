"""Workbooks through calamine: each sheet is a page."""

import re
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import suppress
from datetime import date, datetime, time
from html import unescape
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
    require_declared_sizes,
)
from convmemory.documents.converters.coverage import MAX_LOCATIONS, Coverage
from convmemory.documents.converters.number_formats import BUILT_IN, shown
from convmemory.documents.converters.ooxml import Package, drawing_blocks
from convmemory.documents.structure import Block

# Counted before calamine allocates them: it reserves the whole rectangle from the first to the last cell (ADR 30).
MAX_CELLS = 2_000_000
MAX_SHEETS = 1_000
HEADER_CHARS = 160
NO_FORMATS = (
    "Numbers and dates are given as they are stored, not as the workbook shows them: save it as .xlsx or .ods to keep "
    "their form."
)
CELL = re.compile(  # cells of SpreadsheetML with content: formats alone may reach to the last column
    rb"""<(?:\w{1,20}:)?c\s[^<>]{0,200}?\br=["']([A-Z]{1,3})([0-9]{1,7})["'][^<>]{0,200}(?<!/)>(?!</)"""
)
_STYLE = re.compile(rb"""\bs=["']([0-9]{1,6})["']""")
_NO_VALUE = re.compile(
    rb"(?:</(?:\w{1,20}:)?f>|<(?:\w{1,20}:)?f(?:\s[^<>]{0,200})?/>)"
    rb"(?:<(?:\w{1,20}:)?v\s?/>|<(?:\w{1,20}:)?v></(?:\w{1,20}:)?v>)?</(?:\w{1,20}:)?c>"
)
_PRINTED = re.compile(rb"<(?:odd|even|first)(?:Header|Footer)>([^<]{1,1000})<")
_PRINT_CODE = re.compile(r"&(?:[LCRPNDTFAGZBIUESXYHO]|\d+|\"[^\"]*\"|K[0-9A-Fa-f]{6})")
# A cell may be cut by the end of a chunk, so the last bytes of each are scanned again with the next.
SCANNED_BYTES, LONGEST_CELL_BYTES = 1024**2, 512


def convert_sheets(file: SourceFile) -> Converted:
    """Convert a workbook: each sheet is a page.

    The first row, the names of the columns, is part of the heading of all sections. Raises: Unreadable.
    """
    import python_calamine

    parts = None
    if zipfile.is_zipfile(file.path):
        # Counted before calamine opens the file, which allocates the whole range of a sheet at once.
        _require_few_cells(sum(_cells_of_parts(file)))
        with open_packed(file) as archive:
            require_declared_sizes(archive)
            _require_own_sheets(archive)
        parts = SheetParts(file)
    try:
        book = python_calamine.CalamineWorkbook.from_path(str(file.path))
    except python_calamine.PasswordError as error:
        raise Unreadable(
            "encrypted", "The workbook is encrypted: save it without a password, and upload that."
        ) from error
    except (python_calamine.CalamineError, OSError, ValueError) as error:
        raise Unreadable("broken", DAMAGED) from error
    if len(book.sheet_names) > MAX_SHEETS:
        raise Unreadable(
            "too_large",
            f"The workbook has {len(book.sheet_names):,} sheets; at most {MAX_SHEETS:,} are read: save it in parts.",
        )
    coverage = parts.coverage if parts else Coverage()
    notes = [] if parts and parts.has_formats else [NO_FORMATS]
    sheets = _readable_sheets(book, file, coverage, notes, has_parts=parts is not None)
    numbered = enumerate(sheets, 1)
    blocks = (block for number, (name, sheet) in numbered for block in _sheet_blocks(name, sheet, number, parts))
    try:
        return Converted(collected(blocks, file), pages=len(sheets), notes=notes, coverage=coverage)
    finally:
        if parts:
            parts.close()


def _readable_sheets(
    book: Any, file: SourceFile, coverage: Coverage, notes: list[str], *, has_parts: bool
) -> list[tuple[str, Any]]:
    """Return names and contents of the sheets; None for a chart, which is read from its drawing. Raises: Unreadable."""
    from python_calamine import CalamineError, SheetTypeEnum, SheetVisibleEnum

    sheets: list[tuple[str, Any]] = []
    hidden: list[str] = []
    cells = 0
    for described in file.watched(book.sheets_metadata):
        name, sheet = described.name, None
        try:
            if described.typ is SheetTypeEnum.WorkSheet:
                sheet = book.get_sheet_by_name(name)
        except (CalamineError, ValueError):
            pass
        if sheet is None and not (has_parts and described.typ is SheetTypeEnum.ChartSheet):
            coverage.miss("sheet", "sheet", name)
            continue
        last_row, last_column = (sheet and sheet.end) or (0, 0)
        # Rows are read from the first on, even if the range begins far below.
        cells += (last_row + 1) * (last_column + 1)
        _require_few_cells(cells)
        coverage.read["sheet"] += 1
        if described.visible is not SheetVisibleEnum.Visible:
            hidden.append(name)
        sheets.append((name, sheet))
    if not sheets:
        raise Unreadable("broken", DAMAGED)
    if hidden:
        verb = "is" if len(hidden) == 1 else "are"
        names = ", ".join(hidden[:MAX_LOCATIONS])
        notes.append(f"{len(hidden):,} of the sheets that were read {verb} hidden in the workbook: {names}.")
    return sheets


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
                rest = b""  # calamine reports the error of a damaged part
                while chunk := part.read(SCANNED_BYTES):
                    cells = CELL.findall(rest + chunk)
                    last_row = max([last_row, *(int(row) for _, row in cells)])
                    last_column = max([last_column, *map(_column_number, {column for column, _ in cells})])
                    rest = chunk[-LONGEST_CELL_BYTES:]
            yield last_row * last_column


def _column_number(name: bytes) -> int:
    """Return the number of a column: 1 for A, 27 for AA."""
    number = 0
    for letter in name:
        number = number * 26 + letter - 64
    return number


def _sheet_blocks(name: str, sheet: Any, number: int, parts: "SheetParts | None") -> Iterator[Block]:
    yield Block(f"{name}\n\n", level=1, page=number, title=name)
    yield from _rows(sheet, number, parts.formats_of(name) if parts else iter(())) if sheet else ()
    if parts:
        yield from parts.blocks_beside(name, number)


def _rows(sheet: Any, number: int, formats: Iterator[tuple[int, dict[int, str]]]) -> Iterator[Block]:
    header = ""
    first_column = (sheet.start or (0, 0))[1]
    formatted, codes = next(formats, (-1, {}))
    for row_number, row in enumerate(sheet.iter_rows()):
        while 0 <= formatted < row_number:
            formatted, codes = next(formats, (-1, {}))
        by_column = codes if formatted == row_number else {}
        line = joined_row(
            shown_cell(value, by_column.get(column, "")) for column, value in enumerate(row, first_column)
        )
        if not line:
            continue
        if header:
            yield Block(f"{line}\n", page=number)
        else:
            header = line
            yield Block(f"{line}\n", level=2, page=number, title=line[:HEADER_CHARS])
    for _ in formats:  # to count the formulas below
        pass


def shown_cell(value: Any, code: str = "") -> str:
    """Return a cell's value as its number format shows it, or else in a readable form."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if code and not isinstance(value, str) and (text := shown(value, code)):
        return text
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() and abs(value) < 1e15 else repr(value)
    if isinstance(value, datetime) and value.time() == time.min:
        value = value.date()
    if isinstance(value, datetime):
        return value.isoformat(" ")
    return value.isoformat() if isinstance(value, date) else str(value)


class SheetParts:
    """What calamine leaves out of a workbook: number formats, comments, drawings, headers, formulas without values."""

    def __init__(self, file: SourceFile) -> None:
        self._package = Package.open(file)
        self.coverage = self._package.coverage
        self._parts: dict[str, str] = {}
        self._codes: list[str] = []
        workbook = self._package.main_part()
        root = self._package.xml(workbook)
        relations = {relation.id: relation for relation in self._package.relations(workbook)}
        self.has_formats = root is not None
        for node in root.iter("{*}sheet") if root is not None else ():
            relation = relations.get(next((value for key, value in node.items() if key.endswith("}id")), ""))
            if relation is not None:
                self._parts[node.get("name", "")] = relation.target
        for relation in relations.values():
            if relation.kind == "styles" and (styles := self._package.xml(relation.target)) is not None:
                self._codes = list(_codes_of(styles))
        self._package.miss_parts_of(workbook)

    def close(self) -> None:
        self._package.archive.close()

    def formats_of(self, name: str) -> Iterator[tuple[int, dict[int, str]]]:
        """Yield the rows that have number formats, from 0, with the code by column; count formulas without a value."""
        entry = self._package.entry(self._parts.get(name, ""))
        if entry is None:
            return
        row, codes = 0, dict[int, str]()
        for chunk in _chunks(self._package.archive, entry):
            for _ in _NO_VALUE.finditer(chunk):
                self.coverage.miss("formula without a stored value", "sheet", name)
            for cell in CELL.finditer(chunk) if any(self._codes) else ():
                style = _STYLE.search(cell[0])
                number = int(style[1]) if style else 0
                if int(cell[2]) - 1 != row:
                    yield row, codes
                    row, codes = int(cell[2]) - 1, {}
                if code := self._codes[number] if number < len(self._codes) else "":
                    codes[_column_number(cell[1]) - 1] = code
        yield row, codes

    def blocks_beside(self, name: str, number: int) -> Iterator[Block]:
        """Yield comments, the texts of drawings and charts, and the printed header and footer of a sheet."""
        part = self._parts.get(name, "")
        for relation in self._package.relations(part) if part else ():
            root = self._package.xml_once(relation.target) if relation.kind in ("comments", "drawing") else None
            if root is None:
                continue
            if relation.kind == "comments":
                for comment in root.iter("{*}comment"):
                    if text := "".join(node.text or "" for node in comment.iter("{*}t")).strip():
                        self.coverage.read["comment"] += 1
                        yield Block(f"{comment.get('ref', '')}: {text}\n\n", page=number)
            else:
                yield from drawing_blocks(self._package, root, relation.target, number, ("sheet", name))
        entry = self._package.entry(part)
        chunks = _chunks(self._package.archive, entry) if entry else ()
        printed = (match[1].decode("utf-8", "replace") for chunk in chunks for match in _PRINTED.finditer(chunk))
        texts = dict.fromkeys(_PRINT_CODE.sub(" ", unescape(text)).strip() for text in printed)
        yield from (Block(f"{text}\n\n", page=number) for text in texts if text)
        if part:
            self._package.miss_parts_of(part, ("sheet", name))


def _codes_of(styles: Any) -> Iterator[str]:
    """Yield the code of each cell format, "" for those without one."""
    custom_codes = {node.get("numFmtId"): node.get("formatCode", "") for node in styles.iter("{*}numFmt")}
    for node in styles.iterfind("{*}cellXfs/{*}xf"):
        number = node.get("numFmtId", "0")
        code = custom_codes.get(number) or (BUILT_IN.get(int(number), "") if number.isdigit() else "")
        yield "" if code.lower() in ("general", "@") else code


def _chunks(archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> Iterator[bytes]:
    """Yield the part in chunks, cut before a cell; what is wrong with a damaged one its reader reports."""
    with suppress(zipfile.BadZipFile, zlib.error, EOFError, OSError), archive.open(entry) as part:
        rest = b""
        while chunk := part.read(SCANNED_BYTES):
            data = rest + chunk
            end = max(data.rfind(b"<c "), data.rfind(b":c "), len(data) - LONGEST_CELL_BYTES)
            yield data[:end]
            rest = data[end:]
        yield rest
