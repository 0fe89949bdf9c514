"""The mark by which an owner calls a turn wrong or outdated, as a value."""

from dataclasses import dataclass
from typing import Literal, get_args

from convmemory.core.errors import InvalidInput
from convmemory.core.text import one_line, storable

MarkKind = Literal["wrong", "outdated"]
MARK_KINDS: tuple[MarkKind, ...] = get_args(MarkKind)
NOTE_CHARS = 300


@dataclass(frozen=True, slots=True)
class Mark:
    """Recall leaves out what is wrong, and says of what is outdated that it is; `note` says why."""

    kind: MarkKind
    note: str = ""

    def __str__(self) -> str:
        return f"marked {self.kind} by the user" + (f": {self.note}" if self.note else "")


def mark_of(kind: str, note: str = "") -> Mark | None:
    """Return the mark as it is stored; None for no kind. Raises: InvalidInput."""
    if not kind:
        return None
    for mark_kind in MARK_KINDS:
        if kind == mark_kind:
            return Mark(mark_kind, one_line(storable(note).strip(), NOTE_CHARS))
    raise InvalidInput(f"A turn cannot be marked {kind[:40]!r}: use {' or '.join(MARK_KINDS)}.")
