"""The daily quota of the operator's model per person, CHAT_DAILY_TOKENS, and its use.

A request first reserves its maximum cost in one conditional statement, so that any number of processes count together
and simultaneous requests exceed the limit by at most one of them; afterwards it settles the actual cost. The
reservation of a process that died stays counted. Days are those of the server's time zone.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, time, timedelta
from typing import Any

from django.db import connection
from django.db.models import F
from django.db.models.functions import Greatest
from django.utils import timezone

from convmemory.accounts.models import ModelUse
from convmemory.core.config import config
from convmemory.core.errors import QuotaUsedUp
from convmemory.core.sql import load_sql

BYTES_A_TOKEN = 4  # an estimate for endpoints that report no usage


@dataclass(frozen=True, slots=True)
class Reservation:
    """Tokens that a running request has reserved."""

    use_id: int
    tokens: int


@dataclass(frozen=True, slots=True)
class UseToday:
    """Tokens and requests that a person has used and reserved today; `limit` is 0 without a quota."""

    tokens: int
    requests: int
    limit: int
    ends_at: datetime

    @property
    def is_used_up(self) -> bool:
        return 0 < self.limit <= self.tokens


def estimated_tokens(*texts: str | bytes) -> int:
    """Return the estimated cost of texts whose tokens are not counted: one token for every four bytes."""
    size = sum(len(text) if isinstance(text, bytes) else len(text.encode("utf-8", "replace")) for text in texts)
    return -(-size // BYTES_A_TOKEN)


def use_today(*, owner_id: int) -> UseToday:
    now = timezone.localtime()
    row = ModelUse.objects.filter(owner_id=owner_id, day=now.date()).first()
    tokens, requests = (row.tokens, row.requests) if row else (0, 0)
    return UseToday(tokens, requests, _tokens_a_day(), _end_of_day(now))


def require_quota(*, owner_id: int) -> None:
    """Raise QuotaUsedUp if today's quota is used up; reserves nothing.

    For refusing a request before anything is stored.
    """
    if _tokens_a_day() and use_today(owner_id=owner_id).is_used_up:
        raise _used_up()


def reserve(*, owner_id: int, tokens: int) -> Reservation:
    """Reserve a request's maximum cost. Raises: QuotaUsedUp."""
    parameters: dict[str, Any] = {
        "owner": owner_id, "day": timezone.localdate(), "tokens": tokens, "limit": _tokens_a_day()
    }  # fmt: skip
    with connection.cursor() as cursor:
        cursor.execute(load_sql("convmemory.accounts", "reserve_use"), parameters)
        row = cursor.fetchone()
    if row is None:
        raise _used_up()
    return Reservation(row[0], tokens)


def settle(reservation: Reservation, *, tokens: int) -> None:
    """Replace a reservation by the request's actual cost."""
    rows = ModelUse.objects.filter(pk=reservation.use_id)
    rows.update(tokens=Greatest(F("tokens") + (tokens - reservation.tokens), 0))


@contextmanager
def metered(*, owner_id: int, tokens: int) -> Iterator[Callable[[int], None]]:
    """Reserve `tokens` for one request, and settle its cost after the block.

    The block passes the actual cost to the yielded function; otherwise the cost is zero.

    Raises: QuotaUsedUp.
    """
    reservation = reserve(owner_id=owner_id, tokens=tokens)
    cost = [0]
    try:
        yield cost.append
    finally:
        settle(reservation, tokens=cost[-1])


def _used_up() -> QuotaUsedUp:
    now = timezone.localtime()
    ends_at = _end_of_day(now)
    seconds = (ends_at - now).total_seconds()
    hours, minutes = divmod(int(seconds // 60), 60)
    left = f"{hours} h {minutes} min" if hours else f"{minutes + 1} min"
    return QuotaUsedUp(
        f"You have used your {_tokens_a_day():,} tokens of today for this server's model. It answers you "
        f"again from {ends_at:%Y-%m-%d %H:%M %Z}, in {left}; agents with an endpoint of their own go on.",
        ends_at=ends_at,
        retry_after_s=seconds,
    )


def _end_of_day(now: datetime) -> datetime:
    return timezone.make_aware(datetime.combine(now.date() + timedelta(days=1), time.min))


def _tokens_a_day() -> int:
    """How many tokens a person may use; 0 for any number."""
    return config.chat_daily_tokens
