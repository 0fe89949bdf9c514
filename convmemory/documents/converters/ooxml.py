"""Office Open XML: the parts of a package, their relations, and the text of drawings. Macros are never read.

A part that is named often is read once. Source: ECMA-376, parts 1 and 2.
"""

import posixpath
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

from convmemory.documents.converters.base import DAMAGED, SourceFile, Unreadable, joined_row, open_packed, parsed_xml
from convmemory.documents.converters.coverage import Coverage, Location
from convmemory.documents.structure import Block

Event = tuple[bool, str, Any]
"""Whether an element begins, its name without the namespace, and the element."""

# Relations to parts that hold no text which a reader of the document sees, or that are reported as missed.
DRAWING_SKIPPED = frozenset({"rPr", "pPr", "endParaRPr", "defRPr", "lstStyle", "bodyPr", "nvPr"})
TITLES = ("title", "ctrTitle")
MISSED = {
    "package": "embedded file",
    "oleObject": "embedded file",
    "aFChunk": "embedded file",
    "control": "control",
    "vbaProject": "macro",
    "video": "recording",
    "audio": "recording",
}


@dataclass(frozen=True, slots=True)
class Relation:
    """A relation of a part: its id, the last word of its type, and the name of the other part."""

    id: str
    kind: str
    target: str
    is_external: bool


@dataclass(slots=True)
class Package:
    """An opened file of Word, PowerPoint or Excel."""

    archive: zipfile.ZipFile
    coverage: Coverage = field(default_factory=Coverage)
    _names: dict[str, str] = field(default_factory=dict)
    _read: set[str] = field(default_factory=set)

    @classmethod
    def open(cls, file: SourceFile) -> "Package":
        """Open the package of a file. Raises: Unreadable."""
        archive = open_packed(file)
        return cls(archive, _names={name.lower(): name for name in archive.namelist()})

    def main_part(self) -> str:
        """Return the name of the document's part. Raises: Unreadable."""
        for relation in self.relations(""):
            if relation.kind == "officeDocument":
                return relation.target
        raise Unreadable("broken", DAMAGED)

    def entry(self, name: str) -> zipfile.ZipInfo | None:
        """Return a part's entry in the archive."""
        actual = self._names.get(name.lower())
        return self.archive.getinfo(actual) if actual else None

    def xml(self, name: str) -> Any:
        """Return the root of a part, None if it is missing or damaged."""
        try:
            return parsed_xml(self.archive.read(self._names[name.lower()]))
        except (KeyError, SyntaxError, zipfile.BadZipFile, NotImplementedError, zlib.error, EOFError, OSError):
            return None

    def xml_once(self, name: str) -> Any:
        """Return the root of a part the first time, None afterwards; count one that is missing or damaged."""
        if name in self._read:
            return None
        self._read.add(name)
        root = self.xml(name)
        if root is None:
            self.coverage.miss("damaged part", "", posixpath.basename(name))
        return root

    def relations(self, part: str) -> list[Relation]:
        """Return the relations of a part, those of the package for ""."""
        folder, name = posixpath.split(part)
        root = self.xml(posixpath.join(folder, "_rels", f"{name}.rels"))
        relations = []
        for node in root.iter("{*}Relationship") if root is not None else ():
            target, is_external = node.get("Target", ""), node.get("TargetMode") == "External"
            if not is_external:
                target = posixpath.normpath(posixpath.join("/", folder, unquote(target))).lstrip("/")
            relations.append(Relation(node.get("Id", ""), node.get("Type", "").rpartition("/")[2], target, is_external))
        return relations

    def title(self) -> str:
        """Return the title among the file's properties."""
        for relation in self.relations(""):
            root = self.xml(relation.target) if relation.kind == "core-properties" else None
            if root is not None:
                return next((node.text or "" for node in root.iter("{*}title")), "")
        return ""

    def miss_parts_of(self, part: str, location: Location = ("", "")) -> None:
        """Count the embedded files, recordings and macros that a part names."""
        for relation in self.relations(part):
            if kind := MISSED.get(relation.kind):
                name = posixpath.basename(relation.target)
                self.coverage.miss(kind, *(location if location[0] else ("", name)))

    def drawing_text(self, relations: dict[str, Relation], node: Any) -> list[str]:
        """Return the texts of the chart or diagram that a drawing names."""
        texts = []
        for name, value in node.items():
            relation = relations.get(value) if name.startswith("{") else None
            if relation is None or relation.kind not in ("chart", "chartEx", "diagramData"):
                continue
            root = self.xml_once(relation.target)
            if root is not None:
                self.coverage.read["diagram" if relation.kind == "diagramData" else "chart"] += 1
                texts += [text for item in root.iter("{*}t", "{*}v") if (text := (item.text or "").strip())]
        return texts


def events(root: Any, skipped: frozenset[str]) -> Iterator[Event]:
    """Yield the start and the end of each element in document order, without recursion.

    Of alternatives for several versions of a program the first is taken; skipped elements are left out with all in
    them.
    """
    waiting: list[Event] = [(True, name_of(root), root)]
    while waiting:
        event = waiting.pop()
        begins, name, node = event
        if begins:
            if name in skipped or not name:
                continue
            waiting.append((False, name, node))
            children = [node[0]] if name == "AlternateContent" and len(node) else node
            waiting += [(True, name_of(child), child) for child in reversed(children)]
        yield event


def name_of(node: Any) -> str:
    """Return the name of an element without its namespace; "" for a comment."""
    return node.tag.rpartition("}")[2] if isinstance(node.tag, str) else ""


def attribute(node: Any, name: str) -> str:
    """Return an attribute by its name without the namespace, "" if it is missing."""
    return next((value for key, value in node.items() if key.rpartition("}")[2] == name), "")


def drawing_blocks(
    package: Package, root: Any, part: str, page: int, location: Location, *, without_title: bool = False
) -> Iterator[Block]:
    """Yield text boxes, tables, charts and diagrams, and count pictures."""
    relations = {relation.id: relation for relation in package.relations(part)}
    words: list[str] = []
    for begins, name, node in events(root, DRAWING_SKIPPED):
        text = ""
        if begins:
            if name in ("sp", "graphicFrame"):
                words = []
            elif name == "pic":
                package.coverage.miss("picture", *location)
            elif name == "cNvPr":
                text = node.get("descr", "").strip()
            else:
                text = joined_row(package.drawing_text(relations, node))
            words.append(_word(name, node))
        elif name == "p":
            words.append("\n")
        elif name == "tbl":
            text = "\n".join(joined_row(map(line_of, row.iterfind("{*}tc"))) for row in node.iterfind("{*}tr"))
        elif name == "sp":
            is_title = without_title and placeholder_of(node) in TITLES
            without_title = without_title and not is_title
            text = "" if is_title else "".join(words).strip()
        if text:
            yield Block(f"{text}\n\n", page=page)


def _word(name: str, node: Any) -> str:
    return (node.text or "") if name == "t" else "\n" if name == "br" else "\t" if name == "tab" else ""


def text_of(shape: Any) -> str:
    """Return the paragraphs of a shape."""
    words = [
        _word(name, node) if begins else "\n"
        for begins, name, node in events(shape, DRAWING_SKIPPED)
        if begins or name == "p"
    ]
    return "".join(words).strip()


def line_of(shape: Any) -> str:
    """Return the text of a shape in one line."""
    return " ".join(text_of(shape).split())


def placeholder_of(shape: Any) -> str:
    """Return the kind of placeholder that a shape fills, "" for other shapes."""
    placeholder = shape.find("{*}nvSpPr/{*}nvPr/{*}ph")
    return "" if placeholder is None else placeholder.get("type", "other")
