"""Checks whether an owner has content from the days that a query names."""

from datetime import UTC, date, datetime, time
from typing import Any

from convmemory.core.sql import PendingQuery, load_sql
from search.ranking.dates import NEARBY_DAYS
from search.ranking.times.spans import Span, shifted


def has_begun(owner_id: int, span: Span) -> bool:
    """Return whether a conversation or document of the owner began within or near these days. One query."""
    parameters: dict[str, Any] = {
        "owner": owner_id,
        "first": _midnight(shifted(span.first, days=-NEARBY_DAYS)),
        "after_last": _midnight(shifted(span.last, days=NEARBY_DAYS + 1)),
    }
    ((found,),) = PendingQuery(load_sql("search.ranking", "sources_begun"), parameters).rows()
    return bool(found)


def _midnight(day: date) -> datetime:
    return datetime.combine(day, time.min, UTC)
