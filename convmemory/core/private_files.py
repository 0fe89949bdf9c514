"""Files and folders that nobody else on the machine can read, from the first byte on and whatever the umask."""

import os
from pathlib import Path
from typing import IO

FILE_MODE, FOLDER_MODE = 0o600, 0o700


def new_private_file(path: Path) -> IO[bytes]:
    """Open a new file for reading and writing; a file left in its place by an earlier run is deleted.

    Raises: OSError.
    """
    path.unlink(missing_ok=True)
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0)
    return os.fdopen(os.open(path, flags, FILE_MODE), "w+b")


def private_folder(path: Path) -> None:
    """Create the folder and its missing parents; an existing folder keeps its mode. Raises: OSError."""
    if path.is_dir():
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    path.mkdir(mode=FOLDER_MODE, exist_ok=True)
