"""The time that a query names, as the reader of a page writes it."""

from django.utils.formats import date_format
from django.utils.translation import gettext, override

from search.ranking.times.reading import Anchor, NearEvent, TimeOrder, TimeReading
from search.ranking.times.relative import DayRange, month_of


def note_on_time(time: TimeReading) -> str:
    """Return a note for the caller, in English; "" for a date with its year and for an event that was not found."""
    with override("en"):
        name = "" if time.is_plain else name_of_time(time)
        return f"Read “{time.words}” as {name}." if name else ""


def name_of_time(time: TimeReading) -> str:
    """Return the meaning of the words in the active language; "" for an event that was not found."""
    match time.meaning:
        case TimeOrder.FIRST:
            return gettext("the oldest first")
        case TimeOrder.LATEST:
            return gettext("the latest first")
        case NearEvent(place, is_before):
            text = gettext("before %(day)s") if is_before else gettext("after %(day)s")
            return text % {"day": date_format(place.day, "DATE_FORMAT")}
        case Anchor():
            return ""
        case days:
            return name_of_range(days)


def name_of_range(days: DayRange) -> str:
    """Return the days in the active language, as months or years if they are whole ones."""
    first, last = days.first, days.last
    is_of_months = first.day == 1 and last == month_of(last).last
    if is_of_months and (first.month, last.month) == (1, 12):
        names = [str(first.year), str(last.year)]
    else:
        names = [date_format(day, "YEAR_MONTH_FORMAT" if is_of_months else "DATE_FORMAT") for day in (first, last)]
    return (
        names[0] if names[0] == names[1] else gettext("%(first)s to %(last)s") % {"first": names[0], "last": names[1]}
    )
