"""Archives of everything that users request on the settings page: written in the background, kept for a while.

One at a time for each user, and at most `MAX_KEPT`. The file is stored in `MEDIA_ROOT`, readable by the server's user
alone, for `KEPT`, and is deleted with the user.
"""

import secrets
from datetime import timedelta
from pathlib import Path

from django.contrib.auth.models import User
from django.db import IntegrityError, transaction
from django.utils import timezone

from convmemory.core.errors import ConvMemoryError, InvalidInput, NotFound
from convmemory.core.private_files import private_folder
from convmemory.documents.storage import document_storage
from convmemory.ops.models import OwnArchive
from convmemory.ops.privacy.exporting import export_user

KEPT = timedelta(days=7)
MAX_KEPT = 5
WORKING = (OwnArchive.State.QUEUED, OwnArchive.State.RUNNING)


def request_archive(*, owner: User) -> OwnArchive:
    """Create a row that waits for a worker, and delete the owner's failed ones; the caller enqueues it.

    Raises: InvalidInput while one is being written, or if the owner has as many as are kept.
    """
    own = OwnArchive.objects.filter(owner_id=owner.pk)
    if own.exclude(state=OwnArchive.State.FAILED).count() >= MAX_KEPT:
        raise InvalidInput(f"At most {MAX_KEPT} archives are kept for you: delete one of them first.")
    try:
        with transaction.atomic():
            own.filter(state=OwnArchive.State.FAILED).delete()
            return OwnArchive.objects.create(owner=owner)
    except IntegrityError:
        raise InvalidInput("Your archive is being written already: wait until it is complete.") from None


def archives_of(*, owner: User) -> list[OwnArchive]:
    """Return the owner's archives, newest first."""
    return list(OwnArchive.objects.filter(owner_id=owner.pk).order_by("-pk"))


def get_archive(*, owner: User, archive_id: int) -> OwnArchive:
    """Return the owner's archive. Raises: NotFound."""
    found = OwnArchive.objects.filter(owner_id=owner.pk, pk=archive_id).first()
    if found is None:
        raise NotFound(f"There is no archive {archive_id}.")
    return found


def write_archive(*, owner_id: int, archive_id: int) -> str:
    """Write the archive; return its state afterwards, "" if it was written or removed meanwhile."""
    row = OwnArchive.objects.select_related("owner").filter(owner_id=owner_id, pk=archive_id, state__in=WORKING).first()
    if row is None:
        return ""
    OwnArchive.objects.filter(pk=row.pk).update(state=OwnArchive.State.RUNNING)
    place = f"archives/{row.owner_id}/{secrets.token_hex(16)}.zip"
    path = Path(document_storage().path(place))
    private_folder(path.parent)
    try:
        size = export_user(user=row.owner, path=path).size
    except ConvMemoryError as error:
        return _end(row, OwnArchive.State.FAILED, error=str(error))
    state = _end(row, OwnArchive.State.DONE, file=place, size=size)
    if not state:
        path.unlink(missing_ok=True)  # the user, or the archive, was deleted meanwhile
    return state


def _end(row: OwnArchive, state: str, **values: object) -> str:
    ended = OwnArchive.objects.filter(pk=row.pk, state__in=WORKING)
    return state if ended.update(state=state, ended_at=timezone.now(), **values) else ""


def remove_archive(*, owner: User, archive_id: int) -> None:
    """Delete an archive before it expires. Raises: NotFound."""
    _remove(get_archive(owner=owner, archive_id=archive_id))


def remove_old() -> int:
    """Delete the expired archives; return their number."""
    old = list(OwnArchive.objects.filter(created_at__lt=timezone.now() - KEPT))
    for row in old:
        _remove(row)
    return len(old)


def _remove(row: OwnArchive) -> None:
    if row.file.name and document_storage().exists(row.file.name):
        document_storage().delete(row.file.name)
    row.delete()
