"""Filters as SQL, for use inside every leg's query: on the conversation `c` and on the turn's document."""

from typing import Any

from convmemory.conversations.reading import Filters
from search.query_text import QueryText

OF_TURN = """EXISTS (
    SELECT FROM search_turndocument AS d
    WHERE d.conversation_id = e.conversation_id AND d.turn_number = e.turn_number AND {condition}
)"""


def filter_sql(filters: Filters, text: QueryText, *, document: str | None) -> tuple[str, dict[str, Any]]:
    """A condition and its parameters.

    `document` is the alias of the turn's document in the query, or None where the query reads
    vectors `e` and the document must be looked up.
    """
    conditions, parameters = ["TRUE"], {}
    if filters.archived is not None:
        conditions.append(f"c.archived_at IS {'NOT NULL' if filters.archived else 'NULL'}")
    for name in ("agent", "project", "source"):
        if value := getattr(filters, name):
            conditions.append(f"c.{name} = %(filter_{name})s")
            parameters[f"filter_{name}"] = value
    on_turn, turn_parameters = _turn_conditions(filters, text)
    if on_turn:
        joined = " AND ".join(on_turn)
        conditions.append(joined if document else OF_TURN.format(condition=joined))
    return " AND ".join(conditions), parameters | turn_parameters


def _turn_conditions(filters: Filters, text: QueryText) -> tuple[list[str], dict[str, Any]]:
    conditions: list[str] = []
    parameters: dict[str, Any] = {}
    for name, operator in (("after", ">="), ("before", "<=")):
        if value := getattr(filters, name):
            conditions.append(f"d.created_at {operator} %(filter_{name})s")
            parameters[f"filter_{name}"] = value
    for kind, values in (("phrase", text.phrases), ("excluded", text.excluded)):
        for number, value in enumerate(values):
            parameter = f"{kind}_{number}"
            query = f"phraseto_tsquery('convmemory', %({parameter})s)"
            holds = f"(d.spoken @@ {query} OR d.unspoken @@ {query})"
            conditions.append(holds if kind == "phrase" else f"NOT {holds}")
            parameters[parameter] = value
    return conditions, parameters
