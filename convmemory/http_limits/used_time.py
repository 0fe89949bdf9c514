"""Measures each caller's recently used time, and how long callers that used much pause before their next request.

A person who waits for each answer and reads it also uses time, on a slow machine much of it. A flood differs in that it
has a request running or waiting almost always, so the time in line counts as well.
"""

import math
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable

# The shares were measured: with 0.2 alone, a person whose searches came every third of a second on a slow machine was
# paused like the flood next to it. See docs/adr/0024-fair-scheduling-by-owner.md.
SPAN_S = 10.0  # seconds used this long ago count for a third (1/e)
FREE_SHARE = 0.2  # of the time; callers that use less never pause
REQUESTED_SHARE = 0.6  # of the time with a request running or waiting; callers with less never pause
PAUSE_BY_REQUEST = 4.0  # the pause as a multiple of the request's time
LONGEST_PAUSE_S = 4.0
FORGOTTEN_S = 5 * SPAN_S  # since the last request; less than a hundredth of it counts then


class FadingSums:
    """A sum of seconds for each name, in which older seconds decay exponentially, over `SPAN_S`."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._sums: OrderedDict[str, tuple[float, float]] = OrderedDict()  # the seconds, and when they were counted

    def add(self, name: str, seconds: float) -> None:
        self._sums[name] = (self.of(name) + seconds, self._clock())
        self._sums.move_to_end(name)
        while next(iter(self._sums.values()))[1] < self._clock() - FORGOTTEN_S:
            self._sums.popitem(last=False)

    def of(self, name: str) -> float:
        """Return the exponentially decayed seconds; one second in every second converges to `SPAN_S`."""
        seconds, since = self._sums.get(name, (0.0, 0.0))
        return seconds * math.exp((since - self._clock()) / SPAN_S)

    def names(self) -> list[str]:
        return list(self._sums)


class UsedTime:
    """Seconds that each caller's requests were worked on, and seconds that they waited in line."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._used, self._requested = FadingSums(clock), FadingSums(clock)

    def add(self, name: str, seconds: float, *, waited_s: float = 0.0) -> None:
        self._used.add(name, seconds)
        self._requested.add(name, seconds + waited_s)

    def of(self, name: str) -> float:
        """Return the exponentially decayed seconds of work; a caller with one request running at all times converges to
        `SPAN_S`.
        """
        return self._used.of(name)

    def exceeds_fair_share(self, name: str) -> bool:
        """Return whether a caller exceeds the free share of work time and has almost always a request running or
        waiting.
        """
        is_requesting = self._requested.of(name) > REQUESTED_SHARE * SPAN_S
        return is_requesting and self.of(name) > FREE_SHARE * SPAN_S

    def pause_after(self, name: str, seconds: float, *, others: Iterable[str]) -> float:
        """Return the seconds that a caller pauses after a request of `seconds`, so that the other active callers come
        first.

        A caller that exceeds its fair share pauses if one of the others does not; if all of them do, only the one that
        has used the most pauses, so the process never idles.
        """
        if not self.exceeds_fair_share(name):
            return 0.0
        has_used_most = all(
            self.of(other) <= self.of(name) for other in self._used.names() if self.exceeds_fair_share(other)
        )
        if not has_used_most and all(self.exceeds_fair_share(other) for other in others):
            return 0.0
        return min(PAUSE_BY_REQUEST * seconds, LONGEST_PAUSE_S)
