"""The one policy for retrying failed work: the number of attempts and the pauses between them. Every sweep uses it."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db.models import Q


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """At most `max_attempts`, the second after `first_pause`, each further pause twice as long."""

    max_attempts: int
    first_pause: timedelta

    def pause_after(self, attempts: int) -> timedelta:
        """Return the pause after this many failures, at least one."""
        pause: timedelta = self.first_pause * 2 ** (attempts - 1)
        return pause

    def due(self, now: datetime, *, prefix: str = "") -> Q:
        """Return the condition that failed rows have waited long enough, by their `attempts` and `updated_at`."""
        waited = Q(pk__in=[])
        for attempts in range(1, self.max_attempts):
            waited |= Q(**{f"{prefix}attempts": attempts, f"{prefix}updated_at__lt": now - self.pause_after(attempts)})
        return waited


EMBEDDING = RetryPolicy(max_attempts=5, first_pause=timedelta(minutes=2))
SUMMARIES = RetryPolicy(max_attempts=4, first_pause=timedelta(seconds=15))
MAIL = RetryPolicy(max_attempts=6, first_pause=timedelta(minutes=1))
