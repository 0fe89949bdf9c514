"""Answers whether this process is healthy and ready, in one word: no key is needed. The log has the reason.

`/health` checks nothing: a process that answers it need not be restarted. `/ready` checks that the process does not
stop, the database, its migrations and the disk; a balancer sends requests elsewhere while it answers 503.
"""

import logging
import shutil
import tempfile
import threading
from collections.abc import Callable
from http import HTTPStatus

from django.db import DEFAULT_DB_ALIAS, DatabaseError, connection
from django.http import HttpRequest, JsonResponse
from ninja import Router

from convmemory.core.config import config
from convmemory.core.errors import DatabaseUnavailable
from convmemory.core.files.private_files import mount_of
from convmemory.core.postgres.failures import UNMIGRATED, missing_migrations
from convmemory.core.sql import load_sql
from convmemory.core.upgrading import newer_database
from convmemory.core.web import stopping

router = Router(tags=["health"], auth=None)
logger = logging.getLogger(__name__)

MIN_FREE_BYTES = 64 * 1024**2  # a few segments of PostgreSQL's log; it stops if it cannot write one
PROBE_BYTES = 64 * 1024
_migrated = threading.Event()


@router.get("/health", summary="The process answers")
def health(request: HttpRequest) -> JsonResponse:
    return JsonResponse({"status": "ok"})


@router.get("/ready", summary="The database answers and the disk takes data, too")
def ready(request: HttpRequest) -> JsonResponse:
    if problems := [problem for check in CHECKS if (problem := check())]:
        logger.warning("Not ready: %s", " ".join(problems))
        return JsonResponse({"status": "unavailable"}, status=HTTPStatus.SERVICE_UNAVAILABLE)
    return JsonResponse({"status": "ok"})


def _process() -> str:
    return "This process is being stopped." if stopping.is_stopping() else ""


def _database() -> str:
    try:
        with connection.cursor() as cursor:
            cursor.execute(load_sql("convmemory.core", "ping"))
    except (DatabaseError, DatabaseUnavailable) as error:
        return f"The database does not answer: {error}"
    return ""


def _migrations() -> str:
    """Return whether migrations are missing, or unknown to this version; checked until neither is so once."""
    if _migrated.is_set():
        return ""
    try:
        if problem := newer_database(DEFAULT_DB_ALIAS) or (missing_migrations() and UNMIGRATED):
            return problem
    except (DatabaseError, DatabaseUnavailable):
        return "It is unknown which tables the database has."
    _migrated.set()
    return ""


def _disk() -> str:
    """Return whether a small file can be written to the data folder: a quota does not show in the free space."""
    folder = config.var_dir
    try:
        if shutil.disk_usage(folder).free < MIN_FREE_BYTES:
            return f"The disk of the data folder is full: free space on {mount_of(folder)}."
        with tempfile.TemporaryFile(dir=folder) as probe:
            probe.write(bytes(PROBE_BYTES))
    except OSError as error:
        return f"The data folder cannot be written: {error.strerror}."
    return ""


CHECKS: tuple[Callable[[], str], ...] = (_process, _database, _migrations, _disk)
