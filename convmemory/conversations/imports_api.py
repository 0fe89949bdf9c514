"""The route that takes transcripts: one file or an archive, answered with a report per file."""

from typing import Any

from django.conf import settings
from django.http import HttpRequest
from ninja import File, Form, Router, UploadedFile

from convmemory.accounts.authentication import caller_of
from convmemory.conversations.import_runner import import_upload
from convmemory.core.errors import TooLarge

router = Router(tags=["imports"])


@router.post("/imports", response=dict[str, Any], summary="Import a transcript or an archive of transcripts")
def upload(request: HttpRequest, file: File[UploadedFile], format: Form[str] = "auto") -> dict[str, Any]:
    if (file.size or 0) > settings.MAX_UPLOAD_MB * 1024 * 1024:
        raise TooLarge(
            f"The file is larger than {settings.MAX_UPLOAD_MB} MB (MAX_UPLOAD_MB): "
            "use `manage.py import_conversations` on the server."
        )
    report = import_upload(owner=caller_of(request), file=file, name=file.name or "upload", format=format)
    return report.to_json()
