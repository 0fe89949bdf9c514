"""Where uploads wait for their import: files in `IMPORT_FOLDER` that nobody but the server's user can read."""

from pathlib import Path

from django.core.files.storage import FileSystemStorage

from convmemory.conversations.options import ImportOptions


class UploadStorage(FileSystemStorage):
    """Files in `IMPORT_FOLDER`, as it is set when they are used."""

    def __init__(self) -> None:
        super().__init__(file_permissions_mode=0o600, directory_permissions_mode=0o700)

    @property
    def base_location(self) -> str:
        return str(ImportOptions.from_settings().import_folder)

    @property
    def location(self) -> str:
        return str(Path(ImportOptions.from_settings().import_folder).resolve())


def upload_storage() -> UploadStorage:
    """The storage of `Import.file`."""
    return UploadStorage()
