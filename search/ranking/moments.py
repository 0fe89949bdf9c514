"""Reads from the index when items were written, for a query that names a time.

PostgreSQL returns moments in UTC. The days are counted here, because PostgreSQL looks up a named time zone again for
each row: of 18 ms for 20,000 items that took 11 (ADR 60).
"""

from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo
from typing import Any

import numpy as np
from django.utils import timezone
from numpy.typing import NDArray

from convmemory.core.sql import PendingQuery, load_sql
from search.retrieval.candidates import ItemKeys, are_among, item_keys, split_keys
from search.retrieval.corpus import send_moments_query
from search.retrieval.prepared import PreparedQuery

# The second of an item that was deleted meanwhile.
MISSING = -(2**62)
DAY_S = 86_400
# From this share of an owner's items on, all are read at once from an index: by their wide rows 20,000 items took 32 ms
# (ADR 60).
MANY_SHARE = 0.3

_MICROSECONDS = 1_000_000
_POSTGRES_EPOCH_S = 946_684_800  # 2000-01-01, from which PostgreSQL counts
_EARLIEST_S, _LATEST_S = (int(datetime(year, 1, 1, tzinfo=UTC).timestamp()) for year in (1900, 2200))

Columns = tuple[Any, ...]
"""Sources, numbers and moments of items, each as the bytes that PostgreSQL sends."""

Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Moments:
    """The time of each candidate in the order of their keys: `seconds` (n,) from 1970, `MISSING` if unknown."""

    seconds: Ints

    def days(self) -> Ints:
        """Return the days in the current time zone, (n,), counted from 1970-01-01; 0 if unknown."""
        known = np.where(self.seconds == MISSING, 0, self.seconds)
        return days_in(timezone.get_current_timezone(), known)


def read_moments(query: PreparedQuery, keys: ItemKeys, *, item_count: int, of_all: Columns | None = None) -> Moments:
    """Return the times of these items (keys sorted) of the owner's `item_count` items.

    One query; none if the times `of_all` items have been read ahead.
    """
    if of_all is None:
        of_many = len(keys) > item_count * MANY_SHARE
        pending = send_moments_query(query.owner_id) if of_many else _send_query_of_items(query.owner_id, keys)
        (of_all,) = pending.rows()
    found, seconds = _unpacked(of_all)
    moments = Moments(np.full(len(keys), MISSING))
    wanted = are_among(found, keys)
    moments.seconds[np.searchsorted(keys, found[wanted])] = seconds[wanted]
    return moments


def _send_query_of_items(owner_id: int, keys: ItemKeys) -> PendingQuery:
    sources, items = split_keys(keys)
    parameters: dict[str, Any] = {"owner": owner_id, "sources": sources, "items": items}
    return PendingQuery(load_sql("search.ranking", "item_moments"), parameters)


def _unpacked(columns: Columns) -> tuple[ItemKeys, Ints]:
    """Return keys and seconds."""
    kinds = (">i8", ">i4", ">i8")
    sources, numbers, moments = (
        np.frombuffer(data or b"", kind).astype(np.int64) for data, kind in zip(columns, kinds, strict=True)
    )
    return item_keys(sources, numbers), moments // _MICROSECONDS + _POSTGRES_EPOCH_S


def days_in(zone: tzinfo, seconds: Ints) -> Ints:
    """Return the days of some moments in a time zone, counted from 1970-01-01.

    The offset is computed at the beginning and the end of each day in UTC, and for each moment only on a day on which
    it changes.
    """
    days, place = np.unique(seconds // DAY_S, return_inverse=True)
    first, last = (_offsets(zone, ends)[place] for ends in (days * DAY_S, (days + 1) * DAY_S))
    changing = np.flatnonzero(first != last)
    first[changing] = _offsets(zone, seconds[changing])
    local: Ints = (seconds + first) // DAY_S
    return local


def _offsets(zone: tzinfo, seconds: Ints) -> Ints:
    """Return the zone's offsets from UTC at these moments, in seconds.

    Outside the years 1900 to 2199 the offset of the nearer end is returned.
    """
    moments = (datetime.fromtimestamp(second, zone) for second in seconds.clip(_EARLIEST_S, _LATEST_S).tolist())
    offsets = (moment.utcoffset() for moment in moments)
    return np.array([offset.total_seconds() if offset else 0 for offset in offsets], np.int64)
