"""Large uploads on their way in: complete, and without a file name that a killed process could leave."""

import tempfile
from pathlib import Path
from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile, UploadedFile
from django.http import HttpRequest
from django.test import RequestFactory

from convmemory.core.files.uploads import NamelessFileUploadHandler

LARGE = b"x" * 600_000


@pytest.fixture
def folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def request_with(content: bytes) -> HttpRequest:
    return RequestFactory().post("/documents", {"file": SimpleUploadedFile("a.md", content)})


def test_large_upload_is_complete_and_has_no_name_on_disk(folder: Path, settings: Any) -> None:
    assert len(LARGE) > settings.FILE_UPLOAD_MAX_MEMORY_SIZE
    request = request_with(LARGE)
    file = request.FILES["file"]
    assert isinstance(file, UploadedFile)
    assert list(folder.iterdir()) == []
    assert (file.name, file.size, file.read()) == ("a.md", len(LARGE), LARGE)
    file.seek(0)
    assert b"".join(file.chunks()) == LARGE
    request.close()


def test_interrupted_upload_is_closed(folder: Path) -> None:
    handler = NamelessFileUploadHandler(request_with(b""))
    handler.upload_interrupted()
    handler.new_file("file", "a.md", "text/plain", None)
    handler.receive_data_chunk(b"half", 0)
    handler.upload_interrupted()
    assert handler.file is not None
    assert handler.file.closed
    assert list(folder.iterdir()) == []
