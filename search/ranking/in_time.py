"""Applies the time in a question to candidates: when each was written, how near that is, which comes first.

Recency counts only if the question asks for the first or the latest.
"""

from dataclasses import replace
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from typing import Any

import numpy as np
from django.utils import timezone
from numpy.typing import NDArray

from convmemory.core.sql import PendingQuery, load_sql
from search.ranking.times.reading import DatedItem, NearEvent, TimeOrder
from search.ranking.times.relative import EPOCH, NEARBY_DAYS, DayRange, shifted
from search.retrieval.candidates import Feature, Ints, ItemKeys, Scores, are_among, item_keys, split_keys
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


# PostgreSQL returns moments in UTC. The days are counted here, because PostgreSQL looks up a named time zone again for
# each row: of 18 ms for 20,000 items that took 11 (ADR 60).
def read_moments(query: PreparedQuery, keys: ItemKeys, *, item_count: int, of_all: Columns | None = None) -> Ints:
    """Return the seconds from 1970 of these items (keys sorted) of the owner's `item_count` items, or `MISSING`.

    One query; none if the times `of_all` items have been read ahead.
    """
    if of_all is None:
        if len(keys) > item_count * MANY_SHARE:
            pending = send_moments_query(query.archive_id)
        else:
            sources, items = split_keys(keys)
            parameters: dict[str, Any] = {"owner": query.archive_id, "sources": sources, "items": items}
            pending = PendingQuery(load_sql("search.ranking", "item_moments"), parameters)
        (of_all,) = pending.rows()
    dated, seconds = _unpacked(of_all)
    moments: Ints = np.full(len(keys), MISSING)
    chosen = are_among(dated, keys)
    moments[np.searchsorted(keys, dated[chosen])] = seconds[chosen]
    return moments


def _unpacked(columns: Columns) -> tuple[ItemKeys, Ints]:
    """Return keys and seconds."""
    kinds = (">i8", ">i4", ">i8")
    sources, numbers, moments = (
        np.frombuffer(data or b"", kind).astype(np.int64) for data, kind in zip(columns, kinds, strict=True)
    )
    return item_keys(sources, numbers), moments // _MICROSECONDS + _POSTGRES_EPOCH_S


def local_days(seconds: Ints) -> Ints:
    """Return the days of some moments in the current time zone, counted from 1970-01-01; 0 for `MISSING`."""
    return days_in(timezone.get_current_timezone(), np.where(seconds == MISSING, 0, seconds))


def days_in(zone: tzinfo, seconds: Ints) -> Ints:
    """Return the days of some moments in a time zone, counted from 1970-01-01.

    The offset is computed at the beginning and the end of each day in UTC, and for each moment only on a day on which
    it changes.
    """
    days, inverse = np.unique(seconds // DAY_S, return_inverse=True)
    first, last = (_offsets(zone, ends)[inverse] for ends in (days * DAY_S, (days + 1) * DAY_S))
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


# A turn whose score lies this far behind the best counts 1/e as an answer. docs/benchmarks.md has the measurements with
# these constants.
ABOUT = 2.0
# The distance between the first and the latest answer if both answer equally well; with half of it 12 of 16 questions
# are still right.
ORDER_WEIGHT = 6.0
# Only items that count at least this much as answers are ordered by time.
LEAST_SHARE = 0.1
# The gain of an item on the right side of an event, close to it.
NEAR_EVENT_WEIGHT = 2.0
# Further away from the event, the gain falls to 1/e in this time.
NEAR_EVENT_DAYS = 365


def date_features(query: PreparedQuery, keys: ItemKeys, moments: Ints | None) -> dict[str, Scores]:
    """Return the closeness of each item to the days named in the query, if it names any."""
    if query.time is None or moments is None or not isinstance(query.time.meaning, DayRange):
        return {}
    return {Feature.DATE: closeness(query.time.meaning, local_days(moments))}


def closeness(period: DayRange, days: NDArray[np.int64]) -> Scores:
    """Return the closeness of days, counted from 1970: 1 inside the period, falling to 0 outside it.

    It is 0 for all if none is within a week. In the likely year of days without a year the value is doubled.
    """
    distinct, places = np.unique(days, return_inverse=True)
    outside = [period.days_from(EPOCH + timedelta(days=day)) for day in distinct.tolist()]
    # Scores are scaled by the best later on, which would favour turns that are only less far away.
    if not outside or min(outside) > NEARBY_DAYS:
        return np.zeros(len(days), np.float32)
    near: Scores = np.exp(-np.asarray(outside) / NEARBY_DAYS).astype(np.float32)[places]
    if period.recurs:
        near += closeness(replace(period, recurs=False), days)
    return near


def in_order_of_time(query: PreparedQuery, scores: Scores, keys: ItemKeys, moments: Ints | None) -> Scores:
    """Adjust the scores for a query that asks for the first or the latest answer, or for one before or after an
    event.
    """
    if query.time is None or moments is None:
        return scores
    meaning = query.time.meaning
    if isinstance(meaning, TimeOrder):
        return scores + ORDER_WEIGHT * earliness(scores, moments, order=meaning)
    if isinstance(meaning, NearEvent):
        return scores + NEAR_EVENT_WEIGHT * near_event(meaning, keys, moments)
    return scores


def earliness(scores: Scores, seconds: NDArray[np.int64], *, order: TimeOrder) -> Scores:
    """Return from 0 to 1 how early (late) an item is among the items that answer about as well as the best.

    The value is multiplied by how well the item answers.
    """
    shares = np.exp((scores - scores.max()) / ABOUT)
    among = (shares >= LEAST_SHARE) & (seconds > MISSING)
    moments = np.unique(seconds[among])
    if len(moments) < 2:
        return np.zeros(len(scores), np.float32)
    ranks = np.searchsorted(moments, seconds).clip(max=len(moments) - 1) / (len(moments) - 1)
    places = 1 - ranks if order is TimeOrder.FIRST else ranks
    result: Scores = np.where(among, shares * places, 0).astype(np.float32)
    return result


def near_event(event: NearEvent, keys: ItemKeys, seconds: NDArray[np.int64]) -> Scores:
    """Return from 0 to 1 how close an item is to the right side of an event.

    1 just before (after) the event and less further away; 1 for the item that describes the event; otherwise 0.
    """
    key, sign = event.place.key, -1 if event.is_before else 1
    later = (seconds - event.place.second) * sign
    same = (later == 0) & ((keys - key) * sign > 0)
    near = np.where((later > 0) | same, np.exp(-np.abs(later) / DAY_S / NEAR_EVENT_DAYS), 0)
    result: Scores = np.where(keys == key, 1, np.where(seconds > MISSING, near, 0)).astype(np.float32)
    return result


def place_of_best(keys: ItemKeys, query: PreparedQuery) -> DatedItem | None:
    """Return the place and the time of the first of these items; None if there is none. One query."""
    moments = read_moments(query, keys[:1], item_count=len(keys))
    if not len(keys) or moments[0] == MISSING:
        return None
    return DatedItem(int(keys[0]), EPOCH + timedelta(days=int(local_days(moments)[0])), int(moments[0]))


def items_written_in(query: PreparedQuery, days: DayRange | None, moments: PendingQuery) -> tuple[ItemKeys, Ints]:
    """Return the keys (sorted) and the seconds since 1970 of all items that pass the filters, in these days if any.

    `moments` is the query for when all items were written, sent before those for the filters.
    """
    (columns,) = moments.rows()
    keys, seconds = _unpacked(columns)
    chosen = query.eligibility.admitted(keys)
    if days is not None:
        distinct, places = np.unique(local_days(seconds), return_inverse=True)
        inside = np.array([not days.days_from(EPOCH + timedelta(days=day)) for day in distinct.tolist()], np.bool_)
        chosen = chosen & inside[places]
    order = np.argsort(keys[chosen])
    return keys[chosen][order], seconds[chosen][order]


def has_begun(archive_id: int, span: DayRange) -> bool:
    """Return whether a conversation or document of the owner began within or near these days. One query."""
    parameters: dict[str, Any] = {
        "owner": archive_id,
        "first": _midnight(shifted(span.first, days=-NEARBY_DAYS)),
        "after_last": _midnight(shifted(span.last, days=NEARBY_DAYS + 1)),
    }
    ((has_source,),) = PendingQuery(load_sql("search.ranking", "sources_begun"), parameters).rows()
    return bool(has_source)


def _midnight(day: date) -> datetime:
    return datetime.combine(day, time.min, UTC)
