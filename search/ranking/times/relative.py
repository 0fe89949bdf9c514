"""Ranges of days, and words that name one: "last month", "two weeks ago", "on Tuesday". Pure, English."""

import calendar
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, timedelta

EPOCH = date(1970, 1, 1)
# Outside the days, a turn's value falls to 1/e in this time; if no turn is within it, they have no effect.
NEARBY_DAYS = 7


@dataclass(frozen=True, slots=True)
class DayRange:
    """The days from `first` to `last`, both within.

    A written day or month without a year `recurs`: these days are meant, or else the same ones of another year.
    """

    first: date
    last: date
    recurs: bool = False

    def days_from(self, moment: date) -> int:
        """Return the number of days from `moment` to the range, 0 inside."""
        if self.recurs:
            years = range(max(moment.year - 1, date.min.year), min(moment.year + 1, date.max.year) + 1)
            months = [month_of(date(year, self.first.month, 1)) for year in years]
            if self.first == self.last:
                return min(month.day(self.first.day).days_from(moment) for month in months)
            return min(month.days_from(moment) for month in months)
        return max((self.first - moment).days, (moment - self.last).days, 0)

    def day(self, number: int) -> "DayRange":
        """Return this day of a month, counted from 1, or its last."""
        day = min(self.first + timedelta(days=number - 1), self.last)
        return DayRange(day, day)

    def part(self, name: str) -> "DayRange":
        """Return the `start`, `middle` or `end` of the range: a third of it."""
        days = (self.last - self.first).days + 1
        third = max(days // 3, 1)
        skipped = {"start": 0, "middle": (days - third) // 2, "end": days - third}[name]
        return DayRange(self.first + timedelta(days=skipped), self.first + timedelta(days=skipped + third - 1))


def around(day: date, days: int) -> DayRange:
    """Return the day, extended by this many days before and after."""
    return DayRange(shifted(day, days=-days), shifted(day, days=days))


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


def month_of(day: date, months: int = 1) -> DayRange:
    """Return the month of the day; with 3 months the quarter, with 12 the year."""
    first = date(day.year, (day.month - 1) // months * months + 1, 1)
    last_month = first.month + months - 1
    return DayRange(first, date(day.year, last_month, calendar.monthrange(day.year, last_month)[1]))


def week_of(day: date) -> DayRange:
    """Return the week of the day, Monday to Sunday."""
    monday = shifted(day, days=-day.weekday())
    return DayRange(monday, shifted(monday, days=6))


_COUNTED = ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")
NUMBERS = {"a": 1, "an": 1, "couple of": 2, "couple": 2, "few": 3, "several": 4} | {
    name: number for number, name in enumerate(_COUNTED, 1)
}
NUMBER = rf"(?:a )?(?P<number>\d{{1,3}}|{'|'.join(sorted(NUMBERS, key=len, reverse=True))})"
UNIT = r"(?P<unit>day|week|fortnight|month|quarter|year)"
DAYS_IN = {"day": 1, "week": 7, "fortnight": 14}
MONTHS_IN = {"month": 1, "quarter": 3, "year": 12}
WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
SEASONS = {"spring": 3, "summer": 6, "autumn": 9, "fall": 9, "winter": 12}  # the month in which each begins
FOREIGN_SEASONS = {"frühling": 3, "frühjahr": 3, "sommer": 6, "herbst": 9, "printemps": 3, "été": 6, "automne": 9,
                   "hiver": 12, "primavera": 3, "verano": 6, "otoño": 9, "invierno": 12}  # fmt: skip
"""Seasons in other languages are read with a year alone."""
PARTS = {"start": "start", "beginning": "start", "early": "start", "middle": "middle", "mid": "middle", "end": "end",
         "late": "end"}  # fmt: skip

MatchedGroups = dict[str, str | None]

_ORDINALS = ("first", "second", "third", "fourth")
_QUARTER = re.compile(
    rf"(?:\b(?P<word>{'|'.join(_ORDINALS)}) quarter|(?<![\w./-])q(?P<digit>[1-4]))"
    r"(?:(?: of| in)? (?P<year>(?:19|20)\d\d|last year|this year))?\b",
    re.IGNORECASE,
)


_SEASON_OF_YEAR = re.compile(
    rf"\b(?P<season>{'|'.join([*SEASONS, *FOREIGN_SEASONS])})(?: of| de)? (?P<year>(?:19|20)\d\d)\b(?!\.\d)",
    re.IGNORECASE,
)


def relative_days(text: str, today: date) -> tuple[str, DayRange] | None:
    """Return the first such words in `text`, the most specific kind first, and their meaning; future periods do not
    count.
    """
    for pattern, resolve in _READERS:
        for match in pattern.finditer(text):
            span = resolve({name: value and value.lower() for name, value in match.groupdict().items()}, today)
            if span.first <= today:
                return match[0], span
    return None


def quarter_days(text: str, today: date) -> tuple[str, DayRange] | None:
    """Read "Q3" or "the first quarter of 2026"; without a year the latest quarter that has begun."""
    match = _QUARTER.search(text)
    if match is None:
        return None
    word, digit, year = match["word"], match["digit"], (match["year"] or "").lower()
    number = _ORDINALS.index(word.lower()) + 1 if word else int(digit)
    first = date(int(year) if year.isdigit() else today.year - (year == "last year"), number * 3 - 2, 1)
    if not year and first > today:
        first = shifted(first, months=-12)
    return match[0], month_of(first, 3)


def season_days(text: str, today: date) -> tuple[str, DayRange] | None:
    """Read "summer 2024", also in German, French and Spanish; a winter begins in December of its year."""
    match = _SEASON_OF_YEAR.search(text)
    if match is None:
        return None
    month = (SEASONS | FOREIGN_SEASONS)[match["season"].lower()]
    first = date(int(match["year"]), month, 1)
    return (match[0], DayRange(first, shifted(first, months=3, days=-1))) if first <= today else None


def number_of(words: str | None) -> int:
    """Return the number that `NUMBER` matched; 1 if it matched nothing."""
    number = (words or "one").lower().removeprefix("a ")
    return int(number) if number.isdigit() else NUMBERS[number]


def moved_by(day: date, count: int, unit: str) -> DayRange:
    """Return the days this many units after the day, or before it if negative: the further away, the less precise."""
    if unit in DAYS_IN:
        days = count * DAYS_IN[unit]
        return around(shifted(day, days=days), 3 if unit != "day" else abs(days) // 7)
    there = shifted(day, months=count * MONTHS_IN[unit])
    return around(there, 15 if unit == "month" else 45 if unit == "quarter" else 90)


def _yesterday(groups: MatchedGroups, today: date) -> DayRange:
    return around(shifted(today, days=-2 if groups["before"] else -1), 0)


def _today(_: MatchedGroups, today: date) -> DayRange:
    return around(today, 0)


def _calendar(groups: MatchedGroups, today: date) -> DayRange:
    """Return the days of "last month", "this week", "the end of last year"."""
    unit, is_this = groups["unit"] or "", groups["which"] == "this"
    if groups["which"] == "past" and unit in DAYS_IN | MONTHS_IN:
        span = _rolling({"number": "one", "unit": unit}, today)
    elif unit in ("week", "weekend"):
        week = week_of(today if is_this else shifted(today, days=-7))
        span = week if unit == "week" else DayRange(shifted(week.last, days=-1), week.last)
    elif unit in SEASONS:
        # The latest season that began; "last summer" is the latest that is over.
        first = date(today.year, SEASONS[unit], 1)
        if first > today:
            first = shifted(first, months=-12)
        if not is_this and shifted(first, months=3) > today:
            first = shifted(first, months=-12)
        span = DayRange(first, shifted(shifted(first, months=3), days=-1))
    else:
        months = MONTHS_IN[unit]
        span = month_of(today if is_this else shifted(month_of(today, months).first, days=-1), months)
    part = groups.get("part")
    return span.part(PARTS[part]) if part else span


def _rolling(groups: MatchedGroups, today: date) -> DayRange:
    """Return the days of "the past three weeks"."""
    count, unit = number_of(groups["number"]), groups["unit"] or ""
    if unit in DAYS_IN:
        return DayRange(shifted(today, days=-count * DAYS_IN[unit]), today)
    return DayRange(shifted(today, months=-count * MONTHS_IN[unit]), today)


def _ago(groups: MatchedGroups, today: date) -> DayRange:
    count, unit = number_of(groups["number"]), groups["unit"] or ""
    span = moved_by(today, -count, unit)
    if unit == "year":  # "a year ago" means the year as often as the day
        year = month_of(shifted(today, months=-12 * count), 12)
        span = DayRange(min(span.first, year.first), max(span.last, year.last))
    return DayRange(span.first, min(span.last, today))


def _weekday(groups: MatchedGroups, today: date) -> DayRange:
    """Return the latest such day before today; "this Monday" may be today."""
    back = (today.weekday() - WEEKDAYS.index(groups["day"] or "")) % 7
    return around(shifted(today, days=-(back or (0 if groups["which"] == "this" else 7))), 0)


_CALENDAR_UNITS = "|".join(["weekend", "week", *MONTHS_IN, *SEASONS])
_PART = r"(?:(?P<part>start|beginning|middle|end|early|mid|late)(?: of|-| ) ?)?"
_READERS: list[tuple[re.Pattern[str], Callable[[MatchedGroups, date], DayRange]]] = [  # the most specific first
    (re.compile(pattern, re.IGNORECASE), resolve)
    for pattern, resolve in (
        (r"\b(?P<before>the day before )?(?:yesterday|last night)\b", _yesterday),
        (r"\b(?:earlier today|today|this (?:morning|afternoon|evening)|tonight)\b", _today),
        (rf"\b{NUMBER} {UNIT}s? ago\b", _ago),
        (rf"\b(?:last|past|previous) {NUMBER} {UNIT}s\b", _rolling),
        (rf"\b(?P<which>last|this|past|on) (?:past )?(?P<day>{'|'.join(WEEKDAYS)})\b", _weekday),
        (rf"\b(?:the )?{_PART}(?:the )?(?P<which>last|this|past|previous) (?P<unit>{_CALENDAR_UNITS})\b", _calendar),
    )
]
