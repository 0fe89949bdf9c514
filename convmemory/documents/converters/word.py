"""Word files: paragraphs, tables, text boxes and notes, as they read with all tracked changes accepted.

Footnotes, endnotes and comments follow the paragraph or table that refers to them; headers and footers come last.
"""

import re
from collections.abc import Iterator
from typing import Any

from convmemory.documents.converters.base import DAMAGED, Converted, SourceFile, Unreadable, collected, joined_row
from convmemory.documents.converters.flow import Flow
from convmemory.documents.converters.ooxml import Package, Relation, attribute, events, name_of
from convmemory.documents.structure import Block

# What was deleted or moved away, instructions of fields, and properties, whose elements share names with text.
SKIPPED = frozenset({
    "del", "moveFrom", "instrText", "delText", "delInstrText", "pPr", "rPr", "tblPr", "trPr", "tcPr", "sectPr",
    "tblGrid", "sdtPr",
})  # fmt: skip
SEPARATORS = ("separator", "continuationSeparator", "continuationNotice")
NOTES = {"footnoteReference": "footnote", "endnoteReference": "endnote", "commentReference": "comment"}
CHARACTERS = {"tab": "\t", "ptab": "\t", "br": "\n", "cr": "\n", "noBreakHyphen": "-"}
_CODE = re.compile("[0-9A-Fa-f]{4}")
_HEADING = re.compile(r"(?:heading|überschrift|titre) ([1-9])", re.IGNORECASE)


def convert_docx(file: SourceFile) -> Converted:
    """Convert a Word file. Raises: Unreadable."""
    package = Package.open(file)
    with package.archive:
        part = package.main_part()
        root = package.xml(part)
        if root is None:
            raise Unreadable("broken", DAMAGED)
        blocks = collected(_Reader(package, part).document(root), file)
        package.miss_parts_of(part)
        return Converted(blocks, title=package.title(), coverage=package.coverage)


class _Reader:
    """Reads the document's part, and the parts that it names."""

    def __init__(self, package: Package, part: str) -> None:
        self._package, self._coverage = package, package.coverage
        self._part = part
        # The heading above, which stands for a page.
        self._here = ("", "")
        relations = package.relations(part)
        self._relations = {relation.id: relation for relation in relations}
        self._by_kind: dict[str, list[Relation]] = {}
        for relation in relations:
            self._by_kind.setdefault(relation.kind, []).append(relation)
        self._levels = self._levels_of_styles()
        # The elements of notes by kind and id, each taken out when it is read.
        self._notes = {
            kind: {attribute(node, "id"): node for node in self._elements_of(f"{kind}s", kind)}
            for kind in NOTES.values()
        }

    def document(self, root: Any) -> Iterator[Block]:
        """Yield the blocks of the document, then of its notes that nothing refers to, of its headers and footers."""
        yield from self._blocks(root, self._relations)
        for kind in NOTES.values():
            for note_id in list(self._notes[kind]):
                yield from self._note(kind, note_id)
        shown = set()
        for kind in ("header", "footer"):
            for relation in self._by_kind.get(kind, ()):
                root = self._package.xml_once(relation.target)
                relations = {each.id: each for each in self._package.relations(relation.target)}
                text = "".join(block.text for block in self._blocks(root, relations)) if root is not None else ""
                if text.strip() and text not in shown:
                    shown.add(text)
                    self._coverage.read[kind] += 1
                    yield Block(text)

    def _blocks(self, root: Any, relations: dict[str, Relation]) -> Iterator[Block]:
        """Yield paragraphs and tables, each followed by the text boxes, notes and charts in it."""
        flow = Flow()
        for begins, name, node in events(root, SKIPPED):
            if begins:
                flow.begin(name)
                if flow.paragraphs and name != "p":
                    flow.paragraphs[-1].append(self._text_of(name, node))
                    if name in NOTES:
                        flow.notes.append((NOTES[name], attribute(node, "id")))
                    elif texts := self._package.drawing_text(relations, node):
                        flow.after.append(f"{joined_row(texts)}\n\n")
                continue
            text = flow.end(name, is_left_out=node.find("{*}trPr/{*}del") is not None)
            if flow.is_outside and name == "p" and text.strip():
                yield self._paragraph(node, text)
            elif flow.is_outside and name == "tbl":
                yield Block(f"{text}\n")
            if flow.is_outside and name in ("p", "tbl"):
                after, notes, flow.after, flow.notes = flow.after, flow.notes, [], []
                yield from (Block(text) for text in after if text.strip())
                for kind, note_id in notes:
                    yield from self._note(kind, note_id)

    def _paragraph(self, node: Any, text: str) -> Block:
        style = level = ""
        properties = node.find("{*}pPr")
        if properties is not None:
            style = next((attribute(item, "val") for item in properties.iterchildren("{*}pStyle")), "")
            level = next((attribute(item, "val") for item in properties.iterchildren("{*}outlineLvl")), "")
        number = self._levels.get(style, 0) or _level(level)
        if number:
            self._here = ("heading", " ".join(text.split()))
        return Block(f"{text}\n\n", level=number, title=text if number else "")

    def _text_of(self, name: str, node: Any) -> str:
        """Return the characters of one element of a paragraph; count a picture."""
        if name == "t":
            return node.text or ""
        if name == "sym":
            code = attribute(node, "char")
            if _CODE.fullmatch(code) and int(code, 16) < 0xD800:
                return chr(int(code, 16))
            # Symbol fonts are addressed in Unicode's private use area.
            self._coverage.miss("symbol", *self._here)
        if name in ("pic", "imagedata"):
            self._coverage.miss("picture", *self._here)
        elif name == "docPr" and (text := node.get("descr", "").strip()):
            return f" {text} "
        return CHARACTERS.get(name, "")

    def _note(self, kind: str, note_id: str) -> Iterator[Block]:
        node = self._notes[kind].pop(note_id, None)
        if node is None or attribute(node, "type") in SEPARATORS:
            return
        blocks = [block for block in self._blocks(node, {}) if block.text.strip()]
        author = attribute(node, "author") if kind == "comment" else ""
        if blocks:
            self._coverage.read[kind] += 1
        yield from (Block(f"{author}: {block.text}" if author else block.text) for block in blocks)

    def _elements_of(self, kind: str, name: str) -> Iterator[Any]:
        for relation in self._by_kind.get(kind, ()):
            root = self._package.xml_once(relation.target)
            yield from (node for node in (root if root is not None else ()) if name_of(node) == name)

    def _levels_of_styles(self) -> dict[str, int]:
        """Return the levels of the heading styles by their ids."""
        levels = {}
        for node in self._elements_of("styles", "style"):
            name = next((attribute(item, "val") for item in node.iterchildren("{*}name")), "")
            outline = next((attribute(item, "val") for item in node.iterfind("{*}pPr/{*}outlineLvl")), "")
            matched = _HEADING.fullmatch(name)
            level = 1 if name == "Title" else int(matched[1]) if matched else _level(outline)
            if level:
                levels[attribute(node, "styleId")] = level
        return levels


def _level(outline: str) -> int:
    """Return the level of an outline level of Word, which counts from 0 and has 9 for text."""
    return int(outline) + 1 if outline in tuple("012345678") else 0
