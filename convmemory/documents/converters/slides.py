"""PowerPoint files: each slide is a page, with its tables, charts, notes and comments."""

from collections.abc import Iterator

from convmemory.documents.converters.base import DAMAGED, Converted, SourceFile, Unreadable, collected
from convmemory.documents.converters.ooxml import TITLES, Package, drawing_blocks, line_of, placeholder_of, text_of
from convmemory.documents.structure import Block


def convert_pptx(file: SourceFile) -> Converted:
    """Convert slides in their order. Raises: Unreadable."""
    package = Package.open(file)
    with package.archive:
        part = package.main_part()
        root = package.xml(part)
        if root is None:
            raise Unreadable("broken", DAMAGED)
        targets = {relation.id: relation.target for relation in package.relations(part) if relation.kind == "slide"}
        ids = [value for node in root.iterfind("{*}sldIdLst/{*}sldId") for value in node.values()]
        slides = list(dict.fromkeys(targets[value] for value in ids if value in targets))
        if len(slides) > file.limits.max_pages:
            most = f"{file.limits.max_pages:,} (MAX_DOCUMENT_PAGES)"
            raise Unreadable("too_large", f"There are more than {most} slides: split the file.")
        numbered = file.watched(enumerate(slides, 1))
        blocks = collected((block for number, name in numbered for block in _slide(package, name, number)), file)
        package.miss_parts_of(part)
        return Converted(blocks, title=package.title(), pages=len(slides), coverage=package.coverage)


def _slide(package: Package, part: str, number: int) -> Iterator[Block]:
    root = package.xml_once(part)
    if root is None:
        package.coverage.miss("slide", "slide", number)
        return
    package.coverage.read["slide"] += 1
    if root.get("show") in ("0", "false"):
        package.coverage.read["hidden slide"] += 1
    title = next(
        (text for shape in root.iter("{*}sp") if placeholder_of(shape) in TITLES and (text := line_of(shape))), ""
    )
    heading = title or f"Slide {number}"
    yield Block(f"{heading}\n\n", level=1, page=number, title=heading)
    yield from drawing_blocks(package, root, part, number, ("slide", number), without_title=bool(title))
    for relation in package.relations(part):
        if relation.kind == "notesSlide" and (notes := package.xml_once(relation.target)) is not None:
            for shape in notes.iter("{*}sp"):
                if placeholder_of(shape) == "body" and (text := text_of(shape)).strip():
                    package.coverage.read["note"] += 1
                    yield Block(f"{text}\n\n", page=number)
        elif relation.kind == "comments" and (comments := package.xml_once(relation.target)) is not None:
            for comment in comments.iter("{*}cm"):
                if text := " ".join((node.text or "").strip() for node in comment.iter("{*}text", "{*}t")).strip():
                    package.coverage.read["comment"] += 1
                    yield Block(f"{text}\n\n", page=number)
        elif relation.kind == "slideLayout":
            yield from _background(package, relation.target, number)
    package.miss_parts_of(part, ("slide", number))


def _background(package: Package, part: str, number: int) -> Iterator[Block]:
    """Yield the fixed text of a layout and its master, once for all slides; their placeholders are no text."""
    root = package.xml_once(part)
    if root is None:
        return
    for shape in root.iter("{*}sp"):
        if shape.find("{*}nvSpPr/{*}nvPr/{*}ph") is None and (text := text_of(shape)).strip():
            yield Block(f"{text}\n\n", page=number)
    for relation in package.relations(part):
        if relation.kind == "slideMaster":
            yield from _background(package, relation.target, number)
