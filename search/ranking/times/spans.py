"""Ranges of days, the distance of a day to them, and their names for display. Pure."""

import calendar
from dataclasses import dataclass
from datetime import date, timedelta

# Outside a single day, and outside a week or more, a turn's value falls to 1/e in this time.
SOFT_DAYS = (2.0, 7.0)


@dataclass(frozen=True, slots=True)
class Span:
    """The days from `first` to `last`, both within."""

    first: date
    last: date

    @property
    def softness(self) -> float:
        """Return the distance in days at which a turn's share falls to 1/e."""
        least, most = SOFT_DAYS
        return min(least + (self.last - self.first).days, most)

    @property
    def label(self) -> str:
        """Return the range for display: "October 2026", "9 to 15 November 2026"."""
        first, last = self.first, self.last
        if first == last:
            return _day(first)
        if first.day == 1 and last == month_of(last).last:
            if (first.month, last.month) == (1, 12):
                return str(first.year) if first.year == last.year else f"{first.year} to {last.year}"
            start = f"{first:%B}" if first.year == last.year else f"{first:%B %Y}"
            return f"{last:%B %Y}" if month_of(first) == month_of(last) else f"{start} to {last:%B %Y}"
        if first.year != last.year:
            return f"{_day(first)} to {_day(last)}"
        return f"{first.day}{'' if first.month == last.month else f' {first:%B}'} to {_day(last)}"

    def days_from(self, moment: date) -> int:
        """Return the number of days from `moment` to the range, 0 inside."""
        return max((self.first - moment).days, (moment - self.last).days, 0)

    def part(self, name: str) -> "Span":
        """Return the `start`, `middle` or `end` of the range: a third of it."""
        days = (self.last - self.first).days + 1
        third = max(days // 3, 1)
        skipped = {"start": 0, "middle": (days - third) // 2, "end": days - third}[name]
        return Span(self.first + timedelta(days=skipped), self.first + timedelta(days=skipped + third - 1))


def _day(moment: date) -> str:
    return f"{moment.day} {moment:%B %Y}"


def around(day: date, days: int) -> Span:
    """Return the day, extended by this many days before and after."""
    return Span(shifted(day, days=-days), shifted(day, days=days))


def shifted(day: date, *, days: int = 0, months: int = 0) -> date:
    """Return the day this much later; in a shorter month the last day."""
    month = day.year * 12 + day.month - 1 + months
    year = month // 12
    if not date.min.year < year < date.max.year:
        return date.min if year <= date.min.year else date.max
    moved = date(year, month % 12 + 1, min(day.day, calendar.monthrange(year, month % 12 + 1)[1]))
    try:
        return moved + timedelta(days=days)
    except OverflowError:
        return date.min if days < 0 else date.max


def month_of(day: date, months: int = 1) -> Span:
    """Return the month of the day; with 3 months the quarter, with 12 the year."""
    first = date(day.year, (day.month - 1) // months * months + 1, 1)
    last_month = first.month + months - 1
    return Span(first, date(day.year, last_month, calendar.monthrange(day.year, last_month)[1]))


def week_of(day: date) -> Span:
    """Return the week of the day, Monday to Sunday."""
    monday = shifted(day, days=-day.weekday())
    return Span(monday, shifted(monday, days=6))
