"""Jupyter notebooks: text and code of the cells in order, each with its outputs. Source: nbformat 4.5."""

import json
import re
from collections.abc import Iterator
from typing import Any

from convmemory.documents.converters.base import Converted, SourceFile, Unreadable, collected
from convmemory.documents.converters.coverage import Coverage
from convmemory.documents.converters.plain import markdown_blocks
from convmemory.documents.converters.web import html_blocks, tree_of
from convmemory.documents.structure import Block

TEXT_TYPES = ("text/plain", "text/markdown", "text/latex", "application/json")
TITLE_CHARS = 120
_COLOUR = re.compile(r"\x1b\[[0-9;]{0,20}m")


def convert_notebook(file: SourceFile) -> Converted:
    """Convert a notebook. Raises: Unreadable."""
    try:
        notebook = json.loads(file.text(), strict=False)
        worksheets = notebook.get("worksheets") or [notebook]
        cells = [cell for sheet in worksheets for cell in sheet.get("cells", []) if isinstance(cell, dict)]
    except (ValueError, AttributeError, TypeError) as error:
        raise Unreadable("broken", "The notebook is damaged: save it again in Jupyter.") from error
    coverage = Coverage()
    numbered = file.watched(enumerate(cells, 1))
    blocks = collected((block for number, cell in numbered for block in _cell(cell, number, coverage)), file)
    title = next((block.title for block in blocks if block.level == 1), "")
    return Converted(blocks, title=title[:TITLE_CHARS], coverage=coverage)


def _cell(cell: dict[str, Any], number: int, coverage: Coverage) -> Iterator[Block]:
    coverage.read["cell"] += 1
    # Version 3 of the format has the code of a cell under `input`.
    source = _text(cell.get("source", cell.get("input", "")))
    text = source if not source or source.endswith("\n") else f"{source}\n"
    if cell.get("cell_type") == "markdown":
        yield from markdown_blocks(f"{text}\n")
    elif text.strip():
        yield Block(f"{text}\n")
    for _ in cell.get("attachments") or ():
        coverage.miss("picture", "cell", number)
    outputs = cell.get("outputs")
    for output in outputs if isinstance(outputs, list) else ():
        if isinstance(output, dict):
            yield from _output(output, number, coverage)


def _output(output: dict[str, Any], number: int, coverage: Coverage) -> Iterator[Block]:
    if output.get("output_type") in ("stream", "error", "pyerr"):
        traceback = _text(output.get("traceback", ""), "\n")
        text = _text(output.get("text", "")) or traceback or f"{output.get('ename', '')}: {output.get('evalue', '')}"
        if text := _COLOUR.sub("", text).strip():
            yield Block(f"{text}\n\n")
        return
    data = output.get("data")
    data = data if isinstance(data, dict) else {}
    plain = next((text for name in TEXT_TYPES if (text := _text(data.get(name, "")).strip())), "")
    page = _text(data.get("text/html", ""))
    for name in data:
        if name.startswith(("image/", "video/", "audio/")):
            coverage.miss("picture" if name.startswith("image/") else "recording", "cell", number)
        elif name not in (*TEXT_TYPES, "text/html"):
            coverage.miss("output", "cell", number)
    if plain:
        yield Block(f"{plain}\n\n")
    elif page:
        yield from html_blocks(tree_of(page), coverage)


def _text(value: Any, between: str = "") -> str:
    """Return a text, which notebooks store whole or as a list of lines; other values as JSON."""
    if isinstance(value, list) and all(isinstance(each, str) for each in value):
        return between.join(value)
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
