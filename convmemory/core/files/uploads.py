"""Receives uploads into files without a name, and stores files that only the server's user can read."""

from pathlib import Path
from tempfile import TemporaryFile
from typing import TYPE_CHECKING, Any

from django.core.files.storage import FileSystemStorage
from django.core.files.uploadedfile import UploadedFile
from django.core.files.uploadhandler import FileUploadHandler

from convmemory.core.files.private_files import written_whole

if TYPE_CHECKING:
    from django.core.files import File

DOCUMENT_SUFFIXES = (
    *(".pdf", ".docx", ".docm", ".pptx", ".xlsx", ".xlsm", ".xls", ".odt", ".odp", ".ods", ".rtf", ".csv", ".epub"),
    *(".html", ".htm", ".md", ".txt", ".eml", ".mbox", ".msg", ".ipynb"),
)


class NamelessFileUploadHandler(FileUploadHandler):
    """Replaces Django's handler, whose temporary files have names and remain if the process is killed."""

    file: "UploadedFile[bytes] | None" = None

    def new_file(self, *args: Any, **kwargs: Any) -> None:
        """Open a nameless file for the next upload."""
        super().new_file(*args, **kwargs)
        self.file = UploadedFile(
            TemporaryFile(),  # noqa: SIM115 - it is closed with the request
            self.file_name,
            self.content_type,
            0,
            self.charset,
            self.content_type_extra,
        )

    def receive_data_chunk(self, raw_data: bytes, start: int) -> None:
        """Append a chunk to the file."""
        assert self.file is not None
        self.file.write(raw_data)

    def file_complete(self, file_size: int) -> "UploadedFile[bytes] | None":
        """Return the uploaded file, positioned at its beginning."""
        assert self.file is not None
        self.file.seek(0)
        self.file.size = file_size
        return self.file

    def upload_interrupted(self) -> None:
        """Close the file, which deletes it."""
        if self.file is not None:
            self.file.close()


class PrivateStorage(FileSystemStorage):
    """Files in `folder`, each complete or absent, that only the server's user can read.

    The setting of the folder is read at each use. Names are made by the program, never by clients.

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
