"""The paragraphs and tables of a document in XML, while its elements are read in order."""

from dataclasses import dataclass, field

from convmemory.documents.converters.base import joined_row

# Names of elements in Office Open XML and in OpenDocument.
PARAGRAPHS, TABLES = frozenset({"p", "h"}), frozenset({"tbl", "table"})
ROWS, CELLS = frozenset({"tr", "table-row"}), frozenset({"tc", "table-cell"})


@dataclass(slots=True)
class Flow:
    """The open paragraphs and table cells; the text of a table in a cell is that of the outermost cell."""

    paragraphs: list[list[str]] = field(default_factory=list)
    rows: list[str] = field(default_factory=list)
    cells: list[list[str]] = field(default_factory=list)
    after: list[str] = field(default_factory=list)
    notes: list[tuple[str, str]] = field(default_factory=list)
    depth: int = 0

    @property
    def is_outside(self) -> bool:
        return not self.depth and not self.paragraphs

    def begin(self, name: str) -> None:
        if name in PARAGRAPHS:
            self.paragraphs.append([])
        elif name in TABLES:
            self.depth += 1
        elif name in ROWS and self.depth == 1:
            self.cells = []
        elif name in CELLS and self.depth == 1:
            self.cells.append([])

    def end(self, name: str, *, is_left_out: bool = False) -> str:
        """Return the text of a paragraph or of an outermost table that ends; that of a text box comes after."""
        text = ""
        if name in PARAGRAPHS:
            text = "".join(self.paragraphs.pop())
            if self.depth and self.cells:
                self.cells[-1] += (text, " ")
            elif self.paragraphs:
                self.after.append(f"{text}\n\n")
        elif name in ROWS and self.depth == 1 and not is_left_out:
            self.rows.append(joined_row("".join(cell) for cell in self.cells))
        elif name in TABLES:
            self.depth -= 1
            if not self.depth:
                text, self.rows = "".join(f"{row}\n" for row in self.rows), []
        return text
