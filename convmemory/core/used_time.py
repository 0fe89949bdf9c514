"""How much time each caller's requests took lately, and how long whoever took the most pauses before the next."""

import math
import time
from collections import OrderedDict
from collections.abc import Callable

SPAN_S = 10.0  # what was used so long ago counts for a third
FREE_SHARE = 0.2  # of the time; nobody who uses less is held up
PAUSE_BY_REQUEST = 4.0  # so many times as long as the request took
LONGEST_PAUSE_S = 4.0
FORGOTTEN_S = 5 * SPAN_S  # after the last request, when less than a hundredth of it counts


class UsedTime:
    """Seconds of work by caller; older ones count less and less (exponentially, over `SPAN_S`)."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._used: OrderedDict[str, tuple[float, float]] = OrderedDict()  # the seconds, and when they were counted

    def add(self, name: str, seconds: float) -> None:
        self._used[name] = (self.of(name) + seconds, self._clock())
        self._used.move_to_end(name)
        while next(iter(self._used.values()))[1] < self._clock() - FORGOTTEN_S:
            self._used.popitem(last=False)

    def of(self, name: str) -> float:
        """The seconds that count now: somebody who always has one request under way comes to `SPAN_S`."""
        used, since = self._used.get(name, (0.0, 0.0))
        return used * math.exp((since - self._clock()) / SPAN_S)

    def is_much(self, name: str) -> bool:
        """Whether a caller has used more than the share of the time that is free to everybody."""
        return self.of(name) > FREE_SHARE * SPAN_S

    def pause_after(self, name: str, seconds: float) -> float:
        """How long a caller waits after a request of so many seconds, so that others come first.

        None but the caller who has used the most does, and only past `FREE_SHARE` of the time.
        """
        used = self.of(name)
        if not self.is_much(name) or any(self.of(other) > used for other in self._used):
            return 0.0
        return min(PAUSE_BY_REQUEST * seconds, LONGEST_PAUSE_S)
