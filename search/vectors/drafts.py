"""Passages before they have a vector: the spans of split elements, and which of them ask something."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from uuid import UUID

from convmemory.core.text import content_hash
from search.sources import Element
from search.vectors.asking import is_asking
from search.vectors.splitting import PassageSpan, split_parts
from search.vectors.texts import passage_text


@dataclass(frozen=True, slots=True)
class Draft:
    """A passage before it has a vector. `text` is embedded: the speaker, then the span."""

    element: Element
    span: PassageSpan
    text: str

    @property
    def digest(self) -> UUID:
        return passage_hash(self.text)

    @property
    def asks(self) -> bool:
        part = next(part for part in self.element.parts if part.index == self.span.part_index)
        return is_asking(self.span.kind, part.text[self.span.start : self.span.end])


def passage_hash(text: str) -> UUID:
    """Return the first 16 bytes of the text's SHA-256 as a UUID."""
    return UUID(bytes=content_hash(text)[:16])


def draft_passages(elements: Iterable[Element]) -> Iterator[Draft]:
    """Yield the passages of some elements, in order."""
    for element in elements:
        parts = {part.index: part for part in element.parts}
        for span in split_parts(element.parts):
            yield Draft(element, span, passage_text(element, parts[span.part_index], span.start, span.end))


def passage_texts(elements: Iterable[Element]) -> dict[UUID, str]:
    """Return the embedded texts of the passages of some elements, by hash."""
    return {draft.digest: draft.text for draft in draft_passages(elements)}


def asking_places(elements: Iterable[Element]) -> list[tuple[int, int, int, int]]:
    """Return element, part, start and end of each passage that asks."""
    return [
        (draft.element.element_id, draft.span.part_index, draft.span.start, draft.span.end)
        for draft in draft_passages(elements)
        if draft.asks
    ]
