"""PDF through PDFium: the text of each page, with headings from the outline or from the font size.

Scanned pages have no text; if no page has any, the file is unreadable unless OCR is switched on.
"""

import re
import shutil
import subprocess
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from io import BytesIO
from typing import Any

from convmemory.documents.converters.base import Converted, SourceFile, Unreadable, collected
from convmemory.documents.structure import Block

PASSWORD, BROKEN = 4, 3  # PDFium's error codes
MIN_CHARS_PER_PAGE = 2  # with fewer on average, the pages are pictures
HEADING_SCALE = 1.15  # type larger than the body's by this factor is a heading
MAX_HEADING_CHARS = 120
MAX_LINES = 1_000_000
FULL_LINE_SHARE = 0.7  # a line shorter than this share of the widest ends its paragraph
# 300 dots per inch, tesseract's recommended resolution; PDF measures in points, 72 per inch.
OCR_SCALE = 300 / 72
OCR_TIMEOUT_S = 60

# PDFium's characters for a hyphen at which a word is split.
HYPHENS = ("\ufffe", "\x02")
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f]")


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
        lines = chars = 0
        for index in file.watched(range(count)):
            pages.append(_lines_of(pdf[index]))
            lines += len(pages[-1])
            chars += sum(len(line.text) for line in pages[-1])
            if lines > MAX_LINES or chars > file.limits.max_chars:
                raise Unreadable(
                    "too_large",
                    f"The PDF has more than {MAX_LINES:,} lines or {file.limits.max_chars:,} characters "
                    "(MAX_DOCUMENT_CHARS): split it.",
                )
        notes: list[str] = []
        if sum(len(line.text) for page in pages for line in page) < MIN_CHARS_PER_PAGE * count:
            pages = _pages_by_ocr(pdf, file)
            notes.append("Its pages are pictures: their text was read by OCR and can hold errors.")
        title = str(pdf.get_metadata_dict(skip_empty=True).get("Title", ""))
        # Level and title of the outline's entries by page, from 1.
        outline: dict[int, list[tuple[int, str]]] = {}
        try:
            for number, entry in enumerate(pdf.get_toc(max_depth=6)):
                if number >= 20_000:
                    break
                destination = entry.get_dest()
                target = destination.get_index() if destination else None
                if target is not None:
                    outline.setdefault(target + 1, []).append((entry.level + 1, entry.get_title()))
        except Exception:  # noqa: S110 (a damaged outline is no reason to refuse the text)
            pass
        return Converted(collected(_blocks(pages, outline), file), title=title, pages=count, notes=notes)
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


# --- lines ----------------------------------------------------------------------------------------


def _lines_of(page: Any) -> list[Line]:
    textpage = page.get_textpage()
    try:
        text = textpage.get_text_range()
        is_aligned = len(text) == textpage.count_chars()
        lines = []
        for start, said in lines_of_text(text):
            if said.strip():
                if is_aligned:
                    # The font size at a character, in points, rounded so that equal sizes compare as equal.
                    _, bottom, _, top = textpage.get_charbox(start + len(said) - len(said.lstrip()), loose=True)
                    height = round(float(top - bottom) * 2) / 2
                else:
                    height = 0.0
                lines.append(Line(_CONTROL.sub(" ", said).strip(), height))
        return lines
    finally:
        textpage.close()
        page.close()


def lines_of_text(text: str) -> Iterator[tuple[int, str]]:
    """Yield the start of each line among the page's characters, and its text with hyphenated words joined."""
    begun: tuple[int, str] | None = None
    position = 0
    for raw in text.splitlines(keepends=True):
        said = raw.rstrip("\r\n")
        start, before = begun or (position, "")
        if said.endswith(HYPHENS):
            begun = (start, before + said[:-1])
        else:
            yield start, before + said
            begun = None
        position += len(raw)
    if begun:
        yield begun


# --- blocks ---------------------------------------------------------------------------------------


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
    said = _squeezed(line.text)
    for place, (level, title) in enumerate(waiting[:8]):
        wanted = _squeezed(title)
        is_numbered = len(wanted) > 8 and said.endswith(wanted) and len(said) - len(wanted) < 12
        if wanted and (said == wanted or is_numbered):
            del waiting[place]
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
    return {height: min(place, 3) for place, height in enumerate(larger, 1)}


# --- pictures of text -----------------------------------------------------------------------------


def _pages_by_ocr(pdf: Any, file: SourceFile) -> list[list[Line]]:
    if not file.limits.ocr:
        raise Unreadable(
            "no_text",
            "The PDF holds pictures of pages and no text. Run OCR over it, with `ocrmypdf in.pdf out.pdf` for "
            "example, and upload the result; or whoever runs the server installs tesseract and sets DOCUMENT_OCR=1.",
        )
    tesseract = shutil.which("tesseract")
    if tesseract is None:
        raise Unreadable("no_text", "The PDF holds pictures of pages, and DOCUMENT_OCR=1 needs tesseract: install it.")
    found: list[list[Line]] = []
    for index in file.watched(range(len(pdf))):
        page = pdf[index]
        picture = BytesIO()
        page.render(scale=OCR_SCALE, grayscale=True).to_pil().save(picture, "PNG")
        command = [tesseract, "stdin", "stdout"]
        done = subprocess.run(  # noqa: S603
            command, input=picture.getvalue(), capture_output=True, timeout=OCR_TIMEOUT_S, check=False
        )
        text = done.stdout.decode("utf-8", "replace")
        found.append([Line(line.strip(), 0.0) for line in text.splitlines() if line.strip()])
    return found
