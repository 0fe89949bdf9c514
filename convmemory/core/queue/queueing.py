"""Enqueueing that never fails a request whose data is stored, and the one policy for retrying failed work.

A call that already waits in the queue is not added again, so busy workers make no queue grow. `scheduled_task` replaces
django-q's own function in its scheduler, which otherwise adds each periodic task once a minute.
"""

import json
import logging
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import islice
from typing import Any

from django.core.signing import b64_decode
from django.db.models import Q
from django.utils import timezone
from django_q.brokers import Broker, get_broker
from django_q.brokers.orm import ORM
from django_q.models import OrmQ
from django_q.signing import BadSignature, SignedPackage
from django_q.tasks import async_task

MOST_READ = 2_000  # entries of the queue; it holds some dozens, as calls are not added twice

Call = dict[str, Any]

logger = logging.getLogger(__name__)


def enqueue(func: str, *args: Any, at_most: int = 1, **options: Any) -> bool:
    """Let a worker run `func`, unless `at_most` calls with these arguments wait already.

    If the queue does not answer, log a warning and return False: the sweep will find the work. With the queue on the
    database, the task commits with the data, and an error there is the request's own.
    """
    try:
        if sum(1 for _ in islice(waiting_calls(func, args), at_most)) < at_most:
            async_task(func, *args, broker=_broker(), **options)
    except _redis_error() as error:
        logger.warning("The queue does not answer (%s): %s waits for the sweep", type(error).__name__, func)
        return False
    return True


def keep_connection() -> None:
    """Connect to the queue for all later calls of this process, which may then be forbidden to open connections."""
    _held.broker = get_broker()
    try:
        _held.broker.ping()
    except _redis_error() as error:
        logger.warning("The queue does not answer (%s): tasks of this process wait for the sweep", type(error).__name__)


def scheduled_task(func: str, *args: Any, **options: Any) -> str:
    """Add a periodic task to the queue, unless it still waits there; return the id of the one that waits."""
    waiting = next(waiting_calls(func, args), None)
    return str(waiting["id"] if waiting else async_task(func, *args, **options))


def waiting_calls(func: str, args: tuple[Any, ...] = ()) -> Iterator[Call]:
    """Yield the calls of `func` with these arguments that no worker has taken. Raises: RedisError.

    Signatures are not checked, which takes most of the time: what is read here is counted and never run.
    """
    broker = _broker()
    if not isinstance(broker, ORM):  # but Redis
        payloads = [payload.decode(errors="replace") for payload in _redis_entries(broker)]
    else:
        rows = OrmQ.objects.filter(key=broker.list_key, lock__lte=timezone.now()).order_by("pk")
        payloads = list(rows.values_list("payload", flat=True)[:MOST_READ])
    for payload in payloads:
        try:
            call = json.loads(b64_decode(payload.partition(":")[0].encode()))
            if call["func"] == func and tuple(call["args"]) == args:
                yield call
        except (ValueError, TypeError, KeyError):
            continue  # of another program on the same Redis


def foreign_entries() -> list[bytes]:
    """Return the entries of a queue on Redis that this program has not signed. Raises: RedisError."""
    broker = get_broker()
    return [] if isinstance(broker, ORM) else [entry for entry in _redis_entries(broker) if not _is_signed(entry)]


def drop_foreign_entries() -> int:
    """Delete the entries that this program has not signed; return their number. Raises: RedisError."""
    broker = get_broker()
    return sum(int(broker.connection.lrem(broker.list_key, 0, entry)) for entry in set(foreign_entries()))


def _is_signed(entry: bytes) -> bool:
    try:
        SignedPackage.loads(entry.decode())
    except (BadSignature, UnicodeDecodeError):
        return False
    return True


def _redis_entries(broker: Broker) -> list[bytes]:
    return list(broker.connection.lrange(broker.list_key, 0, MOST_READ - 1))


def _broker() -> Broker:
    return _held.broker or get_broker()


def _redis_error() -> type[Exception]:
    from redis.exceptions import RedisError  # only a call that failed needs it: it loads for 0.05 s

    return RedisError


class _Held:
    broker: Broker | None = None


_held = _Held()

# --- retrying -------------------------------------------------------------------------------------
# The one policy for retrying failed work: the number of attempts and the pauses between them.
#
# Every sweep uses it.


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
