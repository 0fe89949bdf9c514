"""Where uploads are stored: in `IMPORT_FOLDER` while they wait, under `MEDIA_ROOT` if they are kept to be read again.

Only the server's user can read them, and file names given by clients never become part of a path.
"""

from pathlib import Path

from django.core.files.storage import FileSystemStorage

from convmemory.conversations.options import ImportOptions


class _PrivateStorage(FileSystemStorage):
    """Files in a folder, whose setting is read at each use."""

    def __init__(self) -> None:
        super().__init__(file_permissions_mode=0o600, directory_permissions_mode=0o700)

    @property
    def folder(self) -> Path:
        raise NotImplementedError

    @property
    def base_location(self) -> str:
        return str(self.folder)

    @property
    def location(self) -> str:
        return str(self.folder.resolve())


class UploadStorage(_PrivateStorage):
    """Uploads waiting for their import."""

    @property
    def folder(self) -> Path:
        return ImportOptions.from_settings().import_folder


class KeptStorage(_PrivateStorage):
    """Uploads that were imported, encrypted."""

    @property
    def folder(self) -> Path:
        return ImportOptions.from_settings().media_root


def upload_storage() -> UploadStorage:
    """The storage of `Import.file`."""
    return UploadStorage()


def kept_storage() -> KeptStorage:
    """The storage of `KeptUpload.file`."""
    return KeptStorage()


def kept_place(*, owner_id: int, digest: str) -> str:
    """A kept upload's name below `MEDIA_ROOT`, by the digest of the stored file."""
    return f"uploads/{owner_id}/{digest[:2]}/{digest}"
