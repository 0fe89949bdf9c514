"""The settings page for a user's own data: an archive of everything, written in the background, and the stored rows."""

from typing import Any

from django.contrib import messages
from django.http import FileResponse, HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_POST, require_safe

from convmemory.accounts.pages import PageRequest, signed_in
from convmemory.conversations.storage_quota import use_of_storage
from convmemory.core.errors import NotFound
from convmemory.documents.storage import document_storage
from convmemory.ops.models import OwnArchive
from convmemory.ops.privacy import own_archives
from convmemory.ops.privacy.erasing import count_rows
from convmemory.ops.tasks import enqueue_archive
from convmemory.ops.views import named_counts


@require_safe
@signed_in
def data(request: PageRequest) -> HttpResponse:
    """Show the data that this server stores about the caller, the caller's archives, and the way to delete all of
    it.
    """
    rows = own_archives.archives_of(owner=request.user)
    context: dict[str, Any] = {"archives": rows, "is_working": any(row.is_unfinished for row in rows)}
    if request.htmx and request.htmx.target == "archives":
        return render(request, "ops/archives.html", context)
    context |= {
        "counts": named_counts(count_rows(request.user)),
        "kept_days": own_archives.KEPT.days,
        "storage": use_of_storage(owner_id=request.user.pk),
    }
    return render(request, "ops/data.html", context)


@require_POST
@signed_in
def make_archive(request: PageRequest) -> HttpResponse:
    """Request an archive of everything. Raises: InvalidInput."""
    enqueue_archive(own_archives.request_archive(owner=request.user))
    return redirect("data")


@never_cache
@require_safe
@signed_in
def fetch_archive(request: PageRequest, archive_id: int) -> FileResponse:
    """Send the archive as a file."""
    row = own_archives.get_archive(owner=request.user, archive_id=archive_id)
    place = row.file.name or ""
    if row.state != OwnArchive.State.DONE or not document_storage().exists(place):
        raise NotFound("This archive is not there yet, or no longer.")
    name = f"convmemory-{timezone.localtime(row.created_at):%Y-%m-%d}.zip"
    return FileResponse(document_storage().open(place), as_attachment=True, filename=name)


@require_POST
@signed_in
def remove_archive(request: PageRequest, archive_id: int) -> HttpResponse:
    """Delete an archive before it expires."""
    own_archives.remove_archive(owner=request.user, archive_id=archive_id)
    messages.success(request, _("The archive is deleted. What it was made of stays."))
    return redirect("data")
