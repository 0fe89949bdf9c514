"""Converts a stored file to sections as JSON lines, in a child process, without Django and without keys. Pure.

The first line of the output describes the document or the reason why it cannot be read; each other line is a section.
Keys, tokens and passwords in the text are hidden before it is stored or indexed.

The process is `python -m convmemory.documents.converting`, under limits. Arguments: the file, its original name, the
output file for the sections, the limits of the converters as JSON, and those of the process. It receives no address,
password or key of the installation, and is confined to the file and to the output file's folder.
"""

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from convmemory.core.key_shapes import find_keys
from convmemory.core.processes.child_limits import run_under_limits
from convmemory.core.processes.confinement import Access
from convmemory.core.text import storable
from convmemory.core.titles import plain_title, says_something
from convmemory.documents.converters.base import DAMAGED, ConvertLimits, SourceFile, Unreadable, collected
from convmemory.documents.structure import Block, SectionDraft, cut_sections

TITLE_CHARS = 300
MAX_NOTES = 20
NESTED = "The file is nested too deeply to be read, as files made to end programs are: save it again in a simpler form."
DEFAULT_TITLES = ("Word Document", "PowerPoint Presentation", "Untitled", "untitled", "Slide 1")
_WORD = re.compile(r"\w")

FILLER = "•"


@dataclass(frozen=True, slots=True)
class Heading:
    """The content of the first line: about a document, or with `failure` about a file that cannot be read."""

    format: str = ""
    title: str = ""
    pages: int | None = None
    chars: int = 0
    sections: int = 0
    notes: list[str] = field(default_factory=list)
    coverage: list[dict[str, Any]] = field(default_factory=list)
    failure: str = ""
    error: str = ""


def write_sections(*, path: Path, name: str, target: Path, limits: ConvertLimits) -> None:
    """Convert the file, and write the lines to `target`."""
    with target.open("w", encoding="utf-8") as lines:
        for line in _lines(SourceFile(path, name, limits, progress=target)):
            lines.write(f"{json.dumps(line)}\n")


def _lines(file: SourceFile) -> Iterator[dict[str, Any]]:
    from convmemory.documents.converters.detect import CONVERTERS, format_of

    try:
        format = format_of(file)
        converted = CONVERTERS[format](file)
        sections = cut_sections(
            Block(storable(block.text.replace("\x00", "\ufffd")), block.level, block.page, storable(block.title))
            for block in collected(converted.blocks, file)
        )
        hidden = KeysHidden.of(sections) if file.limits.hide_keys else KeysHidden(sections)
        if not any(_WORD.search(section.text) for section in sections):
            raise Unreadable("no_text", "The file holds no text: nothing in it could be found. Choose another one.")
    except Unreadable as error:
        yield _as_json(Heading(failure=error.failure, error=str(error)))
        return
    except MemoryError:
        raise
    except RecursionError:
        yield _as_json(Heading(failure="too_large", error=NESTED))
        return
    except Exception as error:  # the boundary of foreign libraries: any error for a file is a reason to refuse it
        yield _as_json(Heading(failure="broken", error=f"{DAMAGED} ({type(error).__name__})"))
        return
    first_heading = sections[0].path[:1] if format in ("docx", "pptx") else ()
    named = (title for title in (converted.title, *first_heading) if title not in DEFAULT_TITLES)
    titles = (plain_title(storable(title), TITLE_CHARS) for title in named)
    title = next(filter(says_something, titles), storable(file.stem) or "Document")
    notes = (*hidden.notes, *file.notes, *converted.notes, *converted.coverage.notes())
    heading = Heading(
        format=format,
        title=(masked_keys(title)[0] if file.limits.hide_keys else title)[:TITLE_CHARS],
        pages=converted.pages,
        chars=sections[-1].end,
        sections=len(sections),
        notes=list(map(storable, _bounded(notes))),
        coverage=converted.coverage.rows(),
    )
    yield _as_json(heading)
    for section in file.watched(hidden.sections):
        yield {name: getattr(section, name) for name in SectionDraft.__dataclass_fields__}


def _bounded(notes: Sequence[str]) -> list[str]:
    more = len(notes) - MAX_NOTES
    return [*notes[:MAX_NOTES], *([f"{more:,} more notes are left out."] if more > 0 else [])]


def _as_json(heading: Heading) -> dict[str, Any]:
    return {name: getattr(heading, name) for name in Heading.__dataclass_fields__}


def read_heading(line: str) -> Heading:
    """Parse the first line. Raises: ValueError, KeyError, TypeError if it is malformed."""
    return Heading(**json.loads(line))


def read_section(line: str) -> SectionDraft:
    """Parse another line. Raises: ValueError, KeyError, TypeError if it is malformed."""
    section = json.loads(line)
    headings = tuple((int(at), tuple(path)) for at, path in section["headings"])
    return SectionDraft(tuple(section["path"]), section["page"], section["start"], section["text"], headings)


def _work(arguments: Sequence[str]) -> None:
    path, name, target, limits = arguments
    write_sections(path=Path(path), name=name, target=Path(target), limits=ConvertLimits(**json.loads(limits)))


def _access(arguments: Sequence[str]) -> Access:
    path, _, target, limits = arguments
    return Access([Path(path)], [Path(target).parent], programs=ConvertLimits(**json.loads(limits)).ocr)


@dataclass(frozen=True, slots=True)
class KeysHidden:
    """The sections of a document without its keys, and the number of keys.

    Each is replaced by a placeholder of the same length, so that offsets still count characters of the file. The file
    itself stays as it was uploaded, for its owner alone.
    """

    sections: Sequence[SectionDraft]
    count: int = 0

    @classmethod
    def of(cls, sections: Sequence[SectionDraft]) -> "KeysHidden":
        """Hide the keys; a key that spans two sections is found too. Linear in the length of the text."""
        text, count = masked_keys("".join(section.text for section in sections))
        if not count:
            return cls(sections)
        begin = sections[0].start
        hidden = [
            replace(
                section,
                path=_masked(section.path),
                headings=tuple((at, _masked(path)) for at, path in section.headings),
                text=text[section.start - begin : section.end - begin],
            )
            for section in sections
        ]
        return cls(hidden, count)

    @property
    def notes(self) -> list[str]:
        """Return the notes for the document's card."""
        if not self.count:
            return []
        what = "One key, token or password is" if self.count == 1 else f"{self.count} keys, tokens or passwords are"
        return [f"{what} hidden in the text; the file itself still holds what it held."]


def _masked(path: Sequence[str]) -> tuple[str, ...]:
    return tuple(masked_keys(heading)[0] for heading in path)


def masked_keys(text: str) -> tuple[str, int]:
    """Return the text with each key replaced by a mark of the same length, and the number of keys."""
    pieces: list[str] = []
    keys, end = find_keys(text), 0
    for key in keys:
        pieces += (text[end : key.start], mark_of(key.kind, key.end - key.start))
        end = key.end
    return "".join([*pieces, text[end:]]), len(keys)


def mark_of(kind: str, length: int) -> str:
    """Return `length` characters that name the hidden key, as far as there is room."""
    name = f"[hidden {kind}]"
    return name.ljust(length, FILLER) if len(name) <= length else FILLER * length


if __name__ == "__main__":
    run_under_limits(_work, access=_access)
