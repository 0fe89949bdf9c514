"""Documents, their sections, and the conversations that they are attached to.

`library.py` (for owners) and `processing.py` (for workers) write the rows.
"""

from django.db import models
from django.db.models import Deferrable, Q
from django.utils.translation import gettext_lazy as _

from convmemory.conversations.models import Conversation
from convmemory.core.trash import Trashable
from convmemory.documents.converters.coverage import plural_of
from convmemory.documents.storage import document_storage
from convmemory.documents.structure import path_at


class Document(Trashable):
    """An uploaded file and the text read from it.

    While a new version is being read, `next_file` and `next_name` belong to it, and all other fields to the version
    that is shown and searched. `version` grows whenever a section changes.
    """

    class Status(models.TextChoices):
        UPLOADED = "uploaded", _("waiting")
        PROCESSING = "processing", _("being read")
        READY = "ready", _("ready")
        FAILED = "failed", _("failed")

    class Failure(models.TextChoices):
        ENCRYPTED = "encrypted"
        BROKEN = "broken"
        NO_TEXT = "no_text"
        EMPTY = "empty"
        UNKNOWN = "unknown"
        TOO_LARGE = "too_large"
        TIME = "time"
        MEMORY = "memory"
        INTERRUPTED = "interrupted"
        INTERNAL = "internal"

    archive = models.ForeignKey(
        "accounts.Archive", db_column="owner_id", on_delete=models.CASCADE, related_name="documents", db_index=False
    )
    name = models.CharField(max_length=255, help_text="The name that the file came with.")
    title = models.CharField(max_length=300, blank=True, default="")
    format = models.CharField(max_length=20, blank=True, default="")
    size = models.PositiveBigIntegerField(help_text="Bytes of the file.")
    digest = models.CharField(max_length=64, help_text="SHA-256 of the file.")
    file = models.FileField(storage=document_storage, max_length=200)
    next_file = models.FileField(storage=document_storage, max_length=200, blank=True, default="")
    next_name = models.CharField(max_length=255, blank=True, default="")
    status = models.CharField(max_length=10, choices=Status, default=Status.UPLOADED)
    failure = models.CharField(max_length=20, choices=Failure, blank=True, default="")
    error = models.TextField(blank=True, default="", help_text="Why the last version cannot be read, and what to do.")
    notes = models.JSONField(default=list, blank=True)
    coverage = models.JSONField(
        default=list, db_default=[], blank=True, help_text="Parts by kind: how many were read, of how many."
    )
    folder = models.CharField(max_length=200, blank=True, default="", db_default="")
    tags = models.JSONField(default=list, db_default=[], blank=True)
    page_count = models.PositiveIntegerField(null=True, blank=True)
    char_count = models.PositiveIntegerField(default=0)
    section_count = models.PositiveIntegerField(default=0)
    version = models.PositiveBigIntegerField(default=0)
    stored_bytes = models.BigIntegerField(
        null=True, default=0, help_text="Of its file and its sections; null: not counted yet."
    )
    added_by = models.IntegerField(null=True, help_text="The person who added it to a space, or its last version.")
    attempts = models.PositiveSmallIntegerField(default=0)
    created_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField(auto_now=True)
    conversations = models.ManyToManyField(Conversation, through="ConversationDocument", related_name="+")

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["archive", "digest"], name="document_digest_unique"),
            models.CheckConstraint(
                condition=Q(status__in=["uploaded", "processing", "ready", "failed"]), name="document_status"
            ),
        ]
        indexes = [
            models.Index(fields=["archive", "-id"], name="document_owner"),
            models.Index(
                fields=["archive", "-trashed_at"], condition=Q(trashed_at__isnull=False), name="document_trash"
            ),
            models.Index(fields=["id"], condition=Q(status__in=["uploaded", "processing"]), name="document_unfinished"),
        ]

    def __str__(self) -> str:
        return f"document {self.pk}"  # without the name: the admin prints this for staff, who may not read names

    def get_absolute_url(self) -> str:
        return f"/documents/{self.pk}"

    @property
    def is_unfinished(self) -> bool:
        return self.status in (self.Status.UPLOADED, self.Status.PROCESSING)

    @property
    def parts_read(self) -> list[str]:
        """Return for each kind of part how many were read: "1 of 2 pages"."""
        return [
            _("%(read)s of %(total)s %(parts)s") % {**row, "parts": plural_of(row["part"], row["total"])}
            for row in self.coverage
        ]

    @property
    def sections(self) -> "models.QuerySet[Section]":
        """Return its sections, looked up by owner and document."""
        return Section.objects.filter(archive_id=self.archive_id, document_id=self.pk)


class Section(models.Model):
    """A part of a document's text.

    `start` counts characters of that text, `path` lists the headings down to its own.
    """

    archive = models.ForeignKey(
        "accounts.Archive", db_column="owner_id", on_delete=models.CASCADE, related_name="+", db_index=False
    )
    document = models.ForeignKey(Document, on_delete=models.CASCADE, related_name="+", db_index=False)
    number = models.PositiveIntegerField()
    path = models.JSONField(default=list)
    page = models.PositiveIntegerField(null=True, blank=True)
    start = models.PositiveIntegerField()
    text = models.TextField()
    headings = models.JSONField(
        default=list, db_default=[], blank=True, help_text="Of sections joined to it: where each begins, and its path."
    )

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["document", "number", "archive"], name="section_number_unique", deferrable=Deferrable.DEFERRED
            ),
        ]

    def __str__(self) -> str:
        return f"section {self.number + 1} of document {self.document_id}"

    @property
    def end(self) -> int:
        return self.start + len(self.text)

    def path_at(self, offset: int) -> tuple[str, ...]:
        """Return the headings down to the one above a character of its text."""
        return path_at(tuple(self.path), self.headings, offset)

    @property
    def heading(self) -> str:
        """Return its own heading; "" above the first one."""
        return str(self.path[-1]) if self.path else ""


class ConversationDocument(models.Model):
    """A document attached to a conversation, in which only attached documents are searched."""

    archive = models.ForeignKey(
        "accounts.Archive", db_column="owner_id", on_delete=models.CASCADE, related_name="+", db_index=False
    )
    conversation = models.ForeignKey(Conversation, on_delete=models.CASCADE, related_name="+", db_index=False)
    document = models.ForeignKey(Document, on_delete=models.CASCADE, related_name="+")

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["conversation", "document", "archive"], name="conversation_document_unique")
        ]
        indexes = [models.Index(fields=["archive", "conversation"], name="conversation_document_owner")]

    def __str__(self) -> str:
        return f"document {self.document_id} of conversation {self.conversation_id}"
