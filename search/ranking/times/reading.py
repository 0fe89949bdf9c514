"""Reads the time that a question names: a date, a period, an event, or the first or the latest. Pure, English.

A time is read only if the words ask for one: "how long before slicing" and "who asked first" do not.
"""

import re
from dataclasses import dataclass, replace
from datetime import date
from enum import StrEnum

from search.ranking.dates import Period, named_date
from search.ranking.times.relative import NUMBER, UNIT, Found, moved_by, quarter_span, relative_span
from search.ranking.times.spans import Span

# Only this many characters of a question are read, so that the time for reading is bounded.
MAX_CHARS = 1_000
SHORT_WORDS = 20
WORDS_SHOWN = 60


class Order(StrEnum):
    """The one of several answers that the question asks for."""

    FIRST = "first"
    LATEST = "latest"


@dataclass(frozen=True, slots=True)
class Anchor:
    """A time relative to an event that has to be found: a `distance` before or after it, or without one any time
    there.
    """

    event: str
    is_before: bool
    distance: tuple[tuple[str, str | None], ...] = ()

    def span_at(self, day: date) -> Span | None:
        """Return the days meant if the event was on that day; None if any time before or after is meant."""
        found: Found = dict(self.distance)
        return moved_by(day, found, -1 if self.is_before else 1) if found else None


@dataclass(frozen=True, slots=True)
class Place:
    """An item, by its key, and when it was written: the day, and the second since 1970."""

    key: int
    day: date
    second: int


@dataclass(frozen=True, slots=True)
class Beside:
    """Any time before or after an event that an item describes."""

    place: Place
    is_before: bool


Meaning = Span | Period | Anchor | Beside | Order


@dataclass(frozen=True, slots=True)
class TimeReading:
    """The `words` of the question that name a time, as written, and their meaning.

    If they name days, `rest` is the question without them.
    """

    words: str
    meaning: Meaning
    rest: str = ""

    @property
    def label(self) -> str:
        """Return the meaning for display: "October 2026", "the latest first"; "" for an event that was not found."""
        match self.meaning:
            case Order():
                return f"the {'oldest' if self.meaning is Order.FIRST else 'latest'} first"
            case Beside(place, is_before):
                return f"{'before' if is_before else 'after'} {Span(place.day, place.day).label}"
            case Anchor():
                return ""
            case days:
                return days.label

    @property
    def note(self) -> str:
        """Return a note for the caller; "" if the words are unambiguous, like a date with its year."""
        is_plain = isinstance(self.meaning, Period) and self.meaning.year is not None
        return "" if is_plain or not self.label else f"Read “{self.words}” as {self.label}."

    def at(self, place: Place) -> "TimeReading":
        """Return the reading once its event is found."""
        anchor = self.meaning
        if not isinstance(anchor, Anchor):
            return self
        return replace(self, meaning=anchor.span_at(place.day) or Beside(place, anchor.is_before))


def read_time(text: str, today: date) -> TimeReading | None:
    """Return the time that `text` names, relative to `today`; a written date takes precedence."""
    plain = " ".join(text[:MAX_CHARS].split())
    if quarter := quarter_span(plain, today):
        return TimeReading(*quarter, _without(plain, quarter[0]))
    if named := named_date(plain, today):
        return TimeReading(*named)
    if anchor := _distant_anchor(plain):
        return anchor
    if relative := relative_span(plain, today):
        return TimeReading(*relative, _without(plain, relative[0]))
    # A longer text is a story, in which "after the edit" asks for no time.
    is_short = plain.count(" ") < SHORT_WORDS
    return (_order(plain) or _open_anchor(plain)) if is_short else None


def _distant_anchor(text: str) -> TimeReading | None:
    """Read "two weeks before the launch"."""
    match = _DISTANT.search(text)
    if match is None or _WISHES.search(text, 0, match.start()):
        return None
    distance = {name: (match[name] or "").lower() or None for name in ("number", "unit")}
    anchor = Anchor(match["event"].strip(), match["side"].lower() in _BEFORE, tuple(distance.items()))
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


def _order(text: str) -> TimeReading | None:
    for order, pattern in _ORDERS.items():
        if match := pattern.search(text):
            return TimeReading(match["words"], order)
    return None


_LETTER = re.compile(r"\w")
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
    Order.LATEST: re.compile(
        rf"(?<!-)\b(?P<words>most recent(?:ly)?|latest|newest|last time|(?:my|our|the) last (?:{_THINGS})"
        r"|(?:did|have|had) (?:we|i|you) last)\b",
        re.IGNORECASE,
    ),
    Order.FIRST: re.compile(
        r"\b(?P<words>(?:the |our |my )first time|earliest|originally|initially|at first"
        r"|(?:did|have|had) (?:we|i|you) first"
        rf"|(?:the|my|our) first(?: [\w-]{{1,20}}){{1,4}} (?:i|we|you) (?:{_TOLD}))\b",
        re.IGNORECASE,
    ),
}
