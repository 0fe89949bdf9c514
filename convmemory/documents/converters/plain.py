"""Formats whose text is used unchanged: Markdown, plain text, code, comma-separated values.

The document's text is the file's own, so that offsets into it are offsets into the file. Each line is read once.
"""

import re
from collections.abc import Iterator

from convmemory.documents.converters.base import Converted, SourceFile, collected
from convmemory.documents.structure import Block

CODE_SUFFIXES = frozenset({
    ".py", ".pyi", ".js", ".mjs", ".cjs", ".jsx", ".ts", ".tsx", ".go", ".rs", ".java", ".kt", ".scala", ".c", ".h",
    ".cc", ".cpp", ".hpp", ".cs", ".rb", ".php", ".swift", ".sh", ".bash", ".sql", ".r", ".jl", ".lua", ".pl", ".ex",
    ".exs", ".hs", ".ml", ".clj", ".dart", ".vue", ".css", ".scss", ".tf", ".proto", ".graphql", ".zig", ".nim",
})  # fmt: skip
MARKDOWN_SUFFIXES = frozenset({".md", ".markdown", ".mdx", ".rst"})
TITLE_CHARS = 120
MAX_LINE_CHARS = 400  # only lines up to this length can begin a function; longer ones are data
MAX_FIELDS_CHARS = 4_000  # the limit of the front matter of a Markdown file

_ATX = re.compile(r"[ ]{0,3}(#{1,6})(?:[ \t]|$)")
_FENCE = re.compile(r"[ ]{0,3}(`{3,}|~{3,})")
_FIELDS = re.compile(r"---[ \t]*+\r?\n(?=[\w-]++[ \t]*+:)")
_END_OF_FIELDS = re.compile(r"^---[ \t]*+\r?$", re.MULTILINE)
_DEFINITION = re.compile(
    r"(?:(?:export|default|public|private|protected|internal|static|final|abstract|async|pub(?:\([a-z]{1,9}\))?|"
    r"unsafe|virtual|override|inline|sealed|data|open|const)[ \t]++){0,5}"
    r"(?:class|def|function|func|fn|fun|interface|struct|enum|trait|impl|module|namespace|type|object|record|"
    r"create[ \t]++(?:table|view|function|index)|sub|proc|macro_rules!)(?=[ \t(<{:])",
    re.IGNORECASE,
)


def convert_markdown(file: SourceFile) -> Converted:
    """Convert Markdown: headings are `#` lines and underlined lines, but not inside code fences."""
    text = file.text()
    heading = next(_markdown_headings(text), None)
    return Converted(collected(markdown_blocks(text), file), title=heading[3][:TITLE_CHARS] if heading else "")


def convert_text(file: SourceFile) -> Converted:
    """Convert plain text, which has no headings; it is split at paragraphs."""
    return Converted([Block(file.text())])


def convert_code(file: SourceFile) -> Converted:
    """Convert code: a section for each class and function, recognised by their first lines."""
    return Converted(collected(code_blocks(file.text()), file))


def markdown_blocks(text: str) -> Iterator[Block]:
    """Yield the text between headings, and each heading as a block of its own."""
    yield from _between(text, list(_markdown_headings(text)))


def end_of_fields(text: str) -> int:
    """Return the end of the front matter between rules at the start of Markdown; 0 without any."""
    opens = _FIELDS.match(text)
    closes = _END_OF_FIELDS.search(text, opens.end(), MAX_FIELDS_CHARS) if opens else None
    return closes.end() if closes else 0


def code_blocks(text: str) -> Iterator[Block]:
    """Yield the text between definitions; lines that are indented further belong to the definition."""
    headings: list[tuple[int, int, int, str]] = []
    indents: list[int] = []
    position = 0
    for line in text.splitlines(keepends=True):
        if len(line) <= MAX_LINE_CHARS and _DEFINITION.match(line.lstrip(" \t")):
            indent = len(line) - len(line.lstrip(" \t"))
            while indents and indents[-1] >= indent:
                indents.pop()
            indents.append(indent)
            if len(indents) <= 2:  # functions inside functions belong to the outer one
                headings.append((position, position + len(line), len(indents), line.strip().rstrip("{:( ")))
        position += len(line)
    yield from _between(text, headings)


def _markdown_headings(text: str) -> Iterator[tuple[int, int, int, str]]:
    """Yield start, end, level and title of each heading."""
    fence, before = "", (0, "")
    position = end_of_fields(text)
    for line in text[position:].splitlines(keepends=True):
        stripped = line.rstrip()
        mark = _FENCE.match(stripped)
        if fence:
            fence = "" if mark and mark[1].startswith(fence) and not stripped.strip().strip(fence[0]) else fence
        elif mark:
            fence = mark[1]
        elif heading := _ATX.match(stripped):
            yield position, position + len(line), len(heading[1]), stripped.strip().strip("#").strip()
        elif set(stripped.strip()) in ({"="}, {"-"}) and _is_paragraph_line(before[1]):
            yield before[0], position + len(line), 1 if "=" in stripped else 2, before[1].strip()
        before = (position, "" if fence or mark else stripped)
        position += len(line)


def _is_paragraph_line(line: str) -> bool:
    start = line.lstrip()
    return bool(start) and len(line) <= MAX_LINE_CHARS and not start.startswith(("#", ">", "|", "-", "*"))


def _between(text: str, headings: list[tuple[int, int, int, str]]) -> Iterator[Block]:
    before = text[: headings[0][0]] if headings else text
    if before:
        yield Block(before)
    starts = [start for start, *_ in headings[1:]]
    for (start, end, level, title), following in zip(headings, [*starts, len(text)], strict=bool(headings)):
        yield Block(text[start:end], level=level, title=title)
        if end < following:
            yield Block(text[end:following])


def convert_csv(file: SourceFile) -> Converted:
    """Convert comma-separated values: the first line, the names of the columns, is the heading of all others."""
    text = file.text()
    first = len(text.splitlines(keepends=True)[0]) if text else 0
    return Converted([Block(text[:first], level=1, title=text[:first].strip()), Block(text[first:])])
