"""HTML, EPUB and e-mail: the visible text. Scripts, styles and hidden elements are left out."""

import posixpath
import re
import zipfile
from collections.abc import Iterator
from email import message_from_bytes, policy
from email.message import EmailMessage
from itertools import islice
from typing import Any
from urllib.parse import unquote

from convmemory.documents.converters.base import (
    Converted,
    SourceFile,
    Unreadable,
    collected,
    decode,
    open_packed,
    parsed_xml,
)
from convmemory.documents.structure import Block

HEADINGS = {f"h{level}": level for level in range(1, 7)}
UNREAD = frozenset({
    "script", "style", "noscript", "template", "head", "iframe", "object", "svg", "math", "nav", "form", "button",
    "select", "textarea",
})  # fmt: skip
BREAKS = frozenset({
    "p", "div", "section", "article", "main", "header", "footer", "aside", "li", "ul", "ol", "dl", "dt", "dd", "table",
    "tr", "blockquote", "pre", "figure", "figcaption", "br", "hr", "address", "details", "summary", "tbody", "thead",
    "caption", "body",
})  # fmt: skip
CELLS = frozenset({"td", "th"})
MAIL_HEADERS = ("From", "To", "Cc", "Date")
MAX_HEADER_CHARS = 4_000
MAX_PARTS = 300
# The limit of an element's attributes: libxml2 compares each with all before it.
MAX_ATTRIBUTES = 1_000

_TAG = re.compile(r"""<[A-Za-z][^\s/>]*+((?:[\s/]*+[^\s=/>]++(?:\s*+=\s*+(?:"[^"]*+"|'[^']*+'|[^\s>]*+))?+)*+)""")
_ATTRIBUTE = re.compile(r"""[^\s=/>]++(?:\s*+=\s*+(?:"[^"]*+"|'[^']*+'|[^\s>]*+))?+""")


def convert_html(file: SourceFile) -> Converted:
    """Convert HTML, with headings by their elements. Raises: Unreadable."""
    root = _tree(file.text())
    title = root.find(".//title") if root is not None else None
    blocks = collected(html_blocks(root), file)
    return Converted(blocks, title=" ".join((title.text or "").split()) if title is not None else "")


def convert_epub(file: SourceFile) -> Converted:
    """Convert the chapters in the order of the book. Raises: Unreadable."""
    with open_packed(file) as archive:
        try:
            # The book's title and its chapters' names in the archive, each once.
            container = parsed_xml(archive.read("META-INF/container.xml"))
            place = next(container.iter("{*}rootfile")).get("full-path")
            book = parsed_xml(archive.read(place))
            files = {item.get("id"): item.get("href") for item in book.iter("{*}item")}
            folder = posixpath.dirname(place)
            names = [files.get(entry.get("idref")) for entry in book.iter("{*}itemref")]
            known = set(archive.namelist())
            chapters = [
                posixpath.normpath(posixpath.join(folder, unquote(name.partition("#")[0]))) for name in names if name
            ]
            title = next((node.text or "" for node in book.iter("{*}title")), "")
            title, chapters = " ".join(title.split()), list(dict.fromkeys(name for name in chapters if name in known))
            texts = (decode(archive.read(name)) for name in file.watched(chapters))
            blocks = collected((block for text in texts for block in html_blocks(_tree(text))), file)
        except (KeyError, StopIteration, ValueError, zipfile.BadZipFile, SyntaxError) as error:
            raise Unreadable("broken", "The book is damaged: its list of chapters cannot be read.") from error
    return Converted(blocks, title=title)


def convert_email(file: SourceFile) -> Converted:
    """Convert an e-mail: subject and senders, then the text; attachments are listed and not opened."""
    message = message_from_bytes(file.path.read_bytes(), policy=_BoundedMail(message_factory=_PartCounter()))
    assert isinstance(message, EmailMessage)
    subject = " ".join(str(message.get("Subject", "")).split())
    said = "".join(f"{name}: {message[name]}\n" for name in MAIL_HEADERS if message[name])
    blocks = [Block(f"{subject or file.stem}\n\n", level=1), Block(f"{said}\n")]
    body = message.get_body(("plain", "html"))
    if body is not None:
        content = decode(bytes(body.get_payload(decode=True) or b""))
        blocks += (
            collected(html_blocks(_tree(content)), file) if body.get_content_type() == "text/html" else [Block(content)]
        )
    names = [name for part in message.iter_attachments() if (name := part.get_filename())]
    notes = [f"Attachments were not read: {', '.join(names[:20])}. Upload them by themselves."] if names else []
    return Converted(blocks, title=subject, notes=notes)


class _BoundedMail(policy.EmailPolicy):
    """Cuts headers before they are parsed, which takes quadratic time in a list of addresses or encoded words."""

    def header_source_parse(self, sourcelines: list[str]) -> tuple[str, str]:
        name, value = super().header_source_parse(sourcelines)
        return name, value[:MAX_HEADER_CHARS]


class _PartCounter:
    """Creates the parts of one message, up to a limit. Raises: Unreadable."""

    def __init__(self) -> None:
        self._count = 0

    def __call__(self, policy: Any = None) -> EmailMessage:
        self._count += 1
        if self._count > MAX_PARTS:
            raise Unreadable(
                "too_large", f"The e-mail has more than {MAX_PARTS} parts or messages in it: save them by themselves."
            )
        return EmailMessage(policy)


def html_blocks(root: Any) -> Iterator[Block]:
    """Yield headings and paragraphs of a tree, walked without recursion."""
    if root is None:
        return
    words: list[str] = []
    level = 0
    for event, tag, text in _events(root):
        if event == "text":
            words.append(text)
        elif tag in HEADINGS or tag in BREAKS:
            yield from _flushed(words, level)
            words, level = [], HEADINGS[tag] if event == "start" and tag in HEADINGS else 0
        elif tag in CELLS and event == "end":
            words.append(" | ")
    yield from _flushed(words, level)


def _flushed(words: list[str], level: int) -> Iterator[Block]:
    said = " ".join("".join(words).split()).strip("| ")
    if said:
        yield Block(f"{said}\n\n", level=level, title=said if level else "")


def _events(root: Any) -> Iterator[tuple[str, str, str]]:
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
        if not tag or name in UNREAD or node.get("hidden") is not None:
            continue
        yield "start", name, ""
        if node.text:
            yield "text", "", node.text
        waiting.append(("end", node))
        for child in reversed(node):
            if child.tail:
                waiting.append(("text", child.tail))
            waiting.append(("start", child))


def _tree(text: str) -> Any:
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
