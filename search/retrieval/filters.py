"""Filters as SQL for the statements of every retriever, and as the items that pass them."""

import posixpath
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from convmemory.conversations.filters import Filter, Filters
from convmemory.core.sql import PendingQuery, load_sql
from search.languages import configuration_of
from search.query_text import QueryText
from search.retrieval.candidates import ITEM_BITS, ITEM_MASK, ItemKeys, item_keys
from search.retrieval.corpus import PendingQueryWords
from search.word_forms import phrase_query

CONVERSATION = "kind = 'conversation' AND object_id = %(filter_conversation)s"


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


def source_conditions(filters: Filters, row: str) -> tuple[list[str], dict[str, Any]]:
    """Return conditions on the source of `row`, and their parameters.

    If few sources are excluded, these are named instead of the rest, so that the common case costs nothing per row.
    """
    conditions: list[str] = []
    left_out, parameters = _left_out(filters)
    if left_out:
        conditions.append(f"{row}.source_id NOT IN ({_sources_where(' OR '.join(left_out))})")
    if filters.archived:
        conditions.append(f"{row}.source_id IN ({_sources_where('archived')})")
    if filters.conversation_id is not None:
        conditions.append(f"{row}.source_id = ({_sources_where(CONVERSATION)})")
        parameters["filter_conversation"] = filters.conversation_id
    if filters.conversations is not None:
        among = "kind = 'conversation' AND object_id = ANY(%(filter_conversations)s::bigint[])"
        conditions.append(f"{row}.source_id IN ({_sources_where(among)})")
        parameters["filter_conversations"] = sorted(filters.conversations)
    if chosen := filters.chosen("="):
        matching = " AND ".join(_is_any_of(how, f"%(filter_{name})s") for name, how, _ in chosen)
        conditions.append(f"{row}.source_id IN ({_sources_where(matching)})")
        parameters |= {f"filter_{name}": value for name, _, value in chosen}
    return conditions, parameters


def _is_any_of(how: Filter, values: str) -> str:
    found = f"{how.indexed} = ANY({values})"
    return f"({found} OR {how.indexed} = '' AND {how.indexed_instead} = ANY({values}))" if how.instead else found


def _sources_where(condition: str) -> str:
    return load_sql("search.retrieval", "sources_where").replace("{condition}", condition)


def _left_out(filters: Filters) -> tuple[list[str], dict[str, Any]]:
    """Return conditions on the excluded sources, of which most owners have few, and their parameters."""
    conditions: list[str] = []
    parameters: dict[str, Any] = {}
    if filters.archived is False:
        conditions.append("archived")
    if filters.kinds:
        conditions.append("kind <> ALL(%(filter_kinds)s)")
        parameters["filter_kinds"] = sorted(filters.kinds)
    if filters.except_conversations:
        conditions.append("kind = 'conversation' AND object_id = ANY(%(except_conversations)s::bigint[])")
        parameters["except_conversations"] = list(filters.except_conversations)
    if filters.documents is not None:
        conditions.append("kind = 'document' AND object_id <> ALL(%(filter_documents)s::bigint[])")
        parameters["filter_documents"] = sorted(filters.documents)
    return conditions, parameters


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


# --- eligibility ----------------------------------------------------------------------------------
# Decides which of an owner's items pass the filters of a query, for retrievers that search in memory.
#
# PostgreSQL only returns the sources that the filters exclude and, if filters concern single items, the items that
# pass.


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

    def __init__(self, archive_id: int, filters: Filters, text: QueryText, words: PendingQueryWords) -> None:
        self._turns = filters.turns
        self._others = _send_others_query(archive_id, filters)
        self._matching = _send_matching_query(archive_id, filters, text, words.languages if text.operators else ())
        self._excepted = _send_excepted_query(archive_id, filters)

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


def _send_others_query(archive_id: int, filters: Filters) -> PendingQuery | None:
    """Send the query for the sources that do not pass the filters; return None if there are no such filters."""
    conditions, parameters = source_conditions(filters, "e")
    if not conditions:
        return None
    statement = load_sql("search.retrieval", "other_sources").replace("{filters}", " AND ".join(conditions))
    return PendingQuery(statement, parameters | {"owner": archive_id}, keeps_plan=True)


def _send_matching_query(
    archive_id: int, filters: Filters, text: QueryText, languages: Sequence[str]
) -> PendingQuery | None:
    """Send the query for the items that pass the filters on single items; return None if there are no such filters."""
    conditions, parameters = item_conditions(filters, text, languages)
    if not conditions:
        return None
    statement = load_sql("search.retrieval", "matching_items").replace("{filters}", " AND ".join(conditions))
    return PendingQuery(statement, parameters | {"owner": archive_id})


def _send_excepted_query(archive_id: int, filters: Filters) -> PendingQuery | None:
    """Send the query for the items that the filters exclude one by one; return None if there are none."""
    if not filters.except_turns:
        return None
    statement = load_sql("search.retrieval", "excepted_items").replace("{excepted}", excepted_sql())
    return PendingQuery(statement, excepted_parameters(filters) | {"owner": archive_id})
