"""The work of the child process: reads the claimed upload, stores its conversations, and reports the outcome."""

import logging
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import IO

import psycopg
from django.db import InterfaceError, OperationalError

from convmemory.accounts.callers import Caller
from convmemory.conversations.importing import kept_uploads, queue
from convmemory.conversations.importing.kept_uploads import keep_upload
from convmemory.conversations.importing.links import record_conversation
from convmemory.conversations.importing.models import Import
from convmemory.conversations.importing.runner import ImportReport, import_upload
from convmemory.core.acting import acting_for
from convmemory.core.errors import ConvMemoryError, DatabaseUnavailable, InvalidInput, TooLarge
from convmemory.core.postgres import embedded
from convmemory.core.processes.child_limits import DISK_FULL
from convmemory.core.processes.confinement import Access, confine_this_process

PROGRESS_S = 1.0
EXIT_WITHOUT_DATABASE = 72  # the worker queues the import again
NO_FILE = (
    "The upload {name} is not in the worker's folder of uploads: on several machines IMPORT_FOLDER has to name one "
    "folder that they share. Upload it again then."
)
NO_ROOM = "The server's disk is full. What was read until then is stored: make room, then upload it again."

logger = logging.getLogger(__name__)


class _ClaimLost(Exception):
    """The import was erased or given to another worker."""


def work(*, import_id: int, run: uuid.UUID, folder: Path, confined: bool = False) -> None:
    """Import the upload that `run` has claimed, unpacking it into `folder`.

    With `confined`, the process is confined for good once it has its connections, the open upload, and the kept copy of
    it: it then cannot connect again.

    Raises: MemoryError; SystemExit if the database connection was lost, so that the worker retries the import.
    """
    row = queue.claimed(import_id, run)
    if row is None:
        return
    try:
        with acting_for(row.archive_id, caused_by=row.started_by), _opened(row) as file:
            kept = keep_upload(row, file)
            if confined:
                _confine(row, folder)
            report = import_upload(
                caller=Caller.for_archive(row.archive_id),
                file=file,
                name=row.name,
                format=row.format,
                folder=folder,
                progress=_Progress(row),
                on_stored=partial(record_conversation, row, kept=kept),
                mapping=row.mapping,
                is_preview=row.is_preview,
            )
    except _ClaimLost:
        logger.info("Import %s was taken away while it ran", import_id)
    except (OperationalError, InterfaceError, DatabaseUnavailable) as error:
        if not _is_disk_full(error):
            logger.exception("Import %s lost the database and is tried again", import_id)
            raise SystemExit(EXIT_WITHOUT_DATABASE) from error
        queue.fail(row, Import.Failure.INTERNAL, NO_ROOM)
    except TooLarge as error:
        queue.fail(row, Import.Failure.TOO_LARGE, str(error))
    except ConvMemoryError as error:
        queue.fail(row, Import.Failure.UNREADABLE, str(error))
    except FileNotFoundError:
        queue.fail(row, Import.Failure.INTERNAL, NO_FILE.format(name=row.name))
    # `run_limited` exits with EXIT_MEMORY for it.
    except MemoryError:
        raise
    except Exception as error:  # the boundary of the process: the owner sees the class, the log has the rest
        logger.exception("Import %s failed", import_id)
        reason = NO_ROOM if _is_disk_full(error) else f"An error of the server ended it: {type(error).__name__}."
        queue.fail(row, Import.Failure.INTERNAL, reason)
    else:
        queue.finish(row, report)


@contextmanager
def _opened(row: Import) -> Iterator[IO[bytes]]:
    """Open the waiting upload, or the kept one that is read again. Raises: OSError, InvalidInput."""
    if row.file:
        with row.file.storage.open(str(row.file.name)) as file:
            yield file
    elif row.kept is None:
        raise InvalidInput("The upload is no longer kept: upload it again.")
    else:
        with kept_uploads.opened(row.kept) as file:
            yield file


def _confine(row: Import, folder: Path) -> None:
    """Confine this process to `folder` and to the owner's waiting uploads, of which it deletes the imported one.

    It leaves the embedded database, whose files are then out of reach: the worker uses it as long as this process
    lives.
    """
    embedded.leave()
    uploads = [Path(row.file.path).parent] if row.file else []
    confine_this_process(Access(writable=[folder, *uploads], programs=True))


class _Progress:
    """Stores the import's progress from time to time. Raises: _ClaimLost."""

    def __init__(self, row: Import) -> None:
        self._row = row
        self._due = 0.0

    def __call__(self, report: ImportReport) -> None:
        if time.monotonic() < self._due:
            return
        if not queue.store_progress(self._row, report):
            raise _ClaimLost
        self._due = time.monotonic() + PROGRESS_S


def _is_disk_full(error: Exception) -> bool:
    is_ours = isinstance(error, OSError) and error.errno in DISK_FULL
    return is_ours or isinstance(error.__cause__, psycopg.errors.DiskFull)
