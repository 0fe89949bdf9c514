"""Enqueueing that never fails what has been stored: a queue that is down costs a minute, not a request."""

import logging
from typing import Any

from django_q.tasks import async_task
from redis.exceptions import RedisError

logger = logging.getLogger(__name__)


def enqueue(func: str, *args: Any, **options: Any) -> bool:
    """Ask a worker to run `func`. False, with a warning, where the queue does not answer: the sweep will find the work.

    On the database the task commits with the data; an error there is the request's own.
    """
    try:
        async_task(func, *args, **options)
    except RedisError as error:
        logger.warning("The queue does not answer (%s): %s waits for the sweep", type(error).__name__, func)
        return False
    return True
