"""Files and folders that nobody else on the machine can read, from their first byte on, whatever the umask."""

import os
from pathlib import Path
from typing import IO

FILE_MODE, FOLDER_MODE = 0o600, 0o700


def new_private_file(path: Path) -> IO[bytes]:
    """A new file, opened for writing and reading; what an earlier run left in its place goes.

    Raises: OSError.
    """
    path.unlink(missing_ok=True)
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0)
    return os.fdopen(os.open(path, flags, FILE_MODE), "w+b")


def private_folder(path: Path) -> None:
    """Make the folder, and those above it that are missing; one that is there keeps its mode. Raises: OSError."""
    if path.is_dir():
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    path.mkdir(mode=FOLDER_MODE, exist_ok=True)
