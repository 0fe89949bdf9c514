"""Finds dates that a query names. Pure.

"in July 2023", "on 3 May", "2023-10-13" and "in 2023" say when something was written. The words of a turn seldom repeat
its date, so the date is compared with the turn's time.
"""

import calendar
import re
from dataclasses import dataclass, replace
from datetime import date, timedelta
from typing import Protocol

EPOCH = date(1970, 1, 1)
# Outside the period, a turn's value falls to 1/e in this time; if no turn is within it, the date has no effect.
NEARBY_DAYS = 7

_NAMES = [
    "january",
    "february",
    "march",
    "april",
    "may",
    "june",
    "july",
    "august",
    "september",
    "october",
    "november",
    "december",
]
MONTHS = {short: n for n, name in enumerate(_NAMES, 1) for short in (name, name[:3])} | {"sept": 9}
_AMBIGUOUS = {"may", "march", "mar", "dec", "sep", "jan", "jun", "jul", "oct", "nov", "apr", "feb", "aug"}
_MONTH = rf"(?P<month>{'|'.join(sorted(MONTHS, key=len, reverse=True))})\b\.?"
_DAY = r"(?P<day>\d{1,2})(?:st|nd|rd|th)?\b"
_YEAR = r"(?P<year>(?:19|20)\d\d)\b"
_PATTERNS = [
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        rf"\b{_YEAR}-(?P<number>\d\d)(?:-(?P<day>\d\d))?\b",
        rf"(?<!\.)\b{_DAY}(?:\s+of)?\s+{_MONTH}(?:\s*,?\s*{_YEAR})?",
        rf"\b{_MONTH}\s+{_DAY}(?![\d.]\d)(?:\s*,?\s*{_YEAR})?",
        rf"\b{_MONTH}\s*,?\s*(?:of\s+)?{_YEAR}",
        rf"\b(?:in|since|of|until|by|during|last|early|mid|late)[\s-]+{_MONTH}",
        rf"\b{_MONTH}",
        rf"\b(?:in|since|of|until|during|by)\s+{_YEAR}",
    )
]
# The text before a date in which the preposition is looked for.
LEAD_CHARS = 40
_LONE_MONTH = _PATTERNS[-2]
_LEADS_TO_DATE = re.compile(r"\b(?:on|since|until|till|by|from|before|after|of|the|in)\s+$", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Period:
    """A day, a month or a year; without a year, the same time of each year, preferably the `likely` one."""

    year: int | None
    month: int | None
    day: int | None
    likely: int | None = None

    @property
    def label(self) -> str:
        """Return the period for display: "13 October 2023", "October 2023", "2023"."""
        year = self.year or self.likely
        words = [self.day, self.month and _NAMES[self.month - 1].capitalize(), year]
        return " ".join(str(word) for word in words if word)

    def likely_in(self, today: date, *, is_over: bool) -> "Period":
        """Return the period with the latest year in which it began before `today`, or with `is_over` ended before
        it.
        """
        if self.year:
            return self
        first, last = self._bounds(today.year)
        return replace(self, likely=today.year - ((last if is_over else first) > today))

    @property
    def softness(self) -> float:
        return NEARBY_DAYS

    def days_from(self, moment: date) -> int:
        """Return the number of days from `moment` to the period, 0 inside."""
        near = range(max(moment.year - 1, date.min.year), min(moment.year + 1, date.max.year) + 1)
        years = [self.year] if self.year else near
        return min(_distance(moment, *self._bounds(year)) for year in years)

    def _bounds(self, year: int) -> tuple[date, date]:
        last_month = self.month or 12
        days = calendar.monthrange(year, last_month)[1]
        first = date(year, self.month or 1, min(self.day or 1, days))
        return first, first if self.day else date(year, last_month, days)


class Days(Protocol):
    """A range of days with a distance to it."""

    @property
    def softness(self) -> float:
        """Return the distance in days at which a turn's share falls to 1/e."""

    def days_from(self, moment: date) -> int:
        """Return the number of days from `moment` to the range, 0 inside."""


def _distance(moment: date, first: date, last: date) -> int:
    return max((first - moment) // timedelta(1), (moment - last) // timedelta(1), 0)


def named_period(text: str) -> Period | None:
    """Return the first date that `text` names, the most precise kind first; None if it names none."""
    found = _find_date(text)
    return found[1] if found else None


def named_date(text: str, today: date) -> tuple[str, Period] | None:
    """Return the same date with the words that name it, and with the year that "in March" means on that day."""
    found = _find_date(text)
    if found is None:
        return None
    words, period = found
    return words, period.likely_in(today, is_over=words.lower().startswith("last"))


def _find_date(text: str) -> tuple[str, Period] | None:
    for pattern in _PATTERNS:
        for match in pattern.finditer(text):
            if not _is_other_word(match) and (period := _period(match.groupdict())):
                return match[0], period
    return None


def _is_other_word(match: re.Match[str]) -> bool:
    """Return whether "may" is the verb, "march" the walk, "dec" or "sep" another abbreviation."""
    found = match.groupdict()
    month = found.get("month") or ""
    if month.lower() not in _AMBIGUOUS or found.get("year"):
        return False
    if match.re is _LONE_MONTH:
        return True
    before = match.string[max(match.start() - LEAD_CHARS, 0) : match.start()]
    return "day" in found and month.islower() and not _LEADS_TO_DATE.search(before)


def _period(found: dict[str, str | None]) -> Period | None:
    number = found.get("number")
    month = int(number) if number else MONTHS.get((found.get("month") or "").lower())
    year, day = (int(found.get(name) or 0) or None for name in ("year", "day"))
    if (month is not None and not 1 <= month <= 12) or (day and day > 31):
        return None
    return Period(year, month, day)
