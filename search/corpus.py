"""How much an owner has: what document frequencies, mean lengths and the choice of a vector plan rest on."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from convmemory.core.sql import Asked, load_sql


@dataclass(frozen=True, slots=True)
class Corpus:
    """The owner's sources: ids (sorted), number of items, words spoken, passages, and their own numbers."""

    conversations: NDArray[np.int64]
    turn_counts: NDArray[np.int64]
    lengths: NDArray[np.int64]
    passage_counts: NDArray[np.int64]
    objects: NDArray[np.int64]

    @property
    def turns(self) -> int:
        return int(self.turn_counts.sum())

    def passages_of(self, conversation_id: int | None) -> int:
        """How many passages one conversation has, or all of them."""
        counts = self.passage_counts
        return int((counts if conversation_id is None else counts[self.objects == conversation_id]).sum())

    @property
    def mean_turn_length(self) -> float:
        return float(self.lengths.sum()) / max(self.turns, 1)


def ask_corpus(owner_id: int) -> Asked:
    """Send the query over the owner's conversations."""
    return Asked(load_sql("search", "corpus"), {"owner": owner_id})


def corpus_of(asked: Asked) -> Corpus:
    """What was asked for."""
    (found,) = asked.rows()
    columns = [np.asarray(column or [], np.int64) for column in found]
    order = np.argsort(columns[0])
    return Corpus(*(column[order] for column in columns))
