"""Hides keys, tokens and passwords in a document's text before it is stored or indexed. Pure.

Each is replaced by a placeholder of the same length, so that offsets still count characters of the file. The file
itself stays as it was uploaded, for its owner alone.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from convmemory.core.key_shapes import find_keys
from convmemory.documents.structure import SectionDraft

FILLER = "•"


@dataclass(frozen=True, slots=True)
class KeysHidden:
    """The sections of a document without its keys, and the number of keys."""

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
                path=tuple(masked_keys(heading)[0] for heading in section.path),
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


def masked_keys(text: str) -> tuple[str, int]:
    """Return the text with each key replaced by a mark of the same length, and the number of keys."""
    pieces: list[str] = []
    found, end = find_keys(text), 0
    for key in found:
        pieces += (text[end : key.start], mark_of(key.kind, key.end - key.start))
        end = key.end
    return "".join([*pieces, text[end:]]), len(found)


def mark_of(kind: str, length: int) -> str:
    """Return `length` characters that name the hidden key, as far as there is room."""
    name = f"[hidden {kind}]"
    return name.ljust(length, FILLER) if len(name) <= length else FILLER * length
