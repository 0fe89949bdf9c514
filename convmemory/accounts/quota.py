"""The limits of each owner, and the use of the operator's model, which is limited a day and a month.

A limit is the owner's own, else the highest of their groups, else that of the settings. Storing applies it in
`conversations/messages/storage_quota.py`.

A request to the model first reserves its maximum cost in one conditional statement, so that any number of processes
count together and simultaneous requests exceed the limit by at most one of them; afterwards it settles the actual cost.
In a space it does so for the space and for the person who asks, whose row also counts what they use in their own
archive. The reservation of a process that died stays counted. Days and months are those of the server's time zone.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from typing import Any

from django.db import connection, transaction
from django.db.models import F, Sum
from django.db.models.functions import Greatest
from django.utils import timezone

from convmemory.accounts.models import ModelUse
from convmemory.core import acting
from convmemory.core.config import config
from convmemory.core.errors import QuotaUsedUp
from convmemory.core.sql import load_sql

BYTES_A_TOKEN = 4  # an estimate for endpoints that report no usage
MB = 1024**2


@dataclass(frozen=True, slots=True)
class LimitsInForce:
    """The amounts that an owner may store and use; 0: any amount."""

    stored_bytes: int
    turns: int
    documents: int
    monthly_tokens: int


UNLIMITED = LimitsInForce(0, 0, 0, 0)


def limits_of(*, archive_id: int) -> LimitsInForce:
    """Return the limits of a person or a space. One query."""
    with connection.cursor() as cursor:
        cursor.execute(load_sql("convmemory.accounts", "limits_of"), {"owner": archive_id})
        stored_mb, turns, documents, tokens = cursor.fetchone()
    return LimitsInForce(
        (config.max_stored_mb_per_user if stored_mb is None else stored_mb) * MB,
        config.max_turns_per_user if turns is None else turns,
        config.max_documents_per_user if documents is None else documents,
        config.chat_monthly_tokens if tokens is None else tokens,
    )


def whom_to_ask() -> str:
    """Return who gives people more, for refusals."""
    return config.quota_contact or "the people who run this server"


@dataclass(frozen=True, slots=True)
class Reservation:
    """Tokens that a running request has reserved, by the archives in whose use they are counted."""

    archive_ids: tuple[int, ...]
    day: date
    tokens: int


@dataclass(frozen=True, slots=True)
class Period:
    """A day or a month of a person's use of the model; `limit` is 0 without a quota."""

    tokens: int
    requests: int
    limit: int
    ends_at: datetime

    @property
    def is_used_up(self) -> bool:
        return 0 < self.limit <= self.tokens


@dataclass(frozen=True, slots=True)
class ModelUseNow:
    """The use of the model by a person, in all archives, or in a space, with reservations, today and this month."""

    today: Period
    month: Period


def estimated_tokens(*texts: str | bytes) -> int:
    """Return the estimated cost of texts whose tokens are not counted: one token for every four bytes."""
    size = sum(len(text) if isinstance(text, bytes) else len(text.encode("utf-8", "replace")) for text in texts)
    return -(-size // BYTES_A_TOKEN)


def model_use(*, archive_id: int) -> ModelUseNow:
    """Return the use of the model by a person or in a space, and its limits. Reads at most one row for each day of the
    month.
    """
    today = timezone.localdate()
    next_month = date(today.year + today.month // 12, today.month % 12 + 1, 1)
    days = ModelUse.objects.filter(archive_id=archive_id, day__gte=today.replace(day=1), day__lt=next_month)
    rows = list(days.values_list("day", "tokens", "requests"))
    used, asked = next(((tokens, requests) for day, tokens, requests in rows if day == today), (0, 0))
    return ModelUseNow(
        Period(used, asked, config.chat_daily_tokens, _start_of(today + timedelta(days=1))),
        Period(
            sum(tokens for _, tokens, _ in rows),
            sum(requests for _, _, requests in rows),
            limits_of(archive_id=archive_id).monthly_tokens,
            _start_of(next_month),
        ),
    )


def require_quota(*, archive_id: int, person_id: int | None) -> None:
    """Raise QuotaUsedUp if the quota of today or of this month is used up, of the archive or of the person who asks;
    reserves nothing.

    For refusing a request before anything is stored.
    """
    for number in _counted_for(archive_id, person_id):
        with acting.counting_for(number):
            use = model_use(archive_id=number)
        if use.today.is_used_up or use.month.is_used_up:
            raise _used_up(use, is_of_space=person_id not in (None, number))


def reserve(*, archive_id: int, person_id: int | None, tokens: int) -> Reservation:
    """Reserve the maximum cost of a person's request in an archive. Raises: QuotaUsedUp."""
    today, archive_ids = timezone.localdate(), _counted_for(archive_id, person_id)
    with transaction.atomic() if len(archive_ids) > 1 else nullcontext():
        for number in archive_ids:
            with acting.counting_for(number):
                a_month = limits_of(archive_id=number).monthly_tokens
                earlier = 0
                if a_month:
                    days = ModelUse.objects.filter(archive_id=number, day__gte=today.replace(day=1), day__lt=today)
                    earlier = days.aggregate(tokens=Sum("tokens"))["tokens"] or 0
                parameters: dict[str, Any] = {
                    "owner": number,
                    "day": today,
                    "tokens": tokens,
                    "a_day": config.chat_daily_tokens,
                    "a_month": a_month,
                    "earlier": earlier,
                }
                with connection.cursor() as cursor:
                    cursor.execute(load_sql("convmemory.accounts", "reserve_use"), parameters)
                    row = cursor.fetchone()
                if row is None:
                    raise _used_up(model_use(archive_id=number), is_of_space=person_id not in (None, number))
    return Reservation(archive_ids, today, tokens)


def _counted_for(archive_id: int, person_id: int | None) -> tuple[int, ...]:
    """Return the archives whose use counts a request, in the order in which all requests lock their rows."""
    return tuple(sorted({archive_id, person_id or archive_id}))


def settle(reservation: Reservation, *, tokens: int) -> None:
    """Replace a reservation by the request's actual cost."""
    for number in reservation.archive_ids:
        with acting.counting_for(number):
            rows = ModelUse.objects.filter(archive_id=number, day=reservation.day)
            rows.update(tokens=Greatest(F("tokens") + (tokens - reservation.tokens), 0))


@contextmanager
def metered(*, archive_id: int, person_id: int | None, tokens: int) -> Iterator[Callable[[int], None]]:
    """Reserve `tokens` for one request of a person in an archive, and settle its cost after the block.

    The block passes the actual cost to the yielded function; otherwise the cost is zero.

    Raises: QuotaUsedUp.
    """
    reservation = reserve(archive_id=archive_id, person_id=person_id, tokens=tokens)
    cost = [0]
    try:
        yield cost.append
    finally:
        settle(reservation, tokens=cost[-1])


def _used_up(use: ModelUseNow, *, is_of_space: bool) -> QuotaUsedUp:
    # Of both, the month ends last.
    period, name = (use.month, "this month") if use.month.is_used_up else (use.today, "today")
    seconds = (period.ends_at - timezone.now()).total_seconds()
    hours, minutes = divmod(int(seconds // 60), 60)
    days, hours_of_day = divmod(hours, 24)
    left = f"{days} days {hours_of_day} h" if days else f"{hours} h {minutes} min" if hours else f"{minutes + 1} min"
    return QuotaUsedUp(
        f"{'This space has' if is_of_space else 'You have'} used {period.tokens:,} of "
        f"{'its' if is_of_space else 'your'} {period.limit:,} tokens of {name} for this server's model. It answers "
        f"{'here' if is_of_space else 'you'} again from {period.ends_at:%Y-%m-%d %H:%M %Z}, in {left}; agents with an "
        "endpoint of their own "
        f"go on. Ask {whom_to_ask()} for more.",
        ends_at=period.ends_at,
        retry_after_s=seconds,
    )


def _start_of(day: date) -> datetime:
    return timezone.make_aware(datetime.combine(day, time.min))
