"""Filters as SQL, for use inside the statements of every retriever: on the source, and on the item itself."""

from collections.abc import Sequence
from typing import Any

from convmemory.conversations.reading import Filters
from search.languages import configuration_of
from search.query_text import QueryText

OF_ITEM = """EXISTS (
    SELECT FROM search_item AS d
    WHERE d.source_id = e.source_id AND d.number = e.item_number AND {condition}
)"""

COLUMNS = {"agent": "agent", "project": "project", "source": "origin"}
ARCHIVED = "SELECT id FROM search_source WHERE owner_id = %(owner)s AND archived"
CONVERSATION = (
    "SELECT id FROM search_source "
    "WHERE owner_id = %(owner)s AND kind = 'conversation' AND object_id = %(filter_conversation)s"
)

EXCEPTED = (
    "SELECT s.id, x.number FROM unnest(%(excepted_conversations)s::bigint[], %(excepted_numbers)s::int[]) "
    "AS x (conversation, number) INNER JOIN search_source AS s "
    "ON s.owner_id = %(owner)s AND s.kind = 'conversation' AND s.object_id = x.conversation"
)


def filter_sql(
    filters: Filters, text: QueryText, *, languages: Sequence[str] = (), document: str | None
) -> tuple[str, dict[str, Any]]:
    """A condition and its parameters, for a query whose parameters hold `owner`.

    `document` is the alias of the item's lexical document in the query, or None where the query reads
    vectors `e` and the document must be looked up.
    """
    row = document or "e"
    conditions, parameters = source_conditions(filters, row)
    number = "number" if document else "item_number"
    if filters.turns is not None:
        conditions.append(f"{row}.{number} BETWEEN %(first_item)s AND %(last_item)s")
        parameters |= {"first_item": filters.turns[0], "last_item": filters.turns[1]}
    if filters.except_turns:
        conditions.append(f"({row}.source_id, {row}.{number}) NOT IN ({EXCEPTED})")
        parameters |= excepted_parameters(filters)
    on_item, item_parameters = item_conditions(filters, text, languages)
    if on_item:
        joined = " AND ".join(on_item)
        conditions.append(joined if document else OF_ITEM.format(condition=joined))
    return " AND ".join(["TRUE", *conditions]), parameters | item_parameters


def excepted_parameters(filters: Filters) -> dict[str, Any]:
    """What `EXCEPTED` is filled in with, beside the owner."""
    conversations, numbers = zip(*filters.except_turns, strict=True)
    return {"excepted_conversations": list(conversations), "excepted_numbers": list(numbers)}


def source_conditions(filters: Filters, row: str) -> tuple[list[str], dict[str, Any]]:
    """Conditions on the source of `row`, and their parameters.

    Sources are named by what is left out where that is what few are, so that the common case costs nothing a row.
    """
    conditions: list[str] = []
    left_out, parameters = _left_out(filters)
    if left_out:
        others = f"SELECT id FROM search_source WHERE owner_id = %(owner)s AND ({' OR '.join(left_out)})"  # noqa: S608
        conditions.append(f"{row}.source_id NOT IN ({others})")
    if filters.archived:
        conditions.append(f"{row}.source_id IN ({ARCHIVED})")
    if filters.conversation_id is not None:
        conditions.append(f"{row}.source_id = ({CONVERSATION})")
        parameters["filter_conversation"] = filters.conversation_id
    chosen = {name: value for name in ("agent", "project", "source") if (value := getattr(filters, name))}
    if chosen:
        matching = " AND ".join(f"{COLUMNS[name]} = %(filter_{name})s" for name in chosen)
        conditions.append(
            f"{row}.source_id IN (SELECT id FROM search_source "  # noqa: S608
            f"WHERE owner_id = %(owner)s AND {matching})"
        )
        parameters |= {f"filter_{name}": value for name, value in chosen.items()}
    return conditions, parameters


def _left_out(filters: Filters) -> tuple[list[str], dict[str, Any]]:
    """Conditions on the sources that do not count, of which few people have many, and their parameters."""
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
    """What looks for the phrase, an expression of SQL, in texts in English and in these languages."""
    configurations = map(configuration_of, ("", *languages))
    return " || ".join(f"phraseto_tsquery('{configuration}', {phrase})" for configuration in configurations)


def item_conditions(filters: Filters, text: QueryText, languages: Sequence[str]) -> tuple[list[str], dict[str, Any]]:
    """Conditions on an item's lexical document `d`, and their parameters. `languages` are the owner's."""
    conditions: list[str] = []
    parameters: dict[str, Any] = {}
    for name, operator in (("after", ">="), ("before", "<=")):
        if value := getattr(filters, name):
            conditions.append(f"d.created_at {operator} %(filter_{name})s")
            parameters[f"filter_{name}"] = value
    for kind, values in (("phrase", text.phrases), ("excluded", text.excluded)):
        for number, value in enumerate(values):
            parameter = f"{kind}_{number}"
            query = f"({phrase_sql(f'%({parameter})s', languages)})"
            holds = f"(d.spoken @@ {query} OR d.unspoken @@ {query})"
            conditions.append(holds if kind == "phrase" else f"NOT {holds}")
            parameters[parameter] = value
    return conditions, parameters
