"""Draws pages of a PDF as pictures with the positions of their words, in a child process under limits.

Arguments: the file, the first page, the number of pages, the folder for the pictures, and the limits of the process. It
receives no address, password or key of the installation, and is confined to the file and the folder.
"""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from convmemory.core.processes.child_limits import run_under_limits
from convmemory.core.processes.confinement import Access
from convmemory.documents.converters.base import SourceFile
from convmemory.documents.converters.pdf import HYPHENS, open_pdf

MAX_WIDTH, MAX_HEIGHT = 1_200, 3_200
MIN_SIDE, MAX_SIDE = 1.0, 100_000.0  # in points; a page of 14,400 is the largest that Acrobat opens
# The largest ratio of the longer side to the shorter.
MAX_RATIO = 100.0
QUALITY = 80
# At most this many characters of a page get a position.
MAX_PAGE_CHARS = 40_000
SOFT_HYPHEN = "\u00ad"
LINE_ENDS = "\r\n"

Word = tuple[str, int, int, int, int]


def _work(arguments: Sequence[str]) -> None:
    path, first, count, folder = arguments
    draw_pages(SourceFile(Path(path), ""), first=int(first), count=int(count), folder=Path(folder))


def _access(arguments: Sequence[str]) -> Access:
    path, _, _, folder = arguments
    return Access([Path(path)], [Path(folder)])


def draw_pages(file: SourceFile, *, first: int, count: int, folder: Path) -> None:
    """Write the picture and the words of up to `count` pages from `first` on. Raises: Unreadable.

    `3.webp` is page 3; `3.json` has its `width` and `height` in pixels and its `lines`: for each word the text and its
    left, top, right and bottom edge. Whatever page size the file claims, a picture has at most `MAX_WIDTH` x
    `MAX_HEIGHT`; a page with implausible sides is not drawn.
    """
    import pypdfium2

    pdf = open_pdf(pypdfium2, file)
    try:
        for number in range(first, min(first + count, len(pdf) + 1)):
            page = pdf[number - 1]
            width, height = page.get_size()
            if min(width, height) >= MIN_SIDE and max(width, height) <= min(MAX_SIDE, MAX_RATIO * min(width, height)):
                bitmap = page.render(scale=min(MAX_WIDTH / width, MAX_HEIGHT / height))
                picture = bitmap.to_pil()
                picture.convert("RGB").save(folder / f"{number}.webp", "WEBP", quality=QUALITY)
                textpage = page.get_textpage()
                try:
                    lines = list(_lines(textpage, bitmap.get_posconv(page)))
                finally:
                    textpage.close()
                facts = {"width": picture.width, "height": picture.height, "lines": lines}
                (folder / f"{number}.json").write_text(json.dumps(facts), encoding="utf-8")
            page.close()
    finally:
        pdf.close()


def _lines(textpage: Any, places: Any) -> Iterator[list[Word]]:
    """Yield the page's words, line by line."""
    from pypdfium2 import raw

    line: list[Word] = []
    chars: list[tuple[str, int]] = []
    for index in range(min(textpage.count_chars(), MAX_PAGE_CHARS)):
        code = raw.FPDFText_GetUnicode(textpage, index)
        char = chr(code) if 0 < code < 0xD800 or 0xDFFF < code < 0x110000 else ""
        if char in HYPHENS:
            char = SOFT_HYPHEN
        if char and not char.isspace() and (char.isprintable() or char == SOFT_HYPHEN):
            chars.append((char, index))
        elif char.isspace():
            line += [_word(textpage, places, chars)] if chars else []
            chars = []
            if char in LINE_ENDS and line:
                yield line
                line = []
    line += [_word(textpage, places, chars)] if chars else []
    if line:
        yield line


def _word(textpage: Any, places: Any, chars: list[tuple[str, int]]) -> Word:
    """Return the word with the box around its characters, in pixels of the picture."""
    boxes = [textpage.get_charbox(index, loose=True) for _, index in chars]
    one = places.to_bitmap(min(box[0] for box in boxes), max(box[3] for box in boxes))
    other = places.to_bitmap(max(box[2] for box in boxes), min(box[1] for box in boxes))
    (left, right), (top, bottom) = (sorted(map(int, pair)) for pair in zip(one, other, strict=True))
    return "".join(char for char, _ in chars), left, top, right, bottom


if __name__ == "__main__":
    run_under_limits(_work, access=_access)
