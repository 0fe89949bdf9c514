"""Filters as SQL on the conversation `c` and the turn's date, for use inside every leg's query."""

from typing import Any

from convmemory.conversations.reading import Filters


def filter_sql(filters: Filters, *, turn_date: str) -> tuple[str, dict[str, Any]]:
    """A condition and its parameters; `turn_date` is the SQL expression of the turn's time."""
    conditions, parameters = ["TRUE"], {}
    if filters.archived is not None:
        conditions.append(f"c.archived_at IS {'NOT NULL' if filters.archived else 'NULL'}")
    for name in ("agent", "project", "source"):
        if value := getattr(filters, name):
            conditions.append(f"c.{name} = %(filter_{name})s")
            parameters[f"filter_{name}"] = value
    for name, operator in (("after", ">="), ("before", "<=")):
        if value := getattr(filters, name):
            conditions.append(f"{turn_date} {operator} %(filter_{name})s")
            parameters[f"filter_{name}"] = value
    return " AND ".join(conditions), parameters
