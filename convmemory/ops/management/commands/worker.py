"""`manage.py worker`: prepare the data that tasks need, then become the queue's worker (`qcluster`).

The preparation runs in this process, which then replaces itself: a loaded model has threads, and django-q forks its
workers. `--check`, for the probes of containers, looks at the file that a running worker touches twice a second.
"""

import logging
import os
import sys
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import CommandError
from django.db import DEFAULT_DB_ALIAS

from convmemory.core import acting, program
from convmemory.core.commands import ArchiveCommand
from convmemory.core.config import config
from convmemory.core.errors import ConvMemoryError
from convmemory.core.postgres.failures import UNMIGRATED
from convmemory.core.postgres.row_security import is_migrated
from convmemory.core.processes.child_limits import step_back
from convmemory.core.queue.broker import worker_runs
from convmemory.core.upgrading import newer_database
from convmemory.ops.runtime import instance, schedules

logger = logging.getLogger(__name__)


class Command(ArchiveCommand):
    help = "Run a worker: prepare the embedding model, look for missed work, then run qcluster."
    usages = ("[--check]",)

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--check", action="store_true", help="fail unless a worker runs on this host")

    def handle(self, *args: Any, check: bool, **options: Any) -> None:
        if check:
            self.check_worker()
            return
        if not is_migrated():
            raise CommandError(UNMIGRATED)
        with acting.schema_owner():
            if sentence := newer_database(DEFAULT_DB_ALIAS):
                raise CommandError(sentence)
        step_back()
        steps = (
            schedules.ensure_schedules,
            instance.remember_key,
            prepare_model,
            load_samples,
            schedules.enqueue_sweep,
        )
        for step in steps:
            # Run a step; a failure is reported, and the worker starts anyway.
            try:
                step()
            except ConvMemoryError as error:
                logger.error("%s failed: %s", step.__name__, error)
            except Exception:
                logger.exception("%s failed", step.__name__)
        sys.stdout.flush()
        sys.stderr.flush()
        # Each worker process embeds on its own share of the cores: more threads than cores slow each other down.
        os.environ.setdefault("EMBEDDING_THREADS", str(max(1, (os.cpu_count() or 1) // config.workers)))
        os.execv(sys.executable, [*program.command(), "qcluster", "--skip-checks"])  # noqa: S606

    def check_worker(self) -> None:
        """Raises: CommandError unless a worker of this host runs."""
        if not worker_runs():
            raise CommandError("No worker runs on this host.")
        self.stdout.write("A worker runs.")


def prepare_model() -> None:
    """Build the local model's graph, if it is not built yet, before several processes need it."""
    from convmemory.embeddings.spaces import active_space, embedder_for

    logger.info("The embedding model is ready: %s", embedder_for(active_space()).card.model)


def load_samples() -> None:
    if count := instance.load_pending_samples(Path(config.var_dir)):
        logger.info("%d sample conversations are loaded: found by words now, by meaning once they are embedded", count)
