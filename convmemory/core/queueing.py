"""Enqueueing that never fails a request whose data is stored: a queue that is down only delays the task by a minute.

A call that already waits in the queue is not added again, so busy workers make no queue grow. `scheduled_task` stands
for django-q's own function in its scheduler, which otherwise adds each periodic task once a minute.
"""

import logging
from collections.abc import Iterator
from typing import Any

from django.utils import timezone
from django_q.brokers import get_broker
from django_q.brokers.redis_broker import Redis
from django_q.core_signing import BadSignature
from django_q.models import OrmQ
from django_q.signing import SignedPackage
from django_q.tasks import async_task
from redis.exceptions import RedisError

MOST_READ = 2_000  # entries of the queue; it holds some dozens, as calls are not added twice

Call = dict[str, Any]

logger = logging.getLogger(__name__)


def enqueue(func: str, *args: Any, at_most: int = 1, **options: Any) -> bool:
    """Ask a worker to run `func`, unless `at_most` calls with these arguments wait already.

    If the queue does not answer, log a warning and return False: the sweep will find the work. With the queue on the
    database, the task commits with the data, and an error there is the request's own.
    """
    try:
        if len(waiting_calls(func, args)) < at_most:
            async_task(func, *args, **options)
    except RedisError as error:
        logger.warning("The queue does not answer (%s): %s waits for the sweep", type(error).__name__, func)
        return False
    return True


def scheduled_task(func: str, *args: Any, **options: Any) -> str:
    """Add a periodic task to the queue, unless it still waits there; return the id of the one that waits."""
    waiting = waiting_calls(func, args)
    return str(waiting[0]["id"] if waiting else async_task(func, *args, **options))


def waiting_calls(func: str, args: tuple[Any, ...] = ()) -> list[Call]:
    """Return the calls of `func` with these arguments that no worker has taken. Raises: RedisError."""
    return [call for call in _waiting() if call["func"] == func and tuple(call["args"]) == args]


def _waiting() -> Iterator[Call]:
    broker = get_broker()
    if isinstance(broker, Redis):
        payloads = [payload.decode() for payload in broker.connection.lrange(broker.list_key, 0, MOST_READ - 1)]
    else:
        rows = OrmQ.objects.filter(key=broker.list_key, lock__lte=timezone.now()).order_by("pk")
        payloads = list(rows.values_list("payload", flat=True)[:MOST_READ])
    for payload in payloads:
        try:
            call: Call = SignedPackage.loads(payload)
        except (BadSignature, TypeError):
            continue  # of another installation on the same Redis
        yield call
