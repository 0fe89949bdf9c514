"""Files and folders that no other user of the machine can read, and files that are complete or absent.

Files that are named by their content, or trusted because they exist, are written by `written_whole`: to a draft in the
same folder, flushed to the disk, then renamed. A draft that a killed process left has the suffix `DRAFT_SUFFIX`.
"""

import errno
import glob
import hashlib
import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

FILE_MODE, FOLDER_MODE = 0o600, 0o700
DRAFT_SUFFIX = ".partial"
NAME_CHARS = 100  # of the target's name in the name of a draft
NO_FOLDER_SYNC = (errno.EINVAL, errno.ENOTSUP, errno.EBADF)  # some network file systems cannot sync a folder


def new_private_file(path: Path, *, mode: int = FILE_MODE) -> IO[bytes]:
    """Open a new file for reading and writing; a file left in its place by an earlier run is deleted.

    Raises: OSError.
    """
    path.unlink(missing_ok=True)
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0)
    return os.fdopen(os.open(path, flags, mode), "w+b")


def private_folder(path: Path) -> None:
    """Create the folder and its missing parents; an existing folder keeps its mode. Raises: OSError."""
    missing = []
    while not path.is_dir():
        missing.append(path)
        path = path.parent
    for folder in reversed(missing):
        folder.mkdir(mode=FOLDER_MODE, exist_ok=True)
        sync_folder(folder.parent)


def mount_of(path: Path) -> Path:
    """Return the mount point of the file system that the path lies on, or would lie on."""
    path = path.resolve()
    return next(parent for parent in (path, *path.parents) if os.path.ismount(parent))


def sync_folder(path: Path) -> None:
    """Flush the folder's entries to the disk, so that a file renamed into it survives a power failure."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in NO_FOLDER_SYNC:
            raise
    finally:
        os.close(descriptor)


@dataclass(frozen=True, slots=True)
class UnfinishedFile:
    """A file being written; it is deleted unless it is moved to its place."""

    path: Path
    file: IO[bytes]

    def move_to(self, path: Path, *, replaces: bool = True) -> None:
        """Flush the file to the disk and move it to its place.

        Raises: OSError; FileExistsError if there is a file and `replaces` is False.
        """
        self.file.flush()
        os.fsync(self.file.fileno())
        private_folder(path.parent)
        if replaces:
            self.path.replace(path)
        else:
            os.link(self.path, path)
        sync_folder(path.parent)


@contextmanager
def new_draft(folder: Path, *, name: str = "draft", mode: int = FILE_MODE) -> Iterator[UnfinishedFile]:
    """Create a file in `folder` that the block writes. Raises: OSError."""
    private_folder(folder)
    path = folder / f"{name[:NAME_CHARS]}.{uuid.uuid4().hex}{DRAFT_SUFFIX}"
    try:
        with new_private_file(path, mode=mode) as file:
            yield UnfinishedFile(path, file)
    finally:
        path.unlink(missing_ok=True)


@contextmanager
def written_whole(path: Path, *, mode: int = FILE_MODE, replaces: bool = True) -> Iterator[IO[bytes]]:
    """Give the block a file to write, which appears at `path` when the block has ended without an error.

    Raises: OSError; FileExistsError if there is a file and `replaces` is False.
    """
    with new_draft(path.parent, name=path.name, mode=mode) as draft:
        yield draft.file
        draft.move_to(path, replaces=replaces)


def drop_drafts_of(path: Path) -> None:
    """Delete drafts that killed processes left of earlier attempts to write this file. Raises: OSError."""
    for draft in path.parent.glob(f"{glob.escape(path.name[:NAME_CHARS])}.*{DRAFT_SUFFIX}"):
        draft.unlink(missing_ok=True)


def has_digest(path: Path, sha256: str, *, size: int | None = None) -> bool:
    """Return whether the file exists and has this SHA-256, in hexadecimal; reads all of it if its size is right."""
    with suppress(FileNotFoundError), path.open("rb") as file:
        if size is not None and os.fstat(file.fileno()).st_size != size:
            return False
        return hashlib.file_digest(file, "sha256").hexdigest() == sha256
    return False
