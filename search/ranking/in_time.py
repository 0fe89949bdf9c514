"""Applies the time in a question to candidates: how near each is to that time, and which comes first.

Reads when items were written. Recency counts only if the question asks for the first or the latest.
"""

from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

import numpy as np
from django.utils import timezone
from numpy.typing import NDArray

from convmemory.core.sql import PendingQuery, load_sql
from search.ranking.dates import EPOCH, NEARBY_DAYS, Days, Period
from search.ranking.times.reading import Beside, Order, Place
from search.ranking.times.spans import Span
from search.retrieval.candidates import ItemKeys, Scores, item_keys, split_keys
from search.retrieval.corpus import send_moments_query
from search.retrieval.features import Feature
from search.retrieval.prepared import PreparedQuery

ABOUT = 2.0  # what lies so far behind the best score counts for 1/e as an answer
ORDER_WEIGHT = 6.0  # what separates the first answer from the latest, where both answer equally well
LEAST_SHARE = 0.1  # of an answer that takes part in the order at all
BESIDE_WEIGHT = 2.0  # of an answer on the right side of an event, near to it
BESIDE_DAYS = 365  # further away from the event, it falls to 1/e in this time
MISSING = -(2**62)  # the second of an item that was deleted meanwhile
DAY_S = 86_400
MANY_SHARE = 0.3  # of an owner's items, from which on all are read at once

Columns = tuple[Any, ...]
"""When all items of an owner were written, as `owner_moments` brings it."""

Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Moments:
    """When candidates were written, in the order of their keys: `days` and `seconds` from 1970."""

    days: NDArray[np.int64]
    seconds: NDArray[np.int64]


def read_moments(query: PreparedQuery, keys: ItemKeys, *, item_count: int, of_all: Columns | None = None) -> Moments:
    """When these items (keys sorted) of the owner's `item_count` items were written.

    One query, none if those `of_all` items have been read ahead.
    """
    if of_all is None and len(keys) > item_count * MANY_SHARE:
        (of_all,) = send_moments_query(query.owner_id).rows()
    found, days, seconds = _moments_of_items(query.owner_id, keys) if of_all is None else _moments_in(of_all)
    moments = Moments(np.zeros(len(keys), np.int64), np.full(len(keys), MISSING))
    places = np.searchsorted(keys, found).clip(max=max(len(keys) - 1, 0))
    wanted = np.flatnonzero(keys[places] == found) if len(keys) else places[:0]
    moments.days[places[wanted]], moments.seconds[places[wanted]] = days[wanted], seconds[wanted]
    return moments


def _moments_of_items(owner_id: int, keys: ItemKeys) -> tuple[ItemKeys, Ints, Ints]:
    """Keys, days and seconds of those of the items that exist."""
    sources, items = split_keys(keys)
    zone = timezone.get_current_timezone_name()
    parameters: dict[str, Any] = {"owner": owner_id, "sources": sources, "items": items, "zone": zone}
    ((found, numbers, days, seconds),) = PendingQuery(load_sql("search", "item_moments"), parameters).rows()
    return item_keys(found or [], numbers or []), np.asarray(days or [], np.int64), np.asarray(seconds or [], np.int64)


def _moments_in(columns: Columns) -> tuple[ItemKeys, Ints, Ints]:
    """Keys, days and seconds."""
    kinds = (">i8", ">i4", ">i4", ">i8")
    found = [np.frombuffer(data or b"", kind).astype(np.int64) for data, kind in zip(columns, kinds, strict=True)]
    return item_keys(found[0], found[1]), found[2], found[3]


def date_features(query: PreparedQuery, keys: ItemKeys, moments: Moments | None) -> dict[str, Scores]:
    """How near to the days named in the query each item was written, if it names any."""
    if query.time is None or moments is None or not isinstance(query.time.meaning, (Period, Span)):
        return {}
    return {Feature.DATE: closeness(query.time.meaning, moments.days)}


def closeness(period: Days, days: NDArray[np.int64]) -> Scores:
    """For days, counted from 1970: 1 inside the period, falling to 0 outside it; 0 for all if none is within a week.

    In the likely year of a period without a year the value is doubled.
    """
    distinct, places = np.unique(days, return_inverse=True)
    outside = [period.days_from(EPOCH + timedelta(days=day)) for day in distinct.tolist()]
    # Scores are scaled by the best of them later on, which would make much of turns that are merely less far.
    if not outside or min(outside) > NEARBY_DAYS:
        return np.zeros(len(days), np.float32)
    near: Scores = np.exp(-np.asarray(outside) / period.softness).astype(np.float32)[places]
    if isinstance(period, Period) and period.likely:
        near += closeness(replace(period, year=period.likely, likely=None), days)
    return near


def in_order_of_time(query: PreparedQuery, scores: Scores, keys: ItemKeys, moments: Moments | None) -> Scores:
    """The scores for a query that asks for the first or the latest answer, or for one before or after an event."""
    if query.time is None or moments is None:
        return scores
    meaning = query.time.meaning
    if isinstance(meaning, Order):
        return scores + ORDER_WEIGHT * earliness(scores, moments.seconds, order=meaning)
    if isinstance(meaning, Beside):
        return scores + BESIDE_WEIGHT * beside(meaning, keys, moments.seconds)
    return scores


def earliness(scores: Scores, seconds: NDArray[np.int64], *, order: Order) -> Scores:
    """0 to 1: how early (late) an item is among those that answer about as well as the best, times how well it does."""
    shares = np.exp((scores - scores.max()) / ABOUT)
    among = (shares >= LEAST_SHARE) & (seconds > MISSING)
    moments = np.unique(seconds[among])
    if len(moments) < 2:
        return np.zeros(len(scores), np.float32)
    ranks = np.searchsorted(moments, seconds).clip(max=len(moments) - 1) / (len(moments) - 1)
    places = 1 - ranks if order is Order.FIRST else ranks
    result: Scores = np.where(among, shares * places, 0).astype(np.float32)
    return result


def beside(event: Beside, keys: ItemKeys, seconds: NDArray[np.int64]) -> Scores:
    """0 to 1: 1 just before (after) the event and less further away; 1 for the item that tells of it; else 0."""
    key, sign = event.place.key, -1 if event.is_before else 1
    later = (seconds - event.place.second) * sign
    same = (later == 0) & ((keys - key) * sign > 0)
    near = np.where((later > 0) | same, np.exp(-np.abs(later) / DAY_S / BESIDE_DAYS), 0)
    result: Scores = np.where(keys == key, 1, np.where(seconds > MISSING, near, 0)).astype(np.float32)
    return result


def place_of_best(keys: ItemKeys, query: PreparedQuery) -> Place | None:
    """Where and when the first of these items was written; None if there is none. One query."""
    moments = read_moments(query, keys[:1], item_count=len(keys))
    if not len(keys) or moments.seconds[0] == MISSING:
        return None
    return Place(int(keys[0]), EPOCH + timedelta(days=int(moments.days[0])), int(moments.seconds[0]))
