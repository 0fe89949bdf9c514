"""Enqueueing that never fails a request whose data is stored: a queue that is down only delays the task by a minute."""

import logging
from typing import Any

from django_q.tasks import async_task
from redis.exceptions import RedisError

logger = logging.getLogger(__name__)


def enqueue(func: str, *args: Any, **options: Any) -> bool:
    """Ask a worker to run `func`. If the queue does not answer, log a warning and return False: the sweep will find the
    work.

    With the queue on the database, the task commits with the data, and an error there is the request's own.
    """
    try:
        async_task(func, *args, **options)
    except RedisError as error:
        logger.warning("The queue does not answer (%s): %s waits for the sweep", type(error).__name__, func)
        return False
    return True
