"""How much time each caller's requests took lately, and how long those who took much pause before the next.

Somebody who waits for each answer and reads it uses time, too, and on a slow machine much of it. What tells a flood
from a person is that it hardly ever goes without a request: so what counts is the time spent waiting in line as well.
"""

import math
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable

SPAN_S = 10.0  # what was used so long ago counts for a third
FREE_SHARE = 0.2  # of the time; nobody who uses less is held up
REQUESTED_SHARE = 0.6  # of the time; nobody whose requests are worked on or wait for less of it is held up
PAUSE_BY_REQUEST = 4.0  # so many times as long as the request took
LONGEST_PAUSE_S = 4.0
FORGOTTEN_S = 5 * SPAN_S  # after the last request, when less than a hundredth of it counts


class FadingSums:
    """A sum of seconds for each name; older ones count less and less (exponentially, over `SPAN_S`)."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._sums: OrderedDict[str, tuple[float, float]] = OrderedDict()  # the seconds, and when they were counted

    def add(self, name: str, seconds: float) -> None:
        self._sums[name] = (self.of(name) + seconds, self._clock())
        self._sums.move_to_end(name)
        while next(iter(self._sums.values()))[1] < self._clock() - FORGOTTEN_S:
            self._sums.popitem(last=False)

    def of(self, name: str) -> float:
        """Return the seconds that count now: one second in every second comes to `SPAN_S`."""
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
        """Return the seconds of work that count now: somebody who always has one request under way comes to `SPAN_S`."""
        return self._used.of(name)

    def is_much(self, name: str) -> bool:
        """Return whether a caller uses more than the share that is free to everybody and hardly goes without a request."""
        is_requesting = self._requested.of(name) > REQUESTED_SHARE * SPAN_S
        return is_requesting and self.of(name) > FREE_SHARE * SPAN_S

    def pause_after(self, name: str, seconds: float, *, beside: Iterable[str]) -> float:
        """How long a caller waits after a request of so many seconds, so that those who are `beside` come first.

        Everybody for whom `is_much` holds waits for somebody for whom it does not; where it holds for all of them, only
        the one who has used the most does, and the process has always something to do.
        """
        if not self.is_much(name):
            return 0.0
        has_used_most = all(self.of(other) <= self.of(name) for other in self._used.names() if self.is_much(other))
        if not has_used_most and all(self.is_much(other) for other in beside):
            return 0.0
        return min(PAUSE_BY_REQUEST * seconds, LONGEST_PAUSE_S)
