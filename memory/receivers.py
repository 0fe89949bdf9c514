"""Updates the status records when the index has embedded messages or compared turns."""

from collections.abc import Mapping, Sequence
from typing import Any

from convmemory.embeddings.models import EmbeddingSpace
from memory.records import follow_positions, record_outcomes
from search.adapters.conversations import KIND
from search.models import Source
from search.sources import Element


def on_elements_embedded(
    sender: Any,
    *,
    source: Source,
    space: EmbeddingSpace,
    elements: Sequence[Element],
    token_counts: Mapping[int, int],
    errors: Mapping[int, str],
    keep_completed: bool,
    **kwargs: Any,
) -> None:
    if source.kind == KIND:
        record_outcomes(
            source, space, elements, token_counts=token_counts, errors=errors, keep_completed=keep_completed
        )


def on_items_compared(sender: Any, *, source: Source, first_item: int, **kwargs: Any) -> None:
    if source.kind == KIND:
        follow_positions(source, first_item)
