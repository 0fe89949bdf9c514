"""Stores the files of documents under `MEDIA_ROOT`, in a folder for each owner, named by digest.

File names given by users never become part of a path.
"""

import hashlib
from pathlib import Path
from typing import IO

from convmemory.core.config import config
from convmemory.core.files.uploads import PrivateStorage

CHUNK_BYTES = 1024 * 1024


class DocumentStorage(PrivateStorage):
    """Files in `MEDIA_ROOT`."""

    @property
    def folder(self) -> Path:
        return config.media_root


def document_storage() -> DocumentStorage:
    """Return the storage of documents' files."""
    return DocumentStorage()


def pictures_folder(*, archive_id: int, digest: str) -> Path:
    """Return the folder for the pictures of a file's pages."""
    return pictures_of_owner(archive_id) / digest[:2] / digest


def pictures_of_owner(archive_id: int) -> Path:
    """Return the folder for the pictures of all of an owner's documents."""
    return pictures_of_everybody() / str(archive_id)


def pictures_of_everybody() -> Path:
    """Return the folder for the pictures of all documents, with a subfolder for each owner."""
    return Path(document_storage().location) / "pictures"


def digest_of(file: IO[bytes]) -> str:
    """Return SHA-256 of the whole file, in hexadecimal; rewinds the file to its start."""
    digest = hashlib.sha256()
    file.seek(0)
    while chunk := file.read(CHUNK_BYTES):
        digest.update(chunk)
    file.seek(0)
    return digest.hexdigest()


def place_of(*, archive_id: int, digest: str) -> str:
    """Return the stored file's name below `MEDIA_ROOT`."""
    return f"documents/{archive_id}/{digest[:2]}/{digest}"
