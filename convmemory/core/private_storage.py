"""A storage for files that only the server's user can read, each complete or absent."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from django.core.files.storage import FileSystemStorage

from convmemory.core.private_files import written_whole

if TYPE_CHECKING:
    from django.core.files import File


class PrivateStorage(FileSystemStorage):
    """Files in `folder`, whose setting is read at each use. Names are made by the program, never by clients.

    Saving under an existing name replaces the file: names are digests or random.
    """

    def __init__(self) -> None:
        super().__init__(allow_overwrite=True)

    @property
    def folder(self) -> Path:
        raise NotImplementedError

    @property
    def base_location(self) -> str:
        return str(self.folder)

    @property
    def location(self) -> str:
        return str(Path(self.folder).resolve())

    def size_of(self, name: str) -> int | None:
        """Return the size of a stored file in bytes; None if it is not there."""
        try:
            return self.size(name)
        except FileNotFoundError:
            return None

    def _save(self, name: str, content: "File[Any]") -> str:
        with written_whole(Path(self.path(name))) as target:
            for chunk in content.chunks():
                target.write(chunk)
        return name
