"""Filters as SQL for the statements of every retriever, and as the items that pass them."""

import posixpath
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from convmemory.conversations.filters import Filters
from convmemory.core.sql import PendingQuery, load_sql
from search.languages import configuration_of
from search.query_text import QueryText
from search.retrieval.candidates import ITEM_BITS, ITEM_MASK, ItemKeys, item_keys
from search.retrieval.corpus import PendingCorpus
from search.retrieval.source_filters import source_conditions
from search.word_forms import phrase_query


def filter_sql(filters: Filters, text: QueryText) -> tuple[str, dict[str, Any]]:
    """Return a condition on the lexical document `d` of an item, and its parameters without the `owner`."""
    conditions, parameters = source_conditions(filters, "d")
    if filters.turns is not None:
        conditions.append("d.number BETWEEN %(first_item)s AND %(last_item)s")
        parameters |= {"first_item": filters.turns[0], "last_item": filters.turns[1]}
    if filters.except_turns:
        conditions.append(f"(d.source_id, d.number) NOT IN ({excepted_sql()})")
        parameters |= excepted_parameters(filters)
    on_item, item_parameters = item_conditions(filters, text, ())
    return " AND ".join(["TRUE", *conditions, *on_item]), parameters | item_parameters


def excepted_sql() -> str:
    """A query for the turns that the filters exclude one by one."""
    return load_sql("search.retrieval", "excepted_turns")


def excepted_parameters(filters: Filters) -> dict[str, Any]:
    """Return the parameters of `excepted_sql` without the owner."""
    conversations, numbers = zip(*filters.except_turns, strict=True)
    return {"excepted_conversations": list(conversations), "excepted_numbers": list(numbers)}


def phrase_sql(phrase: str, languages: Sequence[str]) -> str:
    """Return an SQL expression that matches a phrase (`phrase_query`) in texts in English and in these languages."""
    configurations = map(configuration_of, ("", *languages))
    return " || ".join(f"to_tsquery('{configuration}', {phrase})" for configuration in configurations)


def item_conditions(filters: Filters, text: QueryText, languages: Sequence[str]) -> tuple[list[str], dict[str, Any]]:
    """Return conditions on an item's lexical document `d`, and their parameters. `languages` are the owner's."""
    conditions: list[str] = []
    parameters: dict[str, Any] = {}
    for name, how, value in filters.chosen(">=", "<="):
        conditions.append(f"d.{how.indexed} {how.operator} %(filter_{name})s")
        parameters[f"filter_{name}"] = value
    if filters.file:
        turns = load_sql("search.retrieval", "turns_that_edited")
        conditions.append(f"(d.source_id, d.number) IN ({turns})")
        path = posixpath.normpath(filters.file)
        parameters |= {"file_path": path, "file_name": path.rpartition("/")[2]}
    for kind, values in (("phrase", text.phrases), ("excluded", text.excluded)):
        for number, value in enumerate(values):
            parameter = f"{kind}_{number}"
            query = f"({phrase_sql(f'%({parameter})s', languages)})"
            holds = f"(d.spoken @@ {query} OR d.unspoken @@ {query})"
            conditions.append(holds if kind == "phrase" else f"NOT {holds}")
            parameters[parameter] = phrase_query(value)
    return conditions, parameters


Mask = NDArray[np.bool_]


# For retrievers that search in memory. PostgreSQL only returns the sources that the filters exclude and, if filters
# concern single items, the items that pass.
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
    """The queries that the filters on items need, which have been sent: at most two, often none; read once.

    `corpus` has the sources that the filters exclude. Waits for it only if the query has operators, whose words are
    looked up in the languages of the texts.
    """

    def __init__(self, archive_id: int, filters: Filters, text: QueryText, corpus: PendingCorpus) -> None:
        self._turns, self._corpus = filters.turns, corpus
        self._matching: PendingQuery | None = None
        self._excepted: PendingQuery | None = None
        conditions, parameters = item_conditions(filters, text, corpus.words.languages if text.operators else ())
        if conditions:
            statement = load_sql("search.retrieval", "matching_items").replace("{filters}", " AND ".join(conditions))
            self._matching = PendingQuery(statement, parameters | {"owner": archive_id})
        if filters.except_turns:
            statement = load_sql("search.retrieval", "excepted_items").replace("{excepted}", excepted_sql())
            self._excepted = PendingQuery(statement, excepted_parameters(filters) | {"owner": archive_id})

    @cached_property
    def eligibility(self) -> Eligibility:
        """Return the requirements; waits for the rows."""
        left_out = np.asarray(self._corpus.corpus.left_out, np.int64)
        return Eligibility(left_out, self._turns, _keys(self._matching), _keys(self._excepted))


def _keys(pending: PendingQuery | None) -> ItemKeys | None:
    if pending is None:
        return None
    ((sources, items),) = pending.rows()
    return item_keys(sources or [], items or [])
