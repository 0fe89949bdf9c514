"""Temporary folders for texts of people: under one private folder of the installation, deleted with their work.

`TEMPORARY_FOLDER/<host>/<kind>-<owner>-<claim>-<random>/` holds `work/` and `lock`, a file that the working process
keeps locked. The kernel releases the lock however the process ends, so that a sweep recognises folders whose work is
over. The host is part of the path because several machines may share the folder, and not every shared file system locks
across machines.
"""

import fcntl
import logging
import os
import shutil
import socket
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from convmemory.core.config import config
from convmemory.core.files.private_files import new_private_file, private_folder

LOCK, WORK = "lock", "work"
UNLOCKED_S = 60  # the age from which a folder is expected to have a lock
MARGIN_S = 300

logger = logging.getLogger(__name__)
NO_OWNER = 0


class _ProcessFolder:
    """The folder in which this process makes all its folders, if it has called `work_inside`."""

    path: Path | None = None


_process_folder = _ProcessFolder()


@contextmanager
def work_folder(kind: str, *, archive_id: int = NO_OWNER, claim: object = "") -> Iterator[Path]:
    """Create a new empty folder for the block, named by the owner and the claim (a task, import or document).

    In a child process that has called `work_inside`, the folder is in that process's own folder.
    """
    if _process_folder.path is not None:
        with tempfile.TemporaryDirectory(prefix=f"{kind}-", dir=_process_folder.path) as inner:
            yield Path(inner)
        return
    parent = _root() / _host()
    private_folder(parent)
    with (
        tempfile.TemporaryDirectory(prefix=f"{kind}-{archive_id}-{claim}-", dir=parent) as name,
        new_private_file(Path(name, LOCK)) as lock,
    ):
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        folder = Path(name, WORK)
        private_folder(folder)
        yield folder


def work_inside(folder: Path) -> None:
    """Put all temporary files of this process into `folder`, which its parent made for it and deletes."""
    _process_folder.path = folder
    tempfile.tempdir = os.environ["TMPDIR"] = str(folder)


def is_temporary(path: Path) -> bool:
    """Return whether the path is inside a folder for temporary files, of this program or of the system."""
    folders = [_root(), Path(tempfile.gettempdir()), *([_process_folder.path] if _process_folder.path else [])]
    return any(path.resolve().is_relative_to(folder.resolve()) for folder in folders)


def sweep_work_folders() -> int:
    """Delete the folders of killed processes; returns how many.

    A folder that cannot be deleted is logged.
    """
    gone = 0
    for folder in list(_root().glob("*/*")):
        try:
            if _is_over(folder):
                shutil.rmtree(folder)
                gone += 1
        except FileNotFoundError:
            continue  # its work has just ended
        except OSError as error:
            logger.error("The work folder %s cannot be deleted: %s", folder, error.strerror)
    return gone


def drop_work_folders(archive_id: int) -> int:
    """Delete all work folders of one person, on every host; returns how many there were. Raises: OSError."""
    folders = list(_root().glob(f"*/*-{archive_id}-*"))
    folders = [folder for folder in folders if folder.name.split("-")[1] == str(archive_id)]
    for folder in folders:
        with suppress(FileNotFoundError):
            shutil.rmtree(folder)
    return len(folders)


def _is_over(folder: Path) -> bool:
    """Return whether no process holds the folder's lock; on another host, the folder must also exceed the longest work.

    Raises: FileNotFoundError.
    """
    longest_s = max(config.task_timeout_s, config.import_timeout_s) + MARGIN_S
    age_s = time.time() - folder.stat().st_mtime
    if age_s < (UNLOCKED_S if folder.parent.name == _host() else longest_s):
        return False
    try:
        with (folder / LOCK).open("rb+") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except FileNotFoundError:
        return True  # the process was killed before it created the lock
    except BlockingIOError:
        return False
    return True


def _root() -> Path:
    return Path(config.temporary_folder)


def _host() -> str:
    """Return the name of this machine as a path component."""
    return "".join(char if char.isalnum() or char in "-." else "_" for char in socket.gethostname())[:100] or "host"
