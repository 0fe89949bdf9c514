"""Decides which of an owner's items pass the filters of a query, for retrievers that search in memory.

PostgreSQL only returns the sources that the filters exclude and, if filters concern single items, the items that pass.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from convmemory.conversations.filters import Filters
from convmemory.core.sql import PendingQuery, load_sql
from search.query_text import QueryText
from search.retrieval.candidates import ITEM_BITS, ITEM_MASK, ItemKeys, item_keys
from search.retrieval.filters import excepted_parameters, excepted_sql, item_conditions, source_conditions
from search.retrieval.query_words import PendingQueryWords

Mask = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Eligibility:
    """The filters' requirements on an item; None for absent filters."""

    left_out: NDArray[np.int64]
    turns: tuple[int, int] | None
    matching: ItemKeys | None
    excepted: ItemKeys | None

    @property
    def admits_all(self) -> bool:
        return not len(self.left_out) and self.turns is None and self.matching is None and self.excepted is None

    def without(self, sources: Sequence[int]) -> "Eligibility":
        """Return the requirements with further sources excluded."""
        return replace(self, left_out=np.concatenate([self.left_out, np.asarray(sources, np.int64)]))

    def admitted(self, keys: ItemKeys) -> Mask:
        """Return which of the items pass."""
        passing = np.ones(len(keys), np.bool_)
        if len(self.left_out):
            passing &= np.isin(keys >> ITEM_BITS, self.left_out, invert=True)
        if self.turns is not None:
            numbers = keys & ITEM_MASK
            passing &= (numbers >= self.turns[0]) & (numbers <= self.turns[1])
        if self.matching is not None:
            passing &= np.isin(keys, self.matching)
        if self.excepted is not None:
            passing &= np.isin(keys, self.excepted, invert=True)
        return passing


class PendingEligibility:
    """The queries that the filters need, which have been sent: at most three, often one. Their rows are read once.

    Waits for `words` only if the query has operators, whose words are looked up in the languages of the texts.
    """

    def __init__(self, owner_id: int, filters: Filters, text: QueryText, words: PendingQueryWords) -> None:
        self._turns = filters.turns
        self._others = _send_others_query(owner_id, filters)
        self._matching = _send_matching_query(owner_id, filters, text, words.languages if text.operators else ())
        self._excepted = _send_excepted_query(owner_id, filters)

    @cached_property
    def eligibility(self) -> Eligibility:
        """Return the requirements; waits for the rows."""
        left_out = self._others.rows()[0][0] if self._others is not None else None
        return Eligibility(
            np.asarray(left_out or [], np.int64), self._turns, _keys(self._matching), _keys(self._excepted)
        )


def _keys(pending: PendingQuery | None) -> ItemKeys | None:
    if pending is None:
        return None
    ((sources, items),) = pending.rows()
    return item_keys(sources or [], items or [])


def _send_others_query(owner_id: int, filters: Filters) -> PendingQuery | None:
    """Send the query for the sources that do not pass the filters; return None if there are no such filters."""
    conditions, parameters = source_conditions(filters, "e")
    if not conditions:
        return None
    statement = load_sql("search.retrieval", "other_sources").replace("{filters}", " AND ".join(conditions))
    return PendingQuery(statement, parameters | {"owner": owner_id})


def _send_matching_query(
    owner_id: int, filters: Filters, text: QueryText, languages: Sequence[str]
) -> PendingQuery | None:
    """Send the query for the items that pass the filters on single items; return None if there are no such filters."""
    conditions, parameters = item_conditions(filters, text, languages)
    if not conditions:
        return None
    statement = load_sql("search.retrieval", "matching_items").replace("{filters}", " AND ".join(conditions))
    return PendingQuery(statement, parameters | {"owner": owner_id})


def _send_excepted_query(owner_id: int, filters: Filters) -> PendingQuery | None:
    """Send the query for the items that the filters exclude one by one; return None if there are none."""
    if not filters.except_turns:
        return None
    statement = load_sql("search.retrieval", "excepted_items").replace("{excepted}", excepted_sql())
    return PendingQuery(statement, excepted_parameters(filters) | {"owner": owner_id})
