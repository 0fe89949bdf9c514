"""Zip files that are written for their owner alone, and that appear when they are whole."""

import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from convmemory.core.errors import InvalidInput
from convmemory.core.private_files import new_private_file


@contextmanager
def new_archive(path: Path, *, level: int | None = None) -> Iterator[zipfile.ZipFile]:
    """An archive to fill in the block; behind it, it lies at `path`. Without a `level` nothing is compressed.

    Raises: InvalidInput where the file exists or cannot be written.
    """
    if path.exists():
        raise InvalidInput(f"{path} exists already: name another file.")
    draft = path.with_name(f"{path.name}.partial")
    how = zipfile.ZIP_STORED if level is None else zipfile.ZIP_DEFLATED
    try:
        with new_private_file(draft) as output, zipfile.ZipFile(output, "w", how, compresslevel=level) as archive:
            yield archive
        draft.rename(path)
    except OSError as error:
        raise InvalidInput(f"{path} cannot be written: {error.strerror or error}.") from error
    finally:
        draft.unlink(missing_ok=True)
