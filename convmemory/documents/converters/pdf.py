"""PDF through PDFium: the text of each page, with headings from the outline or from the font size.

Form fields and comments follow the text of their page. Scanned pages have no text: OCR reads them where it is switched
on, and otherwise they are noted; if no page has any text, the file is unreadable.
"""

import re
import shutil
import subprocess
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from io import BytesIO
from itertools import islice
from typing import Any

from convmemory.documents.converters.base import Converted, SourceFile, Unreadable, collected
from convmemory.documents.converters.coverage import ADVICE, Coverage
from convmemory.documents.structure import Block

PASSWORD, BROKEN = 4, 3  # PDFium's error codes
MIN_CHARS_PER_PAGE = 2  # with fewer on average, the pages are pictures
# A page with fewer characters, under a picture of at least this share of its area, is a scan with a stamp or a number.
SCAN_MAX_CHARS, SCAN_MIN_SHARE = 100, 0.5
# The limit of objects and annotations over all pages: a small file can name one page as all of them.
MAX_OBJECTS = 200_000
MAX_ANNOTATION_CHARS = 20_000
MAX_ATTACHMENTS = 1_000
HEADING_SCALE = 1.15  # type larger than the body's by this factor is a heading
MAX_HEADING_CHARS = 120
MAX_PDF_LINES = 1_000_000
FULL_LINE_SHARE = 0.7  # a line shorter than this share of the widest ends its paragraph
# 300 dots per inch, tesseract's recommended resolution; PDF measures in points, 72 per inch.
OCR_SCALE = 300 / 72
OCR_TIMEOUT_S = 60

# PDFium's characters for a hyphen at the end of a line, which it joins to the next one; and the soft hyphen.
HYPHENS = ("\ufffe", "\x02", "\u00ad")
_HYPHEN = "\ufffe"
_SPLIT_WORD = re.compile(f"(?<![^\\W_])[^\\W_]++(?:{_HYPHEN}[^\\W_]++)+")
_WORD = re.compile(r"[^\W_]++(?:-[^\W_]++)*")
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\uffff]")


@dataclass(frozen=True, slots=True)
class Line:
    """A line of a page and its font size, 0 if unknown."""

    text: str
    height: float


def convert(file: SourceFile) -> Converted:
    """Convert a PDF. Raises: Unreadable if it is encrypted, broken, too long or without text."""
    import pypdfium2

    pdf = open_pdf(pypdfium2, file)
    try:
        count = len(pdf)
        if not count:
            raise Unreadable("broken", "The PDF has no pages: save it again from the program that made it.")
        if count > file.limits.max_pages:
            most = f"{file.limits.max_pages:,} (MAX_DOCUMENT_PAGES)"
            raise Unreadable("too_large", f"The PDF has {count:,} pages; at most {most} are read: split it.")
        # The lines of each page. A small file can name one page of many lines as all of its pages.
        pages: list[list[Line]] = []
        parts = _Parts()
        lines = chars = 0
        for index in file.watched(range(count)):
            pages.append(parts.lines_of(pdf[index], index + 1))
            lines += len(pages[-1])
            chars += sum(len(line.text) for line in pages[-1])
            if lines > MAX_PDF_LINES or chars > file.limits.max_chars:
                raise Unreadable(
                    "too_large",
                    f"The PDF has more than {MAX_PDF_LINES:,} lines or {file.limits.max_chars:,} characters "
                    "(MAX_DOCUMENT_CHARS): split it.",
                )
        whole = iter(with_whole_words([line.text for page in pages for line in page]))
        pages = [[Line(next(whole), line.height) for line in page] for page in pages]
        notes = parts.notes
        if sum(len(line.text) for page in pages for line in page) < MIN_CHARS_PER_PAGE * count:
            parts.scans = [number for number, lines_of_page in enumerate(pages, 1) if not lines_of_page]
            if not file.limits.ocr:
                raise Unreadable("no_text", f"The PDF holds pictures of pages and no text. {ADVICE['page']}")
        if parts.scans and file.limits.ocr:
            for number, text in _by_ocr(pdf, parts.scans, file):
                pages[number - 1] += text
                if text:
                    parts.read_by_ocr.append(number)
            notes.append("The text of pages that are pictures was read by OCR and can hold errors.")
        coverage = parts.coverage(pdf)
        title = str(pdf.get_metadata_dict(skip_empty=True).get("Title", ""))
        blocks = collected(_blocks(pages, _outline_of(pdf)), file)
        return Converted(blocks, title=title, pages=count, notes=notes, coverage=coverage)
    finally:
        pdf.close()


def open_pdf(pypdfium2: Any, file: SourceFile) -> Any:
    """Open the file with PDFium. Raises: Unreadable if it is encrypted or broken."""
    try:
        return pypdfium2.PdfDocument(file.path)
    except pypdfium2.PdfiumError as error:
        if getattr(error, "err_code", None) == PASSWORD or "password" in str(error).lower():
            raise Unreadable(
                "encrypted", "The PDF is encrypted: open it with its password, save it without one, and upload that."
            ) from error
        raise Unreadable(
            "broken", "The PDF is damaged and cannot be opened: save it again from the program that made it."
        ) from error


def _outline_of(pdf: Any) -> dict[int, list[tuple[int, str]]]:
    """Return level and title of the outline's entries by page, from 1."""
    outline: dict[int, list[tuple[int, str]]] = {}
    # A damaged outline is no reason to refuse the text.
    with suppress(Exception):
        for entry in islice(pdf.get_toc(max_depth=6), 20_000):
            destination = entry.get_dest()
            target = destination.get_index() if destination else None
            if target is not None:
                outline.setdefault(target + 1, []).append((entry.level + 1, entry.get_title()))
    return outline


@dataclass(slots=True)
class _Parts:
    """Reads the pages, and counts their parts: pages that are pictures, pictures, annotations."""

    scans: list[int] = field(default_factory=list)
    read_by_ocr: list[int] = field(default_factory=list)
    pages: int = 0
    objects: int = 0
    notes: list[str] = field(default_factory=list)
    counted: Coverage = field(default_factory=Coverage)

    def lines_of(self, page: Any, number: int) -> list[Line]:
        """Return the lines of a page with its annotations, and close it."""
        self.pages += 1
        try:
            lines = _lines_of(page)
            chars = sum(len(line.text) for line in lines)
            pictures, largest, others = self._pictures_of(page)
            if chars < SCAN_MAX_CHARS and (largest >= SCAN_MIN_SHARE or (not chars and pictures + others)):
                self.scans.append(number)
            else:
                for _ in range(pictures):
                    self.counted.miss("picture", "page", number)
            return lines + [Line(text, 0.0) for text in self._annotations_of(page)]
        finally:
            page.close()

    def coverage(self, pdf: Any) -> Coverage:
        """Return the account of the whole file."""
        for number in sorted(set(self.scans) - set(self.read_by_ocr)):
            self.counted.miss("page", "page", number)
        self.counted.read["page"] = self.pages - len(self.counted.missed.get("page", ()))
        for index in range(min(pdf.count_attachments(), MAX_ATTACHMENTS)):
            self.counted.miss("attachment", "", str(pdf.get_attachment(index).get_name()))
        return self.counted

    def _is_over_limit(self) -> bool:
        self.objects += 1
        if self.objects <= MAX_OBJECTS:
            return False
        after = f"Objects after page {self.pages} were not examined for pictures and comments"
        self.notes = self.notes or [f"{after}: the file has more than {MAX_OBJECTS:,}."]
        return True

    def _pictures_of(self, page: Any) -> tuple[int, float, int]:
        """Return the number of pictures, the share of the page that the largest covers, and the other objects."""
        from pypdfium2 import raw

        pictures, others, largest = 0, 0, 0.0
        width, height = page.get_size()
        for item in page.get_objects(max_depth=3):
            if self._is_over_limit():
                break
            if item.type == raw.FPDF_PAGEOBJ_IMAGE:
                pictures += 1
                left, bottom, right, top = item.get_bounds()
                largest = max(largest, (right - left) * (top - bottom) / max(1.0, width * height))
            elif item.type != raw.FPDF_PAGEOBJ_FORM:
                others += 1
        return pictures, largest, others

    def _annotations_of(self, page: Any) -> Iterator[str]:
        """Yield the values of form fields, and the texts of comments."""
        from pypdfium2 import raw

        for index in range(raw.FPDFPage_GetAnnotCount(page)):
            if self._is_over_limit():
                return
            annotation = raw.FPDFPage_GetAnnot(page, index)
            if not annotation:
                continue
            try:
                kind = raw.FPDFAnnot_GetSubtype(annotation)
                is_field = kind == raw.FPDF_ANNOT_WIDGET
                text = "" if kind == raw.FPDF_ANNOT_POPUP else _value_of(annotation, "V" if is_field else "Contents")
                if text.strip():
                    name = _value_of(annotation, "T").strip()
                    self.counted.read["form field" if is_field else "comment"] += 1
                    yield f"{name}: {text}" if name else text
            finally:
                raw.FPDFPage_CloseAnnot(annotation)


def _value_of(annotation: Any, key: str) -> str:
    """Return a string of an annotation; "" if it has none, or one of more than `MAX_ANNOTATION_CHARS`."""
    from ctypes import create_string_buffer

    from pypdfium2 import raw

    encoded = key.encode()
    size = raw.FPDFAnnot_GetStringValue(annotation, encoded, None, 0)
    if not 2 < size <= 2 * MAX_ANNOTATION_CHARS:
        return ""
    buffer = create_string_buffer(size)
    raw.FPDFAnnot_GetStringValue(annotation, encoded, raw.FPDF_WCHAR.from_buffer(buffer), size)
    return _CONTROL.sub(" ", buffer.raw.decode("utf-16-le", "replace").rstrip("\x00"))


def _lines_of(page: Any) -> list[Line]:
    textpage = page.get_textpage()
    try:
        text = textpage.get_text_range()
        is_aligned = len(text) == textpage.count_chars()
        lines = []
        for start, line in lines_of_text(text):
            if line.strip():
                if is_aligned:
                    # The font size at a character, in points, rounded so that equal sizes compare as equal.
                    _, bottom, _, top = textpage.get_charbox(start, loose=True)
                    height = round(float(top - bottom) * 2) / 2
                else:
                    height = 0.0
                lines.append(Line(_CONTROL.sub(" ", line).strip(), height))
        return lines
    finally:
        textpage.close()


def lines_of_text(text: str) -> Iterator[tuple[int, str]]:
    """Yield the first character of each line among the page's, and its text, with `_HYPHEN` where lines are joined."""
    begun: list[str] = []
    start = position = 0
    for raw in text.splitlines(keepends=True):
        line = raw.rstrip("\r\n")
        if not begun:
            start = position + len(line) - len(line.lstrip())
        begun.append(line)
        if not line.endswith(HYPHENS):
            yield start, "".join(begun).replace("\u00ad", "").replace("\x02", _HYPHEN)
            begun = []
        position += len(raw)
    if begun:
        yield start, "".join(begun).replace("\u00ad", "").replace("\x02", _HYPHEN)


def with_whole_words(lines: Sequence[str]) -> list[str]:
    """Return the lines of a document with words joined that were hyphenated at line ends.

    The hyphen stays where the rest of the document writes the word so, or in doubt before numbers and capitals.
    """
    split = {word.casefold() for line in lines if _HYPHEN in line for word in _SPLIT_WORD.findall(line)}
    forms = {word.replace(_HYPHEN, between) for word in split for between in ("", "-")}
    written = {word for line in lines if forms for word in _WORD.findall(line.casefold()) if word in forms}

    def whole(split_word: re.Match[str]) -> str:
        word = split_word[0]
        for between in ("", "-"):
            if word.replace(_HYPHEN, between).casefold() in written:
                return word.replace(_HYPHEN, between)
        first, *rest = word.split(_HYPHEN)
        joined = [first]
        for part in rest:
            keeps = part[0].isdigit() or part[0].isupper() or joined[-1][-1].isdigit()
            joined += ["-", part] if keeps else [part]
        return "".join(joined)

    return [_SPLIT_WORD.sub(whole, line).replace(_HYPHEN, "-") if _HYPHEN in line else line for line in lines]


def _blocks(pages: Sequence[Sequence[Line]], outline: Mapping[int, Sequence[tuple[int, str]]]) -> Iterator[Block]:
    levels = {} if outline else _levels_by_height(pages)
    for number, lines in enumerate(pages, 1):
        # Headings and paragraphs; a page without text yields a line end, so that it counts as a page.
        waiting = list(outline.get(number, ()))
        widest = max((len(line.text) for line in lines), default=0)
        paragraph: list[str] = []
        if not lines:
            yield Block("\n", page=number)
        for line in lines:
            level = 0
            if len(line.text) <= MAX_HEADING_CHARS:
                level = _level_in_outline(line, waiting) or levels.get(line.height, 0)
            if paragraph and (level or len(paragraph[-1]) < widest * FULL_LINE_SHARE):
                yield _paragraph(paragraph, number)
                paragraph = []
            if level:
                yield Block(f"{line.text}\n\n", level=level, page=number, title=line.text)
            else:
                paragraph.append(line.text)
        if paragraph:
            yield _paragraph(paragraph, number)


def _paragraph(lines: Sequence[str], page: int) -> Block:
    return Block(" ".join(lines) + "\n\n", page=page)


def _level_in_outline(line: Line, waiting: list[tuple[int, str]]) -> int:
    """Return the level of the outline's entry for this line, and remove the entry from `waiting`."""
    line_text = _squeezed(line.text)
    for index, (level, title) in enumerate(waiting[:8]):
        title_text = _squeezed(title)
        is_numbered = len(title_text) > 8 and line_text.endswith(title_text) and len(line_text) - len(title_text) < 12
        if title_text and (line_text == title_text or is_numbered):
            del waiting[index]
            return level
    return 0


def _squeezed(text: str) -> str:
    return "".join(text[: 4 * MAX_HEADING_CHARS].casefold().split())


def _levels_by_height(pages: Sequence[Sequence[Line]]) -> dict[float, int]:
    """Return levels 1 to 3 for the font sizes larger than the body's, which most characters have."""
    chars: Counter[float] = Counter()
    for page in pages:
        for line in page:
            chars[line.height] += len(line.text)
    if not chars:
        return {}
    body = chars.most_common(1)[0][0]
    larger = sorted((height for height in chars if body and height >= body * HEADING_SCALE), reverse=True)
    return {height: min(level, 3) for level, height in enumerate(larger, 1)}


def _by_ocr(pdf: Any, numbers: Sequence[int], file: SourceFile) -> Iterator[tuple[int, list[Line]]]:
    """Yield pages and their lines as tesseract reads them. Raises: Unreadable."""
    tesseract = shutil.which("tesseract")
    if tesseract is None:
        raise Unreadable("no_text", "The PDF holds pictures of pages, and DOCUMENT_OCR=1 needs tesseract: install it.")
    for number in file.watched(numbers):
        page = pdf[number - 1]
        picture = BytesIO()
        page.render(scale=OCR_SCALE, grayscale=True).to_pil().save(picture, "PNG")
        page.close()
        command = [tesseract, "stdin", "stdout"]
        done = subprocess.run(  # noqa: S603
            command, input=picture.getvalue(), capture_output=True, timeout=OCR_TIMEOUT_S, check=False
        )
        text = done.stdout.decode("utf-8", "replace")
        yield number, [Line(line.strip(), 0.0) for line in text.splitlines() if line.strip()]
