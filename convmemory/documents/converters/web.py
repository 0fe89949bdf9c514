"""HTML and EPUB: the visible text. Scripts, styles and hidden elements are left out."""

import posixpath
import re
import zipfile
from collections.abc import Iterator
from itertools import islice
from typing import Any
from urllib.parse import unquote

from convmemory.core.files.charsets import declared_charset
from convmemory.documents.converters.base import (
    Converted,
    SourceFile,
    Unreadable,
    collected,
    open_packed,
    parsed_xml,
)
from convmemory.documents.converters.coverage import Coverage
from convmemory.documents.structure import Block

HEADINGS = {f"h{level}": level for level in range(1, 7)}
UNREAD = frozenset({"script", "style", "head", "annotation", "annotation-xml"})
MISSED = {
    "iframe": "embedded part", "frame": "embedded part", "object": "embedded part", "embed": "embedded part",
    "canvas": "embedded part", "nav": "navigation menu", "noscript": "hidden part", "template": "hidden part",
}  # fmt: skip
"""Elements that are not read, by the name under which they are counted if anything is in them."""
SEEN = {"img": "picture", "image": "picture", "video": "recording", "audio": "recording"}
# Values of these are for the page's program.
UNSHOWN_INPUTS = ("hidden", "password", "submit", "button", "checkbox", "radio", "image", "reset")
BREAKS = frozenset({
    "p", "div", "section", "article", "main", "header", "footer", "aside", "li", "ul", "ol", "dl", "dt", "dd", "table",
    "tr", "blockquote", "pre", "figure", "figcaption", "br", "hr", "address", "details", "summary", "tbody", "thead",
    "caption", "body", "form", "fieldset", "legend", "option", "select", "button", "textarea", "label", "svg", "math",
})  # fmt: skip
CELLS = frozenset({"td", "th"})
# The limit of an element's attributes: libxml2 compares each with all before it.
MAX_ATTRIBUTES = 1_000

_TAG = re.compile(r"""<[A-Za-z][^\s/>]*+((?:[\s/]*+[^\s=/>]++(?:\s*+=\s*+(?:"[^"]*+"|'[^']*+'|[^\s>]*+))?+)*+)""")
_ATTRIBUTE = re.compile(r"""[^\s=/>]++(?:\s*+=\s*+(?:"[^"]*+"|'[^']*+'|[^\s>]*+))?+""")


def convert_html(file: SourceFile) -> Converted:
    """Convert HTML, with headings by their elements. Raises: Unreadable."""
    root = tree_of(_page_of(file, file.path.read_bytes()))
    title = root.find(".//title") if root is not None else None
    coverage = Coverage()
    blocks = collected(html_blocks(root, coverage), file)
    return Converted(blocks, title=" ".join((title.text or "").split()) if title is not None else "", coverage=coverage)


def _page_of(file: SourceFile, data: bytes) -> str:
    return file.decoded(data, declared_charset(data))


def convert_epub(file: SourceFile) -> Converted:
    """Convert the chapters in the order of the book, then other pages in it. Raises: Unreadable."""
    coverage = Coverage()
    with open_packed(file) as archive:
        try:
            names = frozenset(archive.namelist())
            container = parsed_xml(archive.read("META-INF/container.xml"))
            path = next(container.iter("{*}rootfile")).get("full-path")
            book = parsed_xml(archive.read(path))
            title = next((node.text or "" for node in book.iter("{*}title")), "")
            chapters = []
            for name, is_in_spine in _pages_of_book(book, posixpath.dirname(path)):
                if name in names:
                    chapters.append(name)
                elif is_in_spine:
                    coverage.miss("chapter", "", posixpath.basename(name))
            _require_no_rights_management(archive, chapters)
            coverage.read["chapter"] = len(chapters)
            texts = (_page_of(file, archive.read(name)) for name in file.watched(chapters))
            blocks = collected((block for text in texts for block in html_blocks(tree_of(text), coverage)), file)
        except (KeyError, StopIteration, ValueError, zipfile.BadZipFile, SyntaxError) as error:
            raise Unreadable("broken", "The book is damaged: its list of chapters cannot be read.") from error
    return Converted(blocks, title=" ".join(title.split()), coverage=coverage)


def _pages_of_book(book: Any, folder: str) -> list[tuple[str, bool]]:
    """Return the names of all pages in the archive, each once, in reading order, and whether the order names them."""
    items = {item.get("id"): item for item in book.iter("{*}item")}
    # The table of contents names the chapters once more.
    items = {name: item for name, item in items.items() if "nav" not in item.get("properties", "").split()}
    ordered = [items[entry.get("idref")] for entry in book.iter("{*}itemref") if entry.get("idref") in items]
    others = [item for item in items.values() if item.get("media-type") == "application/xhtml+xml"]
    pages: dict[str, bool] = {}
    for item, is_in_spine in [*((item, True) for item in ordered), *((item, False) for item in others)]:
        if href := item.get("href"):
            pages.setdefault(posixpath.normpath(posixpath.join(folder, unquote(href.partition("#")[0]))), is_in_spine)
    return list(pages.items())


def _require_no_rights_management(archive: zipfile.ZipFile, chapters: list[str]) -> None:
    """Refuse a book whose chapters are encrypted; fonts often are. Raises: Unreadable."""
    if "META-INF/encryption.xml" not in archive.namelist():
        return
    encrypted = parsed_xml(archive.read("META-INF/encryption.xml")).iter("{*}CipherReference")
    if not {unquote(node.get("URI", "")) for node in encrypted}.isdisjoint(chapters):
        raise Unreadable(
            "encrypted", "The book is protected by digital rights management: upload a copy without protection."
        )


def html_blocks(root: Any, coverage: Coverage) -> Iterator[Block]:
    """Yield headings and paragraphs of a tree, walked without recursion; count what is not read."""
    if root is None:
        return
    words: list[str] = []
    level = 0
    for event, tag, text in _events(root, coverage):
        if event == "text":
            words.append(text)
        elif tag in HEADINGS or tag in BREAKS:
            yield from _flushed(words, level)
            words, level = [], HEADINGS[tag] if event == "start" and tag in HEADINGS else 0
        elif tag in CELLS and event == "end":
            words.append(" | ")
    yield from _flushed(words, level)


def _flushed(words: list[str], level: int) -> Iterator[Block]:
    text = " ".join("".join(words).split()).strip("| ")
    if text:
        yield Block(f"{text}\n\n", level=level, title=text if level else "")


def _events(root: Any, coverage: Coverage) -> Iterator[tuple[str, str, str]]:
    """Yield start, end and text of all elements that are read, in page order."""
    waiting: list[tuple[str, Any]] = [("start", root)]
    while waiting:
        event, node = waiting.pop()
        if event == "text":
            yield "text", "", node
            continue
        tag = node.tag if isinstance(node.tag, str) else ""
        name = tag.rpartition("}")[2].lower()
        if event == "end":
            yield "end", name, ""
            continue
        if not tag or name in UNREAD:
            continue
        missed = "hidden part" if node.get("hidden") is not None else MISSED.get(name)
        if missed:
            if missed == "embedded part" or any(text.strip() for text in node.itertext()):
                coverage.miss(missed)
            continue
        yield "start", name, ""
        if name in SEEN:
            coverage.miss(SEEN[name])
        if shown := _text_of_attributes(name, node):
            yield "text", "", f" {shown} "
        if node.text:
            yield "text", "", node.text
        waiting.append(("end", node))
        for child in reversed(node):
            if child.tail:
                waiting.append(("text", child.tail))
            waiting.append(("start", child))


def _text_of_attributes(name: str, node: Any) -> str:
    """Return the text of a picture, or that a field of a form holds."""
    if name == "img":
        return str(node.get("alt", "")).strip()
    if name == "input" and node.get("type", "text").lower() not in UNSHOWN_INPUTS:
        return str(node.get("value", "")).strip()
    return ""


def tree_of(text: str) -> Any:
    """Return the root of a page, None if it is blank. Raises: Unreadable."""
    from lxml import etree

    for tag in _TAG.finditer(text):
        attributes = _ATTRIBUTE.finditer(tag[1]) if len(tag[1]) >= 2 * MAX_ATTRIBUTES else iter(())
        if next(islice(attributes, MAX_ATTRIBUTES, None), None) is not None:
            most = f"{MAX_ATTRIBUTES:,}"
            raise Unreadable("too_large", f"An element has more than {most} attributes: save the page again.")
    parser = etree.HTMLParser(encoding="utf-8", no_network=True, remove_comments=True, remove_pis=True, huge_tree=False)
    data = text.encode("utf-8", "replace")
    return etree.fromstring(data, parser) if data.strip() else None
