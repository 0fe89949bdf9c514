"""The size of an owner's corpus: the basis of document frequencies, mean lengths and the choice of a vector plan.

Also when each of its items was written, for a query that needs this of nearly all.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from convmemory.core.sql import PendingQuery, load_sql
from convmemory.embeddings.models import EmbeddingSpace
from search.retrieval.candidates import Scores


@dataclass(frozen=True, slots=True)
class Corpus:
    """The owner's sources: ids (sorted), number of items, words spoken, passages, object ids, and the ids of the item
    vectors stored last.

    `spoken_in` are the ids of those that contain texts in a language other than English, by language.
    """

    sources: NDArray[np.int64]
    item_counts: NDArray[np.int64]
    lengths: NDArray[np.int64]
    passage_counts: NDArray[np.int64]
    objects: NDArray[np.int64]
    newest_vectors: NDArray[np.int64]
    spoken_in: Mapping[str, Sequence[int]] = field(default_factory=dict)

    @property
    def items(self) -> int:
        return int(self.item_counts.sum())

    def passages_of(self, object_id: int | None) -> int:
        """How many passages the source of one object has, or all of them."""
        counts = self.passage_counts
        return int((counts if object_id is None else counts[self.objects == object_id]).sum())

    @property
    def mean_item_length(self) -> float:
        """In words."""
        return float(self.lengths.sum()) / max(self.items, 1)


def inverse_document_frequency(found_in: NDArray[np.int64], documents: int) -> Scores:
    """BM25's idf, never negative: ln(1 + (N - df + .5) / (df + .5))."""
    return np.log1p((documents - found_in + 0.5) / (found_in + 0.5)).clip(min=0).astype(np.float32)


def send_moments_query(owner_id: int) -> PendingQuery:
    """Send the query for when all items were written, an index-only scan: several times as fast if many are needed."""
    return PendingQuery(load_sql("search.retrieval", "owner_moments"), {"owner": owner_id})


class PendingCorpus:
    """The query over the owner's sources, already sent; its result is read once and kept.

    Passages and vectors are those of `space`, of which there are none without one. With `kinds` only sources of these
    kinds count: the owner's others do not affect the results. If the items' times are wanted (`with_moments`), their
    query is sent after it.
    """

    def __init__(
        self,
        owner_id: int,
        space: EmbeddingSpace | None,
        kinds: Collection[str] = (),
        *,
        with_moments: bool = False,
    ) -> None:
        parameters: dict[str, Any] = {"owner": owner_id, "space": space and space.pk, "kinds": sorted(kinds)}
        self._pending = PendingQuery(load_sql("search.retrieval", "corpus"), parameters, keeps_plan=True)
        self._pending_moments = send_moments_query(owner_id) if with_moments else None

    @cached_property
    def corpus(self) -> Corpus:
        """Waits for the row."""
        (found,) = self._pending.rows()
        *numbers, foreign, languages = found
        columns = [np.asarray(column or [], np.int64) for column in numbers]
        order = np.argsort(columns[0])
        sources, items, lengths, passages, objects, newest = (column[order] for column in columns)
        spoken_in = _by_language(foreign or [], languages or [])
        return Corpus(sources, items, lengths, passages, objects, newest, spoken_in)

    @cached_property
    def moments(self) -> tuple[Any, ...] | None:
        """Waits for the row; None if they are not wanted."""
        return self._pending_moments.rows()[0] if self._pending_moments is not None else None


def _by_language(sources: Sequence[int], languages: Sequence[str]) -> dict[str, list[int]]:
    """The sources by each of the languages of their texts, which are separated by blanks."""
    found: dict[str, list[int]] = {}
    for source, of_source in zip(sources, languages, strict=True):
        for language in of_source.split():
            found.setdefault(language, []).append(source)
    return found
