"""Zip files that only their owner can read, and that appear when they are complete."""

import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from convmemory.core.errors import InvalidInput
from convmemory.core.private_files import drop_drafts_of, written_whole


@contextmanager
def new_archive(path: Path, *, level: int | None = None) -> Iterator[zipfile.ZipFile]:
    """Yield an archive to fill in the block, which appears at `path` afterwards; without a `level` it is not
    compressed.

    Raises: InvalidInput if the file exists or cannot be written.
    """
    if path.exists():
        raise InvalidInput(f"{path} exists already: name another file.")
    if not path.parent.is_dir():
        raise InvalidInput(f"{path} cannot be written: there is no folder {path.parent}.")
    how = zipfile.ZIP_STORED if level is None else zipfile.ZIP_DEFLATED
    try:
        drop_drafts_of(path)
        with written_whole(path) as output, zipfile.ZipFile(output, "w", how, compresslevel=level) as archive:
            yield archive
    except OSError as error:
        raise InvalidInput(f"{path} cannot be written: {error.strerror or error}.") from error
