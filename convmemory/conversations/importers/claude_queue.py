"""Follows Claude Code's prompt queue, so that each queued prompt is imported once, and none is lost.

A prompt typed while the agent works is enqueued. It usually comes back later as a user line or as a `queued_command`
attachment, alone or joined with others; sometimes the queue entry is its only record. The message is taken from the
last place that contains the text, but always keeps the entry's key, so that a new import of the grown file finds the
same message.
"""

from bisect import bisect_right, insort
from collections import Counter, defaultdict
from dataclasses import dataclass, field

from convmemory.conversations.importers.claude_prompts import is_queued_prompt
from convmemory.conversations.importers.values import short_hash

MAX_OPEN = 500  # older entries are assumed never to come back

Place = tuple[int, int]
"""Line number and index on that line."""

Segment = tuple[str, str]
"""A message's key ("" for that of its line) and its text."""


@dataclass(slots=True, eq=False)
class _Entry:
    text: str
    key: str
    place: Place
    start: int = 0  # position of the text in the prompt that contains it
    handed_over: bool = False  # given to the model during a turn: a later prompt is another one


@dataclass(slots=True)
class QueueTracker:
    """Receives the lines of a session in order; then `plan` returns the messages of each place."""

    _open: list[_Entry] = field(default_factory=list)  # may still come back
    _waiting: list[_Entry | None] = field(default_factory=list)  # in the queue; None is a notification
    _settled: list[_Entry] = field(default_factory=list)
    _rests: dict[Place, list[tuple[int, str]]] = field(default_factory=dict)
    _counts: Counter[str] = field(default_factory=Counter)

    def enqueue(self, place: Place, text: str) -> str:
        """Record an entry that came into the queue; return the key of its message, "" if it is no prompt."""
        text = _normal(text)
        if len(self._waiting) >= MAX_OPEN:
            self._waiting.pop(0)
        if not is_queued_prompt(text):
            self._waiting.append(None)
            return ""
        name = short_hash(text, 16)
        entry = _Entry(text, f"queue:{name}:{self._counts[name]}", place)
        self._counts[name] += 1
        self._open.append(entry)
        self._waiting.append(entry)
        if len(self._open) > MAX_OPEN:
            self._settled.append(self._open.pop(0))
        return entry.key

    def remove(self, text: str) -> None:
        """Record an entry that left the queue for the model during a turn; only some lines name it."""
        wanted = _normal(text)
        named = next((entry for entry in self._waiting if entry and text and entry.text == wanted), None)
        entry = named or next((entry for entry in self._waiting if entry), None)
        certain = named is not None or None not in self._waiting
        if entry in self._waiting:
            self._waiting.remove(entry)
        if entry and certain:
            entry.handed_over = True

    def dequeue(self) -> None:
        """Record that the queue's next entry starts a turn: it comes back as a user line."""
        if self._waiting:
            self._waiting.pop(0)

    def pop_all(self, text: str) -> None:
        """Record that entries went back to the editor: they were never sent (or will be typed again)."""
        waiting = [entry for entry in self._waiting if entry]
        gone = waiting
        if text.strip():
            lines = f"\n{_normal(text)}\n"
            pool = dict.fromkeys([*waiting, *(entry for entry in self._open if not entry.handed_over)])
            gone = [entry for entry in pool if f"\n{entry.text}\n" in lines]
        left = set(gone)
        self._waiting = [entry for entry in self._waiting if entry not in left]
        self._open = [entry for entry in self._open if entry not in left]

    def attachment(self, place: Place, text: str, key: str) -> None:
        """Record a prompt passed on as an attachment; it can still come back as a user line."""
        text = _normal(text)
        for entry in self._take_up(place, text):
            entry.handed_over = True
            self._open.append(entry)
        for number, (start, piece) in enumerate(self._rests.pop(place)):
            own_key = f"{key}:{number}" if number else key
            self._open.append(_Entry(piece, own_key, place, start, handed_over=True))

    def prompt(self, place: Place, text: str) -> None:
        """Record a user line that a person typed."""
        text = _normal(text)
        self._settled.extend(self._take_up(place, text))
        if self._rests[place]:
            self._settled.extend(entry for entry in self._open if entry.handed_over)
            self._open = [entry for entry in self._open if not entry.handed_over]

    def plan(self) -> dict[Place, list[Segment]]:
        """Return the messages of every place with queued prompts; an attachment without an entry yields none."""
        segments: dict[Place, list[tuple[int, str, str]]] = defaultdict(list)
        for entry in (*self._settled, *self._open):
            segments[entry.place].append((entry.start, entry.key, entry.text))
        for place, rests in self._rests.items():
            if place in segments:
                segments[place].extend((start, "", text) for start, text in rests)
        return {place: [(key, text) for _, key, text in sorted(found)] for place, found in segments.items()}

    def _take_up(self, place: Place, text: str) -> list[_Entry]:
        """Move every open entry found in the text to this place; the rest of the text goes to `_rests`."""
        framed = f"\n{text}\n"
        taken: dict[_Entry, None] = {}
        spans: list[tuple[int, int]] = []
        looked_to: dict[str, int] = {}  # the start of the search for the next entry of the same text
        for entry in reversed(self._open):
            at = _free_span(framed, f"\n{entry.text}\n", spans, looked_to.get(entry.text, 0))
            looked_to[entry.text] = len(framed) if at is None else at + 1
            if at is not None:
                entry.place, entry.start = place, at
                insort(spans, (at, at + len(entry.text) + 1))
                taken[entry] = None
        self._open = [entry for entry in self._open if entry not in taken]
        self._rests[place] = _uncovered(framed, spans)
        return list(taken)


def _normal(text: str) -> str:
    return "\n".join(line.rstrip() for line in text.strip().splitlines())


def _free_span(framed: str, wanted: str, spans: list[tuple[int, int]], start: int) -> int | None:
    """Return the first position of `wanted` from `start` on outside of the sorted `spans`.

    Neighbours may share a line break.
    """
    at = framed.find(wanted, start)
    while at >= 0:
        following = bisect_right(spans, (at, len(framed)))
        stop = spans[following - 1][1] if following else 0
        if at >= stop and (following == len(spans) or at + len(wanted) - 1 <= spans[following][0]):
            return at
        at = framed.find(wanted, max(at + 1, stop))
    return None


def _uncovered(framed: str, spans: list[tuple[int, int]]) -> list[tuple[int, str]]:
    """Return the pieces of text between the spans, with their start positions."""
    rests: list[tuple[int, str]] = []
    position = 0
    for start, stop in (*spans, (len(framed), len(framed))):
        piece = framed[position:start].strip()
        if piece:
            rests.append((position, piece))
        position = max(position, stop)
    return rests
