"""Builds SQL from filters, for use inside the statements of all retrievers: on the source, and on the item itself."""

from collections.abc import Sequence
from typing import Any

from convmemory.conversations.filters import Filters
from convmemory.core.sql import load_sql
from search.languages import configuration_of
from search.query_text import QueryText

CONVERSATION = "kind = 'conversation' AND object_id = %(filter_conversation)s"


def filter_sql(
    filters: Filters, text: QueryText, *, languages: Sequence[str] = (), document: str | None
) -> tuple[str, dict[str, Any]]:
    """Return a condition and its parameters, for a query whose parameters include `owner`.

    `document` is the alias of the item's lexical document in the query, or None if the query reads vectors `e` and the
    document must be looked up.
    """
    row = document or "e"
    conditions, parameters = source_conditions(filters, row)
    number = "number" if document else "item_number"
    if filters.turns is not None:
        conditions.append(f"{row}.{number} BETWEEN %(first_item)s AND %(last_item)s")
        parameters |= {"first_item": filters.turns[0], "last_item": filters.turns[1]}
    if filters.except_turns:
        conditions.append(f"({row}.source_id, {row}.{number}) NOT IN ({excepted_sql()})")
        parameters |= excepted_parameters(filters)
    on_item, item_parameters = item_conditions(filters, text, languages)
    if on_item:
        joined = " AND ".join(on_item)
        conditions.append(
            joined if document else load_sql("search.retrieval", "item_of_vector").format(condition=joined)
        )
    return " AND ".join(["TRUE", *conditions]), parameters | item_parameters


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
    if chosen := filters.chosen("="):
        matching = " AND ".join(f"{how.indexed} = %(filter_{name})s" for name, how, _ in chosen)
        conditions.append(f"{row}.source_id IN ({_sources_where(matching)})")
        parameters |= {f"filter_{name}": value for name, _, value in chosen}
    return conditions, parameters


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
    if filters.documents is not None:
        conditions.append("kind = 'document' AND object_id <> ALL(%(filter_documents)s::bigint[])")
        parameters["filter_documents"] = sorted(filters.documents)
    return conditions, parameters


def phrase_sql(phrase: str, languages: Sequence[str]) -> str:
    """Return an SQL expression that matches the phrase in texts in English and in these languages."""
    configurations = map(configuration_of, ("", *languages))
    return " || ".join(f"phraseto_tsquery('{configuration}', {phrase})" for configuration in configurations)


def item_conditions(filters: Filters, text: QueryText, languages: Sequence[str]) -> tuple[list[str], dict[str, Any]]:
    """Return conditions on an item's lexical document `d`, and their parameters. `languages` are the owner's."""
    conditions: list[str] = []
    parameters: dict[str, Any] = {}
    for name, how, value in filters.chosen(">=", "<="):
        conditions.append(f"d.{how.indexed} {how.operator} %(filter_{name})s")
        parameters[f"filter_{name}"] = value
    for kind, values in (("phrase", text.phrases), ("excluded", text.excluded)):
        for number, value in enumerate(values):
            parameter = f"{kind}_{number}"
            query = f"({phrase_sql(f'%({parameter})s', languages)})"
            holds = f"(d.spoken @@ {query} OR d.unspoken @@ {query})"
            conditions.append(holds if kind == "phrase" else f"NOT {holds}")
            parameters[parameter] = value
    return conditions, parameters
