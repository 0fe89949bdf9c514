"""A real `qcluster` on the test's database, to be killed."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil
from django.conf import settings

from tests.support.web_process import database_environment

QCLUSTER = """
from django.conf import settings
from django.core.management import execute_from_command_line

settings.LONGEST_TASK_S = {longest_task_s}
execute_from_command_line(["manage.py", "qcluster", "--skip-checks"])
"""


@contextmanager
def running_worker(variables: Mapping[str, str], log: Path, *, longest_task_s: int = 600) -> Iterator[psutil.Process]:
    """Killed with its session at the end of the block, as `kill -9` does."""
    environment = {**os.environ, **database_environment(), "SECRET_KEY": settings.SECRET_KEY, "WORKERS": "2"}
    environment["DJANGO_SETTINGS_MODULE"] = "convmemory.settings"
    with log.open("ab") as output:
        process = subprocess.Popen(
            [sys.executable, "-c", QCLUSTER.format(longest_task_s=longest_task_s)],
            cwd=settings.BASE_DIR,
            env=environment | dict(variables),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        yield psutil.Process(process.pid)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
