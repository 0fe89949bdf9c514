"""Filters on conversations and documents as SQL."""

from typing import Any

from convmemory.conversations.filters import Filter, Filters
from convmemory.core.sql import load_sql

CONVERSATION = "kind = 'conversation' AND object_id = %(filter_conversation)s"


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
    equals = f"{how.indexed} = ANY({values})"
    return f"({equals} OR {how.indexed} = '' AND {how.indexed_instead} = ANY({values}))" if how.instead else equals


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
