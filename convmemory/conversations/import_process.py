"""Runs one import in a child process of the worker, and ends it when its time is over or its claim is lost.

No database connection is held while the child works.
"""

import logging
import os
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from enum import Enum

from django.db import connection

from convmemory.conversations import import_queue
from convmemory.conversations.import_child import EXIT_MEMORY
from convmemory.conversations.import_runner import upload_prefix
from convmemory.conversations.models import Import
from convmemory.conversations.options import ImportOptions
from convmemory.core.options import PathOptions

HEARTBEAT_S = 10.0
GRACE_S = 30  # after which the kernel ends a child that its worker should have ended

logger = logging.getLogger(__name__)


class Ending(Enum):
    """How the child process ended."""

    DONE = "done"
    OUT_OF_TIME = "out of time"
    OUT_OF_MEMORY = "out of memory"
    LOST = "lost"
    CRASHED = "crashed"


def run_import(*, import_id: int) -> str | None:
    """Import an upload that waits; its state afterwards. None where it cannot be claimed now."""
    row = import_queue.claim(import_id)
    if row is None:
        return None
    with tempfile.TemporaryDirectory(prefix=upload_prefix(row.owner_id)) as folder:
        ending = run_child(row, folder)
    _conclude(row, ending)
    return str(Import.objects.filter(pk=import_id).values_list("state", flat=True).first() or "gone")


def run_child(row: Import, folder: str) -> Ending:
    """Let a process of its own work on the claimed import until it ends, by itself or not."""
    options = ImportOptions.from_settings()
    limits = (
        options.import_memory_mb,
        options.import_timeout_s + GRACE_S,
        os.getpid(),
    )
    module = "convmemory.conversations.import_child"
    arguments = [str(value) for value in (row.pk, row.run, folder, *limits)]
    _let_connection_go()
    process = subprocess.Popen(  # noqa: S603
        [sys.executable, "-m", module, *arguments],
        cwd=PathOptions.from_settings().base_dir,
        env=os.environ | {"DJANGO_SETTINGS_MODULE": "convmemory.settings", "DATABASE_POOL_SIZE": "1"},
        stdin=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        return _watch(row, process, time.monotonic() + options.import_timeout_s)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _watch(row: Import, process: "subprocess.Popen[bytes]", deadline: float) -> Ending:
    while True:
        with suppress(subprocess.TimeoutExpired):
            return _ending_of(row, process.wait(timeout=max(0.0, min(HEARTBEAT_S, deadline - time.monotonic()))))
        if time.monotonic() >= deadline:
            return Ending.OUT_OF_TIME
        if not import_queue.renew(row):
            return Ending.LOST
        _let_connection_go()


def _ending_of(row: Import, status: int) -> Ending:
    if status == 0:
        return Ending.DONE
    if status in (EXIT_MEMORY, -signal.SIGALRM):
        return Ending.OUT_OF_MEMORY if status == EXIT_MEMORY else Ending.OUT_OF_TIME
    logger.error("The process of import %s ended with status %s", row.pk, status)
    return Ending.CRASHED


def _conclude(row: Import, ending: Ending) -> None:
    options = ImportOptions.from_settings()
    what_to_do = "What was read is stored. Upload it in parts, or use `manage.py import_conversations` on the server."
    if ending is Ending.OUT_OF_TIME:
        limit = f"{options.import_timeout_s} s (IMPORT_TIMEOUT_S)"
        import_queue.fail(row, Import.Failure.TIME, f"The import took longer than {limit}. {what_to_do}")
    elif ending is Ending.OUT_OF_MEMORY:
        limit = f"{options.import_memory_mb} MB (IMPORT_MEMORY_MB)"
        import_queue.fail(row, Import.Failure.MEMORY, f"The import needs more memory than {limit}. {what_to_do}")
    elif ending is Ending.CRASHED:
        import_queue.give_back(row)


def _let_connection_go() -> None:
    if not connection.in_atomic_block:
        connection.close()
