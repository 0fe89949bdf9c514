"""The sentence above the hits on the time that a query names: it holds for the hits below it."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import date

from django.utils.formats import date_format
from django.utils.translation import gettext, ngettext

from search.ranking.time_names import name_of_time
from search.ranking.times.reading import Anchor, NearEvent, TimeOrder, TimeReading
from search.ranking.times.relative import DayRange


def sentence_of_time(time: TimeReading, days: Sequence[date], *, is_complete: bool) -> str:
    """Return the sentence for hits of these `days`, in their order; "" if the query's event is unknown.

    If they are not all hits (`is_complete`), nothing is said about the others.
    """
    values = {"words": time.words, "label": name_of_time(time), "all": len(days)}
    if isinstance(time.meaning, Anchor):
        return ""
    if isinstance(time.meaning, TimeOrder):
        ordered = sorted(days, reverse=time.meaning is TimeOrder.LATEST)
        if list(days) == ordered:
            return gettext("“%(words)s”: %(label)s") % values
        if time.meaning is TimeOrder.LATEST:
            return gettext("“%(words)s”: among equally good results, the later one is first") % values
        return gettext("“%(words)s”: among equally good results, the earlier one is first") % values
    distances = [_days_from(time, day) for day in days]
    count = distances.count(0)
    if count == len(days):
        return gettext("“%(words)s”: %(label)s") % values
    if count:
        text = ngettext(
            "“%(words)s” (%(label)s): %(count)s of these %(all)s results",
            "“%(words)s” (%(label)s): %(count)s of these %(all)s results",
            count,
        )
        return text % (values | {"count": count})
    values["nearest"] = date_format(days[distances.index(min(distances))], "DATE_FORMAT")
    if is_complete:
        return gettext("“%(words)s”: nothing of that time (%(label)s) matches; nearest: %(nearest)s") % values
    return gettext("“%(words)s”: none of these results is of that time (%(label)s); nearest: %(nearest)s") % values


def _days_from(time: TimeReading, day: date) -> int:
    """Return the number of days from `day` to the time that is shown, 0 within it."""
    meaning = time.meaning
    if isinstance(meaning, NearEvent):
        passed = (meaning.place.day - day).days
        return max(-passed if meaning.is_before else passed, 0)
    return replace(meaning, recurs=False).days_from(day) if isinstance(meaning, DayRange) else 0
