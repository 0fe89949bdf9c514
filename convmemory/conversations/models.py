"""Conversations, their messages, the raw source of each message, agents' event logs, and imports.

Rows are written by `ingest.py` and `responses.py`, those of imports by `imports.py` and `import_queue.py`. Lengths are
cut there, never here.
"""

from typing import Any

from django.conf import settings
from django.contrib.postgres.indexes import GinIndex
from django.contrib.postgres.search import SearchVectorField
from django.db import models
from django.db.models import Deferrable, F, Q
from django.utils.translation import gettext_lazy as _

from convmemory.conversations.import_storage import kept_storage, upload_storage
from convmemory.conversations.parts import Part, content_metadata, part_from_json
from convmemory.core.fields import OwnedWords


class Conversation(models.Model):
    """One thread of messages with one owner."""

    class Status(models.TextChoices):
        IDLE = "idle"
        PROCESSING = "processing"
        FAILED = "failed"

    owner = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="conversations")
    title = models.CharField(max_length=300, blank=True, default="")
    agent = models.CharField(max_length=100, blank=True, default="")
    project = models.CharField(max_length=300, blank=True, default="")
    source = models.CharField(max_length=50, default="api")
    source_id = models.CharField(max_length=300, blank=True, default="")
    parent = models.ForeignKey("self", on_delete=models.SET_NULL, null=True, blank=True, related_name="children")
    parent_source_id = models.CharField(max_length=300, blank=True, default="")
    status = models.CharField(max_length=10, choices=Status, default=Status.IDLE)
    processing_until = models.DateTimeField(null=True, blank=True)
    created_at = models.DateTimeField()
    updated_at = models.DateTimeField()
    archived_at = models.DateTimeField(null=True, blank=True)
    starred_at = models.DateTimeField(null=True, blank=True)
    pinned_at = models.DateTimeField(null=True, blank=True, help_text="Stands on top of the library.")
    message_count = models.PositiveIntegerField(default=0)
    turn_count = models.PositiveIntegerField(default=0)
    turns_version = models.PositiveBigIntegerField(default=0, help_text="Grows whenever any turn changes.")

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["owner", "source", "source_id"],
                condition=~Q(source_id=""),
                name="conversation_source_unique",
            ),
            models.CheckConstraint(
                condition=Q(status__in=["idle", "processing", "failed"]), name="conversation_status"
            ),
            models.CheckConstraint(condition=~Q(parent=F("id")), name="conversation_not_own_parent"),
        ]
        indexes = [
            models.Index(fields=["owner", "-updated_at", "-id"], name="conversation_recent"),
            models.Index(
                fields=["owner", "-starred_at"], condition=Q(starred_at__isnull=False), name="conversation_star"
            ),
            models.Index(fields=["owner", "-pinned_at"], condition=Q(pinned_at__isnull=False), name="conversation_pin"),
        ]

    def __str__(self) -> str:
        return f"conversation {self.pk}"  # no title: the admin prints this for staff, who may not read it

    def get_absolute_url(self) -> str:
        return f"/conversations/{self.pk}"

    @property
    def messages(self) -> "models.QuerySet[Message]":
        """Its messages, looked up by owner and conversation."""
        return Message.objects.filter(owner_id=self.owner_id, conversation_id=self.pk)


class Tag(models.Model):
    """A word that its owner put on a conversation; one row a conversation and word."""

    owner = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+", db_index=False)
    conversation = models.ForeignKey(Conversation, on_delete=models.CASCADE, related_name="tags")
    name = models.CharField(max_length=50)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["owner", "name", "conversation"], name="tag_once_a_conversation"),
        ]

    def __str__(self) -> str:
        return f"tag {self.pk}"  # no name: it is the owner's own text


class Figures(models.Model):
    """Statistics of one conversation, as of this version and length.

    `days` holds messages and characters by day ("2026-05-01": [12, 3400]), `spoken_by` messages by model, `tools` calls
    by name.
    """

    owner = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+", db_index=False)
    conversation = models.ForeignKey(Conversation, on_delete=models.CASCADE, related_name="figures")
    turns_version = models.PositiveBigIntegerField()
    message_count = models.PositiveIntegerField()
    days = models.JSONField(default=dict)
    tools = models.JSONField(default=dict)
    spoken_by = models.JSONField(default=dict, db_column="models")

    class Meta:
        verbose_name_plural = "figures"
        constraints = [
            models.UniqueConstraint(fields=["owner", "conversation"], name="figures_once_a_conversation"),
        ]

    def __str__(self) -> str:
        return f"figures of conversation {self.conversation_id}"


class Message(models.Model):
    """One message of a conversation; `turn_number` is null until its turn is complete."""

    class Role(models.TextChoices):
        USER = "user"
        ASSISTANT = "assistant"
        TOOL = "tool"
        SYSTEM = "system"

    owner = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+", db_index=False)
    conversation = models.ForeignKey(Conversation, on_delete=models.CASCADE, related_name="+")
    position = models.PositiveIntegerField()
    role = models.CharField(max_length=10, choices=Role)
    is_real_user = models.BooleanField(default=False, help_text="A person wrote this: it can open a turn.")
    superseded = models.BooleanField(
        default=False, db_default=False, help_text="Its thread went on without it: it belongs to no turn."
    )
    name = models.CharField(max_length=200, blank=True, default="")
    model = models.CharField(max_length=200, blank=True, default="")
    parts = models.JSONField(default=list)
    turn_number = models.PositiveIntegerField(null=True, blank=True)
    source_key = models.CharField(max_length=200, blank=True, default="")
    content_hash = models.BinaryField(max_length=32)
    created_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["owner", "conversation", "position"],
                name="message_position_unique",
                deferrable=Deferrable.DEFERRED,
            ),
            models.UniqueConstraint(
                fields=["owner", "conversation", "source_key"],
                condition=~Q(source_key=""),
                name="message_source_key_unique",
            ),
            models.CheckConstraint(condition=Q(role__in=["user", "assistant", "tool", "system"]), name="message_role"),
            models.CheckConstraint(condition=Q(is_real_user=False) | Q(role="user"), name="message_real_user_role"),
        ]
        indexes = [
            models.Index(fields=["owner", "conversation", "turn_number"], name="message_turn"),
        ]

    def __str__(self) -> str:
        return f"{self.role} {self.position} of conversation {self.conversation_id}"

    @property
    def typed_parts(self) -> tuple[Part, ...]:
        parts: list[dict[str, Any]] = self.parts
        return tuple(part_from_json(part) for part in parts)

    @property
    def content_metadata(self) -> dict[str, Any]:
        """The kinds of its parts and their lengths, without their content."""
        return content_metadata(self.typed_parts)


class MessageSource(models.Model):
    """The raw source lines of an imported message, zlib-compressed: nothing is lost."""

    message = models.OneToOneField(Message, on_delete=models.CASCADE, primary_key=True, related_name="source")
    owner = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+")
    data = models.BinaryField()

    def __str__(self) -> str:
        return f"source of message {self.message_id}"


class HiddenKey(models.Model):
    """A key, token or password whose mark is in a message; only its owner can see it."""

    owner = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+", db_index=False)
    message = models.ForeignKey(Message, on_delete=models.CASCADE, related_name="hidden_keys")
    number = models.PositiveIntegerField(help_text="Of the mark in the message, from 1.")
    kind = models.CharField(max_length=40)
    value_encrypted = models.TextField()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["owner", "message", "number"], name="hidden_key_number_unique"),
        ]

    def __str__(self) -> str:
        return f"{self.kind} {self.number} of message {self.message_id}"


class Event(models.Model):
    """One entry of an agent's event log, for structured search; never embedded."""

    owner = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+", db_index=False)
    conversation = models.ForeignKey(Conversation, on_delete=models.CASCADE, related_name="events")
    line_number = models.PositiveIntegerField()
    type = models.CharField(max_length=100)
    level = models.CharField(max_length=20, blank=True, default="")
    tool = models.CharField(max_length=100, blank=True, default="")
    turn_number = models.PositiveIntegerField(null=True, blank=True)
    created_at = models.DateTimeField(null=True, blank=True)
    payload = models.JSONField(default=dict)
    words = SearchVectorField(null=True, help_text="Of all its fields: see event_words.py.")

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["owner", "conversation", "line_number"], name="event_line_unique"),
        ]
        indexes = [
            models.Index(fields=["owner", "type"], name="event_owner_type"),
            models.Index(fields=["owner", "tool"], condition=~Q(tool=""), name="event_owner_tool"),
            GinIndex(OwnedWords("words"), name="event_owned_words", fastupdate=False),
        ]

    def __str__(self) -> str:
        return f"{self.type} in conversation {self.conversation_id}"


class SyncedFile(models.Model):
    """The state of an agent's file on this machine when it was last imported; `syncing.py` compares it."""

    owner = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+", db_index=False)
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
        constraints = [models.UniqueConstraint(fields=["owner", "path"], name="synced_file_unique")]

    def __str__(self) -> str:
        return f"synced file {self.pk}"


class KeptUpload(models.Model):
    """The bytes of an upload, encrypted, for a later import by a better importer; deleted with its conversations.

    `file` is named after the digest of the encrypted bytes; `stored_size` is 0 until it is complete.
    """

    owner = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+", db_index=False)
    digest = models.CharField(max_length=64, help_text="SHA-256 of the upload.")
    name = models.CharField(max_length=255)
    format = models.CharField(max_length=30)
    file = models.FileField(storage=kept_storage, max_length=200, blank=True, default="")
    stored_size = models.PositiveBigIntegerField(default=0, help_text="Bytes on the disk.")
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["owner", "digest"], name="kept_upload_unique")]

    def __str__(self) -> str:
        return f"kept upload {self.pk}"


class KeptConversation(models.Model):
    """Records that a kept upload contains a conversation: deleting the conversation deletes the upload."""

    owner = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+", db_index=False)
    upload = models.ForeignKey(KeptUpload, on_delete=models.CASCADE, related_name="holds")
    conversation = models.ForeignKey(Conversation, on_delete=models.CASCADE, related_name="+")

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["owner", "conversation", "upload"], name="kept_conversation_unique"),
        ]

    def __str__(self) -> str:
        return f"conversation {self.conversation_id} in kept upload {self.upload_id}"


class Import(models.Model):
    """An uploaded file, the progress of its import, and the outcome.

    `run` names the worker's claim, which is valid until `lease_until`; a worker that lost it stores nothing here.
    `file` is empty once the import has ended. `report` comes from `ImportReport.to_stored_json`.
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

    owner = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="imports", db_index=False
    )
    name = models.CharField(max_length=255)
    format = models.CharField(max_length=30)
    size = models.PositiveBigIntegerField(help_text="Bytes of the uploaded file; 0 where a command imported.")
    digest = models.CharField(max_length=64, blank=True, default="", help_text="SHA-256 of the uploaded file.")
    kept = models.ForeignKey(KeptUpload, on_delete=models.SET_NULL, null=True, blank=True, related_name="+")
    file = models.FileField(storage=upload_storage, blank=True, default="")
    state = models.CharField(max_length=10, choices=State, default=State.QUEUED)
    failure = models.CharField(max_length=20, choices=Failure, blank=True, default="")
    error = models.TextField(blank=True, default="")
    report = models.JSONField(null=True, blank=True)
    files_read = models.PositiveIntegerField(default=0)
    messages_read = models.PositiveIntegerField(default=0)
    attempts = models.PositiveSmallIntegerField(default=0)
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
            models.UniqueConstraint(fields=["owner"], condition=Q(state="running"), name="import_one_running"),
        ]
        indexes = [
            models.Index(fields=["owner", "-id"], name="import_owner"),
            models.Index(fields=["owner", "digest"], condition=~Q(digest=""), name="import_digest"),
            models.Index(fields=["id"], condition=Q(state__in=["queued", "running"]), name="import_unfinished"),
        ]

    def __str__(self) -> str:
        return f"import {self.pk}"  # no name: the admin prints this for staff, who may not read it

    @property
    def is_unfinished(self) -> bool:
        return self.state in (self.State.QUEUED, self.State.RUNNING)

    @property
    def changes(self) -> bool:
        """Whether a worker is about to change what it says."""
        return self.is_unfinished or self.state == self.State.UNDOING


class ImportedConversation(models.Model):
    """What one file of an import added to one conversation: the range of ids of its messages.

    `created` is set if the import created the conversation. Deleted with its import, so that an import can be undone
    for as long as it is listed.
    """

    owner = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+", db_index=False)
    import_job = models.ForeignKey(Import, on_delete=models.CASCADE, related_name="found", db_index=False)
    conversation = models.ForeignKey(Conversation, on_delete=models.CASCADE, related_name="+")
    file = models.CharField(max_length=500)
    created = models.BooleanField()
    first_message = models.BigIntegerField(null=True, blank=True)
    last_message = models.BigIntegerField(null=True, blank=True)

    class Meta:
        indexes = [
            models.Index(fields=["owner", "import_job", "id"], name="imported_conversation"),
            models.Index(fields=["import_job"], name="imported_conversation_job"),
        ]

    def __str__(self) -> str:
        return f"conversation {self.conversation_id} of import {self.import_job_id}"
