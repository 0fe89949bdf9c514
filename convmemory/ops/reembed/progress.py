"""A progress line: bar, count, rate and time left. Pure except for the clock passed to it."""

from collections.abc import Callable

WIDTH = 24


class ReembedProgress:
    """Counts items against a total; the rate is that of this run."""

    def __init__(self, total: int, clock: Callable[[], float]) -> None:
        """Start counting; `clock` returns seconds."""
        self.total = total
        self.done = 0
        self._clock = clock
        self._started = clock()

    def add(self, items: int) -> None:
        self.done = min(self.total, self.done + items)

    def line(self) -> str:
        share = self.done / self.total if self.total else 1.0
        bar = "#" * round(share * WIDTH)
        elapsed_s = self._clock() - self._started
        rate = self.done / elapsed_s if elapsed_s > 0 else 0.0
        left = f"{duration((self.total - self.done) / rate)} left" if rate else "…"
        return f"[{bar:.<{WIDTH}}] {share:4.0%}  {self.done:,} of {self.total:,} items  {rate:,.1f}/s  {left}"


def duration(seconds: float) -> str:
    """Return a duration as `45 s`, `3 min 20 s` or `2 h 5 min`."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    return f"{minutes // 60:,} h {minutes % 60} min"
