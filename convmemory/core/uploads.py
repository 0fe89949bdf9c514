"""Receives uploads too large for memory into files without a name, which disappear with the process,
however it ends.
"""

from tempfile import TemporaryFile
from typing import Any

from django.core.files.uploadedfile import UploadedFile
from django.core.files.uploadhandler import FileUploadHandler


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
