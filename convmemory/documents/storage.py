"""Where the files of documents are stored: under `MEDIA_ROOT`, in a folder for each owner, named by digest.

File names given by people never become part of a path.
"""

import hashlib
from pathlib import Path
from typing import IO

from django.core.files.storage import FileSystemStorage

from convmemory.documents.options import DocumentOptions

CHUNK_BYTES = 1024 * 1024


class DocumentStorage(FileSystemStorage):
    """Files in `MEDIA_ROOT`, whose setting is read at each use; only the server's user can read them."""

    def __init__(self) -> None:
        super().__init__(file_permissions_mode=0o600, directory_permissions_mode=0o700)

    @property
    def base_location(self) -> str:
        return str(DocumentOptions.from_settings().media_root)

    @property
    def location(self) -> str:
        return str(Path(DocumentOptions.from_settings().media_root).resolve())


def document_storage() -> DocumentStorage:
    """The storage of documents' files."""
    return DocumentStorage()


def work_prefix(owner_id: int) -> str:
    """The prefix of the temporary folders in which a worker reads or draws a person's document."""
    return f"convmemory-document-{owner_id}-"


def pictures_folder(*, owner_id: int, digest: str) -> Path:
    """The folder for the pictures of a file's pages."""
    return pictures_of_owner(owner_id) / digest[:2] / digest


def pictures_of_owner(owner_id: int) -> Path:
    """The folder for the pictures of all of a person's documents."""
    return pictures_of_everybody() / str(owner_id)


def pictures_of_everybody() -> Path:
    """The folder for the pictures of all documents, with a subfolder for each owner."""
    return Path(document_storage().location) / "pictures"


def digest_of(file: IO[bytes]) -> str:
    """SHA-256 of the whole file, in hexadecimal; rewinds the file to its start."""
    digest = hashlib.sha256()
    file.seek(0)
    while chunk := file.read(CHUNK_BYTES):
        digest.update(chunk)
    file.seek(0)
    return digest.hexdigest()


def place_of(*, owner_id: int, digest: str) -> str:
    """The stored file's name below `MEDIA_ROOT`."""
    return f"documents/{owner_id}/{digest[:2]}/{digest}"
