"""Applies the time in a question to candidates: the distance of each to that time, and their order.

Recency counts only if the question asks for the first or the latest.
"""

from dataclasses import replace
from datetime import timedelta

import numpy as np
from numpy.typing import NDArray

from search.ranking.dates import EPOCH, NEARBY_DAYS, Days, Period
from search.ranking.moments import DAY_S, MISSING, Moments, read_moments
from search.ranking.times.reading import Beside, Order, Place
from search.ranking.times.spans import Span
from search.retrieval.candidates import ItemKeys, Scores
from search.retrieval.features import Feature
from search.retrieval.prepared import PreparedQuery

# A turn whose score lies this far behind the best counts 1/e as an answer. ADR 60 has the measurements of these
# constants.
ABOUT = 2.0
# The distance between the first and the latest answer if both answer equally well; with half of it 12 of 16 questions
# are still right.
ORDER_WEIGHT = 6.0
# Only items that count at least this much as answers are ordered by time.
LEAST_SHARE = 0.1
# The gain of an item on the right side of an event, close to it.
BESIDE_WEIGHT = 2.0
# Further away from the event, the gain falls to 1/e in this time.
BESIDE_DAYS = 365


def date_features(query: PreparedQuery, keys: ItemKeys, moments: Moments | None) -> dict[str, Scores]:
    """Return the closeness of each item to the days named in the query, if it names any."""
    if query.time is None or moments is None or not isinstance(query.time.meaning, (Period, Span)):
        return {}
    return {Feature.DATE: closeness(query.time.meaning, moments.days())}


def closeness(period: Days, days: NDArray[np.int64]) -> Scores:
    """Return the closeness of days, counted from 1970: 1 inside the period, falling to 0 outside it.

    It is 0 for all if none is within a week. In the likely year of a period without a year the value is doubled.
    """
    distinct, places = np.unique(days, return_inverse=True)
    outside = [period.days_from(EPOCH + timedelta(days=day)) for day in distinct.tolist()]
    # Scores are scaled by the best later on, which would favour turns that are only less far away.
    if not outside or min(outside) > NEARBY_DAYS:
        return np.zeros(len(days), np.float32)
    near: Scores = np.exp(-np.asarray(outside) / period.softness).astype(np.float32)[places]
    if isinstance(period, Period) and period.likely:
        near += closeness(replace(period, year=period.likely, likely=None), days)
    return near


def in_order_of_time(query: PreparedQuery, scores: Scores, keys: ItemKeys, moments: Moments | None) -> Scores:
    """Adjust the scores for a query that asks for the first or the latest answer, or for one before or after an
    event.
    """
    if query.time is None or moments is None:
        return scores
    meaning = query.time.meaning
    if isinstance(meaning, Order):
        return scores + ORDER_WEIGHT * earliness(scores, moments.seconds, order=meaning)
    if isinstance(meaning, Beside):
        return scores + BESIDE_WEIGHT * beside(meaning, keys, moments.seconds)
    return scores


def earliness(scores: Scores, seconds: NDArray[np.int64], *, order: Order) -> Scores:
    """Return from 0 to 1 how early (late) an item is among the items that answer about as well as the best.

    The value is multiplied by how well the item answers.
    """
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
    """Return from 0 to 1 how close an item is to the right side of an event.

    1 just before (after) the event and less further away; 1 for the item that describes the event; otherwise 0.
    """
    key, sign = event.place.key, -1 if event.is_before else 1
    later = (seconds - event.place.second) * sign
    same = (later == 0) & ((keys - key) * sign > 0)
    near = np.where((later > 0) | same, np.exp(-np.abs(later) / DAY_S / BESIDE_DAYS), 0)
    result: Scores = np.where(keys == key, 1, np.where(seconds > MISSING, near, 0)).astype(np.float32)
    return result


def place_of_best(keys: ItemKeys, query: PreparedQuery) -> Place | None:
    """Return the place and the time of the first of these items; None if there is none. One query."""
    moments = read_moments(query, keys[:1], item_count=len(keys))
    if not len(keys) or moments.seconds[0] == MISSING:
        return None
    return Place(int(keys[0]), EPOCH + timedelta(days=int(moments.days()[0])), int(moments.seconds[0]))
