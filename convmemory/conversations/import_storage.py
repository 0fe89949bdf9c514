"""The storages of uploads: `IMPORT_FOLDER` while they wait, `MEDIA_ROOT` if they are kept for later imports.

Each has a folder for each owner. Only the server's user can read the files, and file names given by clients never
become part of a path.
"""

import uuid
from pathlib import Path

from convmemory.core.config import config
from convmemory.core.private_storage import PrivateStorage


class UploadStorage(PrivateStorage):
    """Uploads waiting for their import."""

    @property
    def folder(self) -> Path:
        return config.import_folder


class KeptStorage(PrivateStorage):
    """Uploads that were imported, encrypted."""

    @property
    def folder(self) -> Path:
        return config.media_root


def upload_storage() -> UploadStorage:
    """Return the storage of `Import.file`."""
    return UploadStorage()


def kept_storage() -> KeptStorage:
    """Return the storage of `KeptUpload.file`."""
    return KeptStorage()


def upload_place(*, owner_id: int) -> str:
    """Return a new name below `IMPORT_FOLDER` for a waiting upload."""
    return f"{owner_id}/{uuid.uuid4().hex}"


def kept_place(*, owner_id: int, digest: str) -> str:
    """Return a kept upload's name below `MEDIA_ROOT`, by the digest of the stored file."""
    return f"uploads/{owner_id}/{digest[:2]}/{digest}"
