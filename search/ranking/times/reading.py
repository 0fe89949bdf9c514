"""Reads what a question says about when: a date, a period, an event, or the first or the latest. Pure, English.

A time is read only if the words ask for one: "how long before slicing" and "who asked first" do not.
"""

import re
from dataclasses import dataclass, replace
from datetime import date
from enum import StrEnum

from search.ranking.times.relative import (
    NUMBER,
    UNIT,
    DayRange,
    month_of,
    moved_by,
    number_of,
    quarter_days,
    relative_days,
    season_days,
)

_NAMES = "january february march april may june july august september october november december"
MONTHS = {short: n for n, name in enumerate(_NAMES.split(), 1) for short in (name, name[:3])} | {"sept": 9}
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


# "in July 2023", "on 3 May", "2023-10-13" and "in 2023" say when something was written. The words of a turn seldom
# repeat its date, so the date is compared with the turn's time.
def find_date(text: str, today: date) -> tuple[str, DayRange] | None:
    """Return the first date that `text` names, the most precise kind first, after its words; None if it names none."""
    for pattern in _PATTERNS:
        for match in pattern.finditer(text):
            if not _is_other_word(match) and (days := _days_of(match.groupdict(), match[0], today)):
                return match[0], days
    return None


def _is_other_word(match: re.Match[str]) -> bool:
    """Return whether "may" is the verb, "march" the walk, "dec" or "sep" another abbreviation."""
    groups = match.groupdict()
    month = groups.get("month") or ""
    if month.lower() not in _AMBIGUOUS or groups.get("year"):
        return False
    if match.re is _LONE_MONTH:
        return True
    before = match.string[max(match.start() - LEAD_CHARS, 0) : match.start()]
    return "day" in groups and month.islower() and not _LEADS_TO_DATE.search(before)


def _days_of(groups: dict[str, str | None], words: str, today: date) -> DayRange | None:
    """Return the days of a date; without a year of the latest year in which they began before today, "last" ended."""
    number = groups.get("number")
    month = int(number) if number else MONTHS.get((groups.get("month") or "").lower())
    year, day = (int(groups.get(name) or 0) or None for name in ("year", "day"))
    if (month is not None and not 1 <= month <= 12) or (day and day > 31):
        return None

    def days_in(year: int) -> DayRange:
        days = month_of(date(year, month or 1, 1), 1 if month else 12)
        return days.day(day) if day else days

    if year:
        return days_in(year)
    days = days_in(today.year)
    is_over = (days.last if words.lower().startswith("last") else days.first) <= today
    return replace(days if is_over else days_in(today.year - 1), recurs=True)


# Only this many characters of a question are read, so that the time for reading is bounded.
MAX_CHARS = 1_000
SHORT_WORDS = 20
WORDS_SHOWN = 60


class TimeOrder(StrEnum):
    """The one of several answers that the question asks for."""

    FIRST = "first"
    LATEST = "latest"


@dataclass(frozen=True, slots=True)
class Anchor:
    """A time relative to an event that has to be found: `count` units before or after it, or without a unit any time
    there.
    """

    event: str
    is_before: bool
    count: int = 0
    unit: str = ""

    def days_at(self, day: date) -> DayRange | None:
        """Return the days meant if the event was on that day; None if any time before or after is meant."""
        return moved_by(day, -self.count if self.is_before else self.count, self.unit) if self.unit else None


@dataclass(frozen=True, slots=True)
class DatedItem:
    """An item, by its key, and when it was written: the day, and the second since 1970."""

    key: int
    day: date
    second: int


@dataclass(frozen=True, slots=True)
class NearEvent:
    """Any time before or after an event that an item describes."""

    place: DatedItem
    is_before: bool


Meaning = DayRange | Anchor | NearEvent | TimeOrder


@dataclass(frozen=True, slots=True)
class TimeReading:
    """The `words` of the question that name a time, as written, and their meaning.

    If they name days relative to others, `rest` is the question without them; texts may contain a written date.
    """

    words: str
    meaning: Meaning
    rest: str = ""

    def days_alone(self, text: str) -> DayRange | None:
        """Return the days that `text` names if it asks for nothing else: "what did we discuss last week"."""
        days = self.meaning
        if not isinstance(days, DayRange) or _OPEN_ENDED.search(text):
            return None
        before, _, after = " ".join(text.split()).partition(self.words)
        if set(_WORDS.findall(f"{before} {after}".lower().replace("\u2019", "'"))) - ASKING_WORDS:
            return None
        return replace(days, recurs=False)

    @property
    def words_of_time(self) -> str:
        """Return the words that only name a time, which are not to be found in texts; none of an event."""
        return "" if isinstance(self.meaning, (Anchor, NearEvent)) else self.words

    @property
    def is_plain(self) -> bool:
        """Return whether the words are a date with its year, which can be read in one way alone."""
        return isinstance(self.meaning, DayRange) and not (self.rest or self.meaning.recurs)

    def at(self, item: DatedItem) -> "TimeReading":
        """Return the reading once its event is found."""
        anchor = self.meaning
        if not isinstance(anchor, Anchor):
            return self
        return replace(self, meaning=anchor.days_at(item.day) or NearEvent(item, anchor.is_before))


def read_time(text: str, today: date) -> TimeReading | None:
    """Return the time that `text` names, relative to `today`; a written date takes precedence."""
    plain = " ".join(text[:MAX_CHARS].split())
    if days := quarter_days(plain, today) or season_days(plain, today):
        return TimeReading(*days, _without(plain, days[0]))
    if dated := find_date(plain, today):
        return TimeReading(*dated)
    if anchor := _distant_anchor(plain):
        return anchor
    if relative := relative_days(plain, today):
        return TimeReading(*relative, _without(plain, relative[0]))
    # A longer text is a story, in which "after the edit" asks for no time.
    if plain.count(" ") >= SHORT_WORDS:
        return None
    for order, pattern in _ORDERS.items():
        if match := pattern.search(plain):
            return TimeReading(match["words"], order)
    return _open_anchor(plain)


def _distant_anchor(text: str) -> TimeReading | None:
    """Read "two weeks before the launch"."""
    match = _DISTANT.search(text)
    if match is None or _WISHES.search(text, 0, match.start()):
        return None
    count, unit = number_of(match["number"]), match["unit"].lower()
    anchor = Anchor(match["event"].strip(), match["side"].lower() in _BEFORE, count, unit)
    return TimeReading(match[0][:WORDS_SHOWN].strip(), anchor, _without(text, match[0]))


def _open_anchor(text: str) -> TimeReading | None:
    """Read the event in "before we moved to Postgres".

    General statements have none: "what must be done before the deploy".
    """
    match = _OPEN.search(text)
    if match is None or _WISHES.search(text, 0, match.start()):
        return None
    side = match["side"].lower()
    if side != "since" and _HOLDS_ALWAYS.search(text, 0, match.start()):
        return None
    return TimeReading(match[0][:WORDS_SHOWN].strip(), Anchor(match["event"].strip(), side in _BEFORE))


def _without(text: str, words: str) -> str:
    """Return the text without the words; the whole text if hardly any words would remain."""
    before, _, after = text.partition(words)
    rest = " ".join([before.rstrip(), after.removeprefix("'s").removeprefix("\u2019s").lstrip()]).strip()
    return rest if rest.count(" ") and _LETTER.search(rest) else text


_LETTER = re.compile(r"\w")
_WORDS = re.compile(r"[\w']+")
_OPEN_ENDED = re.compile(r"\b(?:since|until|till|by|before|after)\b", re.IGNORECASE)
_ASKING = """
a about all an any anything asked been chat chats chatted conversation conversations did discuss discussed discussing
discussion discussions do doing done during everything find for from go had happened happen have i in is it list me my
of on our over said say session sessions show something stuff talk talked talking talks the there thing things to topic
topics turns us was we went were what what's which work worked working you your
"""
ASKING_WORDS = frozenset(_ASKING.split())
"""Words that ask for anything at all. A question of these and a time asks for the time alone."""
_BEFORE = frozenset({"before", "prior to"})
_EVENT = (
    r"(?P<event>(?:(?i:the|our|my|your|his|her|their|we|i|you|he|she|they|it) (?!(?i:next|following)\b)|[A-Z])"
    r"[^.?!,;:]{2,80})"
)
_DISTANT = re.compile(rf"\b(?i:(?:{NUMBER}|the) {UNIT}s? (?P<side>before|after|following|prior to)) {_EVENT}")
_OPEN = re.compile(
    rf"(?<!look )(?<!looks )(?<!looked )(?<!looking )\b(?P<side>(?i:before|after|since|prior to)) {_EVENT}"
)
_WISHES = re.compile(
    r"\b(?:should|must|shall|may|might|needs?|ha(?:ve|s) to|how to|(?:can|could|will|would)(?! you))\b", re.IGNORECASE
)
_HOLDS_ALWAYS = re.compile(r"\b(?:do|does|is|are|how (?:long|many|much|often))\b", re.IGNORECASE)
_TOLD = "told|said|mentioned|asked|tried|had|saw|used|did|made|got|heard|wrote|logged|noted|reported"
_THINGS = "time|talk|chat|call|meeting|conversation|discussion|session|review|run|visit|report|attempt|try|entry"
_ORDERS = {
    TimeOrder.LATEST: re.compile(
        rf"(?<!-)\b(?P<words>most recent(?:ly)?|latest|newest|last time|(?:my|our|the) last (?:{_THINGS})"
        r"|(?:did|have|had) (?:we|i|you) last)\b",
        re.IGNORECASE,
    ),
    TimeOrder.FIRST: re.compile(
        r"\b(?P<words>(?:the |our |my )first time|earliest|originally|initially|at first"
        r"|(?:did|have|had) (?:we|i|you) first"
        rf"|(?:the|my|our) first(?: [\w-]{{1,20}}){{1,4}} (?:i|we|you) (?:{_TOLD}))\b",
        re.IGNORECASE,
    ),
}
