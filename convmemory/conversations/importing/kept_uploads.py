"""Keeps imported uploads, encrypted, so that a better importer can read them again (`syncing.py`).

They are stored under `MEDIA_ROOT` by owner. If they exceed `MAX_KEPT_UPLOADS_MB`, the oldest are deleted, and deleting
a conversation deletes the uploads that contain it.
"""

import hashlib
import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO

from django.db import transaction
from django.db.models import Count, Sum

from convmemory.accounts.callers import Caller
from convmemory.conversations.importing.models import Import, KeptConversation, KeptUpload, kept_place, kept_storage
from convmemory.conversations.messages.identity import NAME_CHARS, is_global_id
from convmemory.conversations.messages.storage_quota import Amounts, StorageChange, count_changes
from convmemory.core.config import config
from convmemory.core.encryption import decrypt_file, encrypt_file
from convmemory.core.errors import InvalidInput, StorageFull
from convmemory.core.files.private_files import has_digest, new_draft

MB = 1024**2
# Sources whose conversations were named by their files if they had no id.
NAMED_BY_FILE = ("vscode-copilot", "goose", "cursor", "pi", "gemini-cli")
_BY_OPENING = re.compile(rf"[0-9a-f]{{{NAME_CHARS}}}(?::|$)")

logger = logging.getLogger(__name__)


def keep_upload(row: Import, file: IO[bytes]) -> KeptUpload | None:
    """Store the bytes of an upload, once for each digest; None if there is no room for them.

    Leaves `file` at its start. If the disk cannot store them, that is logged and the import continues.
    """
    digest = row.digest or hashlib.file_digest(file, "sha256").hexdigest()  # type: ignore[arg-type]
    kept, _ = KeptUpload.objects.get_or_create(
        archive_id=row.archive_id,
        digest=digest,
        defaults={"name": row.name, "format": row.format, "added_by": row.started_by},
    )
    try:
        path = Path(kept_storage().path(str(kept.file)))
        is_whole = bool(kept.stored_size) and has_digest(path, path.name, size=kept.stored_size)
        stays = is_whole or _is_written(kept, file)
    except OSError as error:
        logger.warning("Upload %s cannot be kept: %s", row.pk, error.strerror or error)
        stays = False
    except StorageFull:
        stays = False  # the import itself reports it
    file.seek(0)
    if not stays:
        drop_upload(kept)
        return None
    Import.objects.filter(pk=row.pk).update(kept=kept)
    return kept


def record_kept_conversation(kept: KeptUpload | None, conversation_id: int) -> None:
    """Record that the upload contains this conversation; called in the transaction that stores it."""
    if kept is not None:
        link = KeptConversation(archive_id=kept.archive_id, upload=kept, conversation_id=conversation_id)
        KeptConversation.objects.bulk_create([link], ignore_conflicts=True)


def drop_uploads_with(freed: StorageChange, *, caller: Caller, conversation_id: int) -> None:
    """Delete the caller's kept uploads that contain the conversation; adds their bytes to what is `freed`."""
    for kept in KeptUpload.objects.filter(archive_id=caller.archive_id, holds__conversation_id=conversation_id):
        _delete(kept)
        freed.add(-Amounts(kept.stored_size), archive_id=kept.archive_id, added_by=kept.added_by)


def drop_upload_of(row: Import) -> None:
    """Delete the kept upload of an import, if it still exists."""
    for kept in KeptUpload.objects.filter(archive_id=row.archive_id, digest=row.digest):
        drop_upload(kept)


def lost_uploads() -> list[KeptUpload]:
    """Return the kept uploads of all owners whose files are missing or have another size, for the operator."""
    rows = KeptUpload.objects.filter(stored_size__gt=0).order_by("pk").iterator(chunk_size=500)
    return [row for row in rows if kept_storage().size_of(str(row.file)) != row.stored_size]


def conversations_named_by_file() -> int:
    """Return how many conversations of all owners come from several uploads and have an id of their file's name."""
    rows = KeptConversation.objects.filter(conversation__source__in=NAMED_BY_FILE)
    several = rows.values_list("conversation__source_id").annotate(uploads=Count("pk")).filter(uploads__gt=1)
    return sum(
        not is_global_id(name) and not _BY_OPENING.match(name)
        for name, _ in several.values_list("conversation__source_id", "uploads").order_by("conversation_id")
    )


def drop_upload(kept: KeptUpload) -> int:
    """Delete a kept upload, and its file once the transaction has committed; returns how many rows were deleted."""
    with transaction.atomic():
        dropped = _delete(kept)
        if dropped:
            _count(kept, -kept.stored_size)
    return dropped


def _count(kept: KeptUpload, size: int) -> None:
    change = StorageChange()
    change.add(Amounts(size), archive_id=kept.archive_id, added_by=kept.added_by)
    count_changes(change)


def _delete(kept: KeptUpload) -> int:
    stored_name = str(kept.file)
    _, by_model = kept.delete()
    if stored_name:
        transaction.on_commit(lambda: kept_storage().delete(stored_name))
    return by_model.get(KeptUpload._meta.label, 0)


@contextmanager
def opened(kept: KeptUpload) -> Iterator[IO[bytes]]:
    """Open the original upload. Raises: InvalidInput if it can no longer be read."""
    with TemporaryFile() as target:
        try:
            with kept_storage().open(str(kept.file)) as source:
                decrypt_file(source, target)
        except OSError as error:
            raise InvalidInput(f"It cannot be read: {error.strerror or error}.") from error
        target.seek(0)
        if hashlib.file_digest(target, "sha256").hexdigest() != kept.digest:
            raise InvalidInput("The file is damaged: put it back from a backup.")
        target.seek(0)
        yield target


def _is_written(kept: KeptUpload, file: IO[bytes]) -> bool:
    """Write the file and record its size; False if it alone exceeds the limit of kept uploads.

    Raises: OSError, StorageFull.
    """
    storage, damaged, counted = kept_storage(), str(kept.file), kept.stored_size
    folder = Path(storage.path(kept_place(archive_id=kept.archive_id, digest=kept.digest))).parent
    file.seek(0)
    with new_draft(folder) as draft:
        encrypt_file(file, draft.file)
        size = draft.file.tell()
        draft.file.seek(0)
        digest = hashlib.file_digest(draft.file, "sha256").hexdigest()  # type: ignore[arg-type]
        # Only now is the size known: compressed uploads are about a sixth of their size.
        if not _has_made_space(kept, size):
            return False
        kept.file.name, kept.stored_size = kept_place(archive_id=kept.archive_id, digest=digest), 0
        with transaction.atomic():
            kept.save(update_fields=["file", "stored_size"])  # before the move, so that no file is without a row
            _count(kept, -counted)
        draft.move_to(Path(storage.path(kept.file.name)))
    with transaction.atomic():
        KeptUpload.objects.filter(pk=kept.pk, archive_id=kept.archive_id).update(stored_size=size)
        _count(kept, size)
    kept.stored_size = size
    if damaged:
        storage.delete(damaged)
    return True


def _has_made_space(kept: KeptUpload, size: int) -> bool:
    """Delete the oldest other uploads of the owner until this one, of `size` bytes, fits; False if it cannot."""
    most = config.max_kept_uploads_mb * MB
    if size > most:
        return False
    whole = KeptUpload.objects.filter(archive_id=kept.archive_id, stored_size__gt=0).exclude(pk=kept.pk)
    left = whole.aggregate(size=Sum("stored_size"))["size"] or 0
    for oldest in whole.order_by("pk"):
        if left + size <= most:
            break
        left -= oldest.stored_size
        drop_upload(oldest)
    return True
