"""Dates that a query names, and how near to them a turn was written. Pure.

"in July 2023", "on 3 May", "2023-10-13" and "in 2023" say when something was said. Words of the turn
seldom repeat that, its time does.
"""

import calendar
import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date, timedelta

import numpy as np

from search.ranking import Scores

NEARBY_DAYS = 7.0  # outside the period, what a turn counts for falls to 1/e in this time

MONTHS = {
    name.lower(): number
    for names in (calendar.month_name, calendar.month_abbr)
    for number, name in enumerate(names)
    if name
} | {"sept": 9}
_AMBIGUOUS = {"may", "march", "mar", "dec", "sep", "jan", "jun", "jul", "oct", "nov", "apr", "feb", "aug"}
_MONTH = rf"(?P<month>{'|'.join(sorted(MONTHS, key=len, reverse=True))})\b\.?"
_DAY = r"(?P<day>\d{1,2})(?:st|nd|rd|th)?\b"
_YEAR = r"(?P<year>(?:19|20)\d\d)\b"
_PATTERNS = [
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        rf"\b{_YEAR}-(?P<number>\d\d)(?:-(?P<day>\d\d))?\b",
        rf"\b{_DAY}(?:\s+of)?\s+{_MONTH}(?:\s*,?\s*{_YEAR})?",
        rf"\b{_MONTH}\s+{_DAY}(?!\d)(?:\s*,?\s*{_YEAR})?",
        rf"\b{_MONTH}\s*,?\s*(?:of\s+)?{_YEAR}",
        rf"\b(?:in|since|of|until|by|during|last|this|early|mid|late)[\s-]+{_MONTH}",
        rf"\b{_MONTH}",
        rf"\b(?:in|since|of|until|during|by)\s+{_YEAR}",
    )
]


@dataclass(frozen=True, slots=True)
class Period:
    """A day, a month or a year; without a year, the same time of every year."""

    year: int | None
    month: int | None
    day: int | None

    def days_from(self, moment: date) -> int:
        """How many days `moment` lies outside the period, 0 inside."""
        years = [self.year] if self.year else [moment.year - 1, moment.year, moment.year + 1]
        return min(_distance(moment, *self._bounds(year)) for year in years)

    def _bounds(self, year: int) -> tuple[date, date]:
        last_month = self.month or 12
        days = calendar.monthrange(year, last_month)[1]
        first = date(year, self.month or 1, min(self.day or 1, days))
        return first, first if self.day else date(year, last_month, days)


def _distance(moment: date, first: date, last: date) -> int:
    return max((first - moment) // timedelta(1), (moment - last) // timedelta(1), 0)


def named_period(text: str) -> Period | None:
    """The first date that `text` names, the most exact kind first; None where it names none."""
    for pattern in _PATTERNS:
        for match in pattern.finditer(text):
            found = match.groupdict()
            if not _is_word(pattern, found):
                return _period(found)
    return None


def _is_word(pattern: re.Pattern[str], found: dict[str, str | None]) -> bool:
    """A lone "may" or "march" is a verb, a lone "dec" or "sep" an abbreviation of anything."""
    return pattern is _PATTERNS[-2] and (found["month"] or "").lower() in _AMBIGUOUS


def _period(found: dict[str, str | None]) -> Period | None:
    number = found.get("number")
    month = int(number) if number else MONTHS.get((found.get("month") or "").lower())
    year, day = (int(found[name] or 0) or None if name in found else None for name in ("year", "day"))
    if (month and month > 12) or (day and day > 31):
        return None
    return Period(year, month, day)


def closeness(period: Period, moments: Iterable[date]) -> Scores:
    """1 inside the period, falling to 0 with the days outside it."""
    days: Sequence[int] = [period.days_from(moment) for moment in moments]
    return np.array([math.exp(-count / NEARBY_DAYS) for count in days], np.float32)
