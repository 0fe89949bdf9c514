"""When items were written: read from the index for a query that says something about time.

PostgreSQL gives moments in UTC. The days are counted here, because it looks up a named time zone anew for each row,
which takes longer than everything else.
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

MISSING = -(2**62)  # the second of an item that was deleted meanwhile
DAY_S = 86_400
MANY_SHARE = 0.3  # of an owner's items, from which on all are read at once

_MICROSECONDS = 1_000_000
_POSTGRES_EPOCH_S = 946_684_800  # 2000-01-01, from which PostgreSQL counts
_EARLIEST_S, _LATEST_S = (int(datetime(year, 1, 1, tzinfo=UTC).timestamp()) for year in (1900, 2200))

Columns = tuple[Any, ...]
"""Sources, numbers and moments of items, each as the bytes that PostgreSQL sends."""

Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Moments:
    """When candidates were written, in the order of their keys: `seconds` (n,) from 1970, `MISSING` if unknown."""

    seconds: Ints

    def days(self) -> Ints:
        """The days in the current time zone, (n,), counted from 1970-01-01; 0 if unknown."""
        known = np.where(self.seconds == MISSING, 0, self.seconds)
        return days_in(timezone.get_current_timezone(), known)


def read_moments(query: PreparedQuery, keys: ItemKeys, *, item_count: int, of_all: Columns | None = None) -> Moments:
    """When these items (keys sorted) of the owner's `item_count` items were written.

    One query, none if those `of_all` items have been read ahead.
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
    """Keys and seconds."""
    kinds = (">i8", ">i4", ">i8")
    sources, numbers, moments = (
        np.frombuffer(data or b"", kind).astype(np.int64) for data, kind in zip(columns, kinds, strict=True)
    )
    return item_keys(sources, numbers), moments // _MICROSECONDS + _POSTGRES_EPOCH_S


def days_in(zone: tzinfo, seconds: Ints) -> Ints:
    """The days of some moments in a time zone, counted from 1970-01-01.

    The zone is asked for its offset at the beginning and the end of each day in UTC, and for each moment only on a day
    on which the offset changes.
    """
    days, place = np.unique(seconds // DAY_S, return_inverse=True)
    first, last = (_offsets(zone, ends)[place] for ends in (days * DAY_S, (days + 1) * DAY_S))
    changing = np.flatnonzero(first != last)
    first[changing] = _offsets(zone, seconds[changing])
    local: Ints = (seconds + first) // DAY_S
    return local


def _offsets(zone: tzinfo, seconds: Ints) -> Ints:
    """How far the zone's clocks are ahead of UTC at these moments, in seconds; outside of the years from 1900 to 2199
    as at the nearer end of these."""
    moments = (datetime.fromtimestamp(second, zone) for second in seconds.clip(_EARLIEST_S, _LATEST_S).tolist())
    offsets = (moment.utcoffset() for moment in moments)
    return np.array([offset.total_seconds() if offset else 0 for offset in offsets], np.int64)
