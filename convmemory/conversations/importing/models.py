"""What is kept of imports: uploads with their files and states, what they brought in, and synced files.

Rows are written by `imports.py`, `queue.py`, `kept_uploads.py` and `syncing.py`. Lengths are cut there, never
here.
"""

import uuid
from collections.abc import Collection
from pathlib import Path
from typing import Any, Self

from django.db import models
from django.db.models import Q
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from convmemory.core.config import config
from convmemory.core.files.uploads import PrivateStorage


# Each storage of uploads has a folder for each owner. Only the server's user can read the files, and file names given
# by clients never become part of a path.
class UploadStorage(PrivateStorage):
    """Uploads waiting for their import."""

    @property
    def folder(self) -> Path:
        return config.import_folder


class KeptStorage(PrivateStorage):
    """Uploads that were imported, encrypted."""

    @property
    def folder(self) -> Path:
        return config.media_root


def upload_storage() -> UploadStorage:
    """Return the storage of `Import.file`."""
    return UploadStorage()


def kept_storage() -> KeptStorage:
    """Return the storage of `KeptUpload.file`."""
    return KeptStorage()


def upload_place(*, archive_id: int) -> str:
    """Return a new name below `IMPORT_FOLDER` for a waiting upload."""
    return f"{archive_id}/{uuid.uuid4().hex}"


def kept_place(*, archive_id: int, digest: str) -> str:
    """Return a kept upload's name below `MEDIA_ROOT`, by the digest of the stored file."""
    return f"uploads/{archive_id}/{digest[:2]}/{digest}"


class SyncedFile(models.Model):
    """The state of an agent's file on this machine when it was last imported; `syncing.py` compares it."""

    archive = models.ForeignKey(
        "accounts.Archive", db_column="owner_id", on_delete=models.CASCADE, related_name="+", db_index=False
    )
    path = models.TextField()
    agent = models.CharField(max_length=50)
    device = models.DecimalField(max_digits=20, decimal_places=0)
    inode = models.DecimalField(max_digits=20, decimal_places=0)
    size = models.BigIntegerField()
    modified_ns = models.BigIntegerField()
    head = models.BinaryField(max_length=32)
    head_bytes = models.PositiveIntegerField()
    imported_at = models.DateTimeField(auto_now=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["archive", "path"], name="synced_file_unique")]

    def __str__(self) -> str:
        return f"synced file {self.pk}"


class KeptUpload(models.Model):
    """The bytes of an upload, encrypted, for a later import by a better importer; deleted with its conversations.

    `file` is named after the digest of the encrypted bytes; `stored_size` is 0 until it is complete.
    """

    archive = models.ForeignKey(
        "accounts.Archive", db_column="owner_id", on_delete=models.CASCADE, related_name="+", db_index=False
    )
    digest = models.CharField(max_length=64, help_text="SHA-256 of the upload.")
    name = models.CharField(max_length=255)
    format = models.CharField(max_length=30)
    file = models.FileField(storage=kept_storage, max_length=200, blank=True, default="")
    stored_size = models.PositiveBigIntegerField(default=0, help_text="Bytes on the disk.")
    added_by = models.IntegerField(null=True, help_text="The person who added it to a space.")
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["archive", "digest"], name="kept_upload_unique")]

    def __str__(self) -> str:
        return f"kept upload {self.pk}"


class KeptConversation(models.Model):
    """Records that a kept upload contains a conversation: deleting the conversation deletes the upload."""

    archive = models.ForeignKey(
        "accounts.Archive", db_column="owner_id", on_delete=models.CASCADE, related_name="+", db_index=False
    )
    upload = models.ForeignKey(KeptUpload, on_delete=models.CASCADE, related_name="holds")
    conversation = models.ForeignKey("conversations.Conversation", on_delete=models.CASCADE, related_name="+")

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["archive", "conversation", "upload"], name="kept_conversation_unique"),
        ]

    def __str__(self) -> str:
        return f"conversation {self.conversation_id} in kept upload {self.upload_id}"


class Import(models.Model):
    """An uploaded file, the progress of its import, and the outcome.

    `run` names the worker's claim, which is valid until `lease_until`; a worker that lost it stores nothing here.
    `file` is empty once the import has ended, and where the kept upload is read again. `report` comes from
    `ImportReport.to_stored_json`.
    """

    class State(models.TextChoices):
        QUEUED = "queued", _("waiting")
        RUNNING = "running", _("running")
        DONE = "done", _("done")
        FAILED = "failed", _("failed")
        UNDOING = "undoing", _("being undone")
        UNDONE = "undone", _("undone")

    class Failure(models.TextChoices):
        UNREADABLE = "unreadable"
        TOO_LARGE = "too_large"
        TIME = "time"
        MEMORY = "memory"
        INTERRUPTED = "interrupted"
        INTERNAL = "internal"

    archive = models.ForeignKey(
        "accounts.Archive", db_column="owner_id", on_delete=models.CASCADE, related_name="imports", db_index=False
    )
    name = models.CharField(max_length=255)
    format = models.CharField(max_length=30)
    size = models.PositiveBigIntegerField(help_text="Bytes of the uploaded file; 0 where a command imported.")
    digest = models.CharField(max_length=64, blank=True, default="", help_text="SHA-256 of the uploaded file.")
    kept = models.ForeignKey(KeptUpload, on_delete=models.SET_NULL, null=True, blank=True, related_name="+")
    file = models.FileField(storage=upload_storage, blank=True, default="")
    mapping = models.JSONField(null=True, blank=True, help_text="How files of unknown formats are read.")
    is_preview = models.BooleanField(default=False, help_text="Nothing is stored.")
    state = models.CharField(max_length=10, choices=State, default=State.QUEUED)
    failure = models.CharField(max_length=20, choices=Failure, blank=True, default="")
    error = models.TextField(blank=True, default="")
    report = models.JSONField(null=True, blank=True)
    files_read = models.PositiveIntegerField(default=0)
    messages_read = models.PositiveIntegerField(default=0)
    attempts = models.PositiveSmallIntegerField(default=0)
    started_by = models.IntegerField(null=True, help_text="The member who sent it to a space; null: its owner.")
    run = models.UUIDField(null=True, blank=True)
    lease_until = models.DateTimeField(null=True, blank=True)
    created_at = models.DateTimeField(auto_now_add=True)
    started_at = models.DateTimeField(null=True, blank=True)
    ended_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(state__in=["queued", "running", "done", "failed", "undoing", "undone"]), name="import_state"
            ),
            # One import of a person runs at a time, even if two workers claim in the same moment.
            models.UniqueConstraint(fields=["archive"], condition=Q(state="running"), name="import_one_running"),
        ]
        indexes = [
            models.Index(fields=["archive", "-id"], name="import_owner"),
            models.Index(fields=["archive", "digest"], condition=~Q(digest=""), name="import_digest"),
            # For the sweep, which looks at unfinished imports of all owners every minute.
            models.Index(fields=["id"], condition=Q(state__in=["queued", "running"]), name="import_unfinished"),
        ]

    def __str__(self) -> str:
        return f"import {self.pk}"  # no name: the admin shows this, and staff may not read names

    @classmethod
    def from_db(cls, db: str | None, field_names: Collection[str], values: Collection[Any], **options: Any) -> Self:
        """Read a row; one that a command renews, stored as interrupted in case the command is killed, is running."""
        row = super().from_db(db, field_names, values, **options)
        is_whole = {"state", "failure", "lease_until"}.issubset(field_names)
        if is_whole and row.failure == cls.Failure.INTERRUPTED and row.lease_until and row.lease_until > timezone.now():
            row.state, row.failure, row.error = cls.State.RUNNING, "", ""
        return row

    @property
    def is_unfinished(self) -> bool:
        return self.state in (self.State.QUEUED, self.State.RUNNING)

    @property
    def changes(self) -> bool:
        """True if a worker is about to change the row."""
        return self.is_unfinished or self.state == self.State.UNDOING


class ImportedConversation(models.Model):
    """The messages that one file of an import added to one conversation: the range of their ids.

    `created` is set if the import created the conversation. Deleted with its import, so that an import can be undone
    for as long as it is listed.
    """

    archive = models.ForeignKey(
        "accounts.Archive", db_column="owner_id", on_delete=models.CASCADE, related_name="+", db_index=False
    )
    import_job = models.ForeignKey(Import, on_delete=models.CASCADE, related_name="found", db_index=False)
    conversation = models.ForeignKey("conversations.Conversation", on_delete=models.CASCADE, related_name="+")
    file = models.CharField(max_length=500)
    created = models.BooleanField()
    first_message = models.BigIntegerField(null=True, blank=True)
    last_message = models.BigIntegerField(null=True, blank=True)

    class Meta:
        indexes = [
            models.Index(fields=["archive", "import_job", "id"], name="imported_conversation"),
            models.Index(fields=["import_job"], name="imported_conversation_job"),
        ]

    def __str__(self) -> str:
        return f"conversation {self.conversation_id} of import {self.import_job_id}"
