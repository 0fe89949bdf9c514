"""Conversations, their messages, the raw source of each message, and agents' event logs.

Rows are written by `messages/ingest.py` and `messages/responses.py`. Lengths are cut there, never here. The models of
imports are in `importing/models.py`; Django finds them here.
"""

from typing import Any

from django.contrib.postgres.indexes import GinIndex
from django.contrib.postgres.search import SearchVectorField
from django.db import models
from django.db.models import Deferrable, F, Q

from convmemory.conversations.importing.models import (
    Import,
    ImportedConversation,
    KeptConversation,
    KeptUpload,
    SyncedFile,
)
from convmemory.conversations.messages.parts import Part, content_metadata, part_from_json
from convmemory.core.postgres.fields import OwnedWords
from convmemory.core.trash import Trashable

__all__ = [
    "Conversation", "Event", "Figures", "FileEdit", "HiddenKey", "Import", "ImportedConversation", "KeptConversation",
    "KeptUpload", "Message", "MessageSource", "ProjectRename", "SeparateFolder", "StoredUse", "SyncedFile", "Tag",
    "TurnMark",
]  # fmt: skip


OUTCOME_VERSION = 6  # of what is read from turns, see `write_outcomes` in messages/numbering.py
HAS_OLD_OUTCOMES = Q(outcome_version__isnull=True) | Q(outcome_version__lt=OUTCOME_VERSION)
TITLE_VERSION = 1  # of titles that the program chooses, see messages/titling.py
OWN_TITLE = 0  # the owner's, which nothing replaces
EXTRACTED_TITLE = 2  # made of what a session did, which its owner can undo


def project_name(project: str) -> str:
    """Return the last component of a project's path."""
    return project.replace("\\", "/").rstrip("/").rpartition("/")[2]


class Conversation(Trashable):
    """One thread of messages with one owner."""

    class Status(models.TextChoices):
        IDLE = "idle"
        PROCESSING = "processing"
        FAILED = "failed"

    archive = models.ForeignKey(
        "accounts.Archive", db_column="owner_id", on_delete=models.CASCADE, related_name="conversations", db_index=False
    )
    title = models.CharField(max_length=300, blank=True, default="")
    title_version = models.SmallIntegerField(
        null=True,
        default=TITLE_VERSION,
        help_text="0: chosen by the owner; 2: made of what the session did. Null: of an older version.",
    )
    agent = models.CharField(max_length=100, blank=True, default="")
    project = models.CharField(max_length=300, blank=True, default="")
    repository = models.CharField(
        max_length=300, blank=True, default="", db_default="", help_text="Its normalised remote, or root:COMMIT."
    )
    worktree = models.CharField(
        max_length=300, blank=True, default="", db_default="", help_text="The worktree of `project` in which it ran."
    )
    source = models.CharField(max_length=50, default="api")
    source_id = models.CharField(max_length=300, blank=True, default="")
    parent = models.ForeignKey(
        "self", on_delete=models.SET_NULL, null=True, blank=True, related_name="children", db_index=False
    )
    parent_source_id = models.CharField(max_length=300, blank=True, default="")
    continued_in = models.CharField(
        max_length=300, blank=True, default="", help_text="The source id of the session in which it goes on."
    )
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
    stored_bytes = models.BigIntegerField(null=True, default=0, help_text="Null: not counted yet.")
    outcome_version = models.SmallIntegerField(
        null=True,
        default=OUTCOME_VERSION,
        help_text="Null: an older version stored its turns, without outcomes; 1: without edits of files; 2: without "
        "a title made of what the session did; 3: with conclusions from the last text alone; 4: without usages; "
        "5: with conclusions whose names lack underscores.",
    )
    additions = models.JSONField(
        default=dict, db_default={}, help_text="In a space, what persons added to it, by their numbers: [bytes, turns]."
    )

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["archive", "source", "source_id"],
                condition=~Q(source_id=""),
                name="conversation_source_unique",
            ),
            models.CheckConstraint(
                condition=Q(status__in=["idle", "processing", "failed"]), name="conversation_status"
            ),
            models.CheckConstraint(condition=~Q(parent=F("id")), name="conversation_not_own_parent"),
        ]
        indexes = [
            models.Index(fields=["archive", "-updated_at", "-id"], name="conversation_recent"),
            models.Index(
                fields=["archive", "-starred_at"], condition=Q(starred_at__isnull=False), name="conversation_star"
            ),
            models.Index(
                fields=["archive", "-pinned_at"], condition=Q(pinned_at__isnull=False), name="conversation_pin"
            ),
            models.Index(
                fields=["archive", "-trashed_at"], condition=Q(trashed_at__isnull=False), name="conversation_trash"
            ),
            models.Index(fields=["parent"], condition=Q(parent__isnull=False), name="conversation_parent"),
            models.Index(fields=["id"], condition=Q(stored_bytes__isnull=True), name="conversation_uncounted"),
            models.Index(fields=["id"], condition=HAS_OLD_OUTCOMES, name="conversation_old_outcomes"),
        ]

    def __str__(self) -> str:
        return f"conversation {self.pk}"  # no title: the admin shows this, and staff may not read titles

    def get_absolute_url(self) -> str:
        return f"/conversations/{self.pk}"

    @property
    def project_name(self) -> str:
        return project_name(self.project)

    @property
    def last_turn(self) -> int | None:
        """Return the number of the last turn; None without turns."""
        return self.turn_count - 1 if self.turn_count else None

    @property
    def messages(self) -> "models.QuerySet[Message]":
        """The conversation's messages, looked up by owner and conversation."""
        return Message.objects.filter(archive_id=self.archive_id, conversation_id=self.pk)


class StoredUse(models.Model):
    """The amounts that an archive stores, with the trash, and in the row of a person's own what the person added to
    spaces, which counts for the person, too. Written only by `messages/storage_quota.py`.
    """

    archive = models.ForeignKey(
        "accounts.Archive", db_column="owner_id", on_delete=models.CASCADE, related_name="+", db_index=False
    )
    stored_bytes = models.BigIntegerField(default=0)
    # The database's defaults serve processes of an earlier version, which do not name the columns.
    turns = models.BigIntegerField(default=0, db_default=0)
    documents = models.BigIntegerField(default=0, db_default=0)
    added_bytes = models.BigIntegerField("bytes added to spaces", default=0, db_default=0)
    added_turns = models.BigIntegerField("turns added to spaces", default=0, db_default=0)
    added_documents = models.BigIntegerField("documents added to spaces", default=0, db_default=0)

    class Meta:
        verbose_name = "use of storage"
        verbose_name_plural = "uses of storage"
        constraints = [models.UniqueConstraint(fields=["archive"], name="stored_use_once_an_owner")]

    def __str__(self) -> str:
        return f"use of storage by user {self.archive_id}"


class Tag(models.Model):
    """A word that its owner put on a conversation; one row per conversation and word."""

    archive = models.ForeignKey(
        "accounts.Archive", db_column="owner_id", on_delete=models.CASCADE, related_name="+", db_index=False
    )
    conversation = models.ForeignKey(Conversation, on_delete=models.CASCADE, related_name="tags")
    name = models.CharField(max_length=50)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["archive", "name", "conversation"], name="tag_once_a_conversation"),
        ]

    def __str__(self) -> str:
        return f"tag {self.pk}"  # no name: it is the owner's own text


class ProjectRename(models.Model):
    """A project that its owner renamed or merged; later imports follow it, and `conversation_ids` undo it."""

    archive = models.ForeignKey("accounts.Archive", db_column="owner_id", on_delete=models.CASCADE, related_name="+")
    old = models.CharField(max_length=300)
    new = models.CharField(max_length=300)
    merged = models.BooleanField(help_text="There was a project of the new name.")
    conversation_ids = models.JSONField(default=list)
    created_at = models.DateTimeField(auto_now_add=True)

    def __str__(self) -> str:
        return f"renaming {self.pk}"  # no names: they are the owner's own text


class SeparateFolder(models.Model):
    """A folder that its owner keeps apart from the other folders of its repository; or each of its worktrees."""

    archive = models.ForeignKey(
        "accounts.Archive", db_column="owner_id", on_delete=models.CASCADE, related_name="+", db_index=False
    )
    folder = models.CharField(max_length=300)
    each_worktree = models.BooleanField(default=False, help_text="Not the folder, but each of its worktrees.")

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["archive", "folder", "each_worktree"], name="separate_folder_once"),
        ]

    def __str__(self) -> str:
        return f"separate folder {self.pk}"  # no path: it is the owner's own text


class Figures(models.Model):
    """Statistics of one conversation, as of this version and length.

    `days` holds messages and characters by day ("2026-05-01": [12, 3400]), `hours` messages by weekday and hour
    ("1-09": from nine to ten on Mondays), `tools` calls by name. `spoken_by` holds by model and month ("2026-05") the
    answers, those whose usage is reported, and their tokens: input, output, cached input. `points` are the newest turns
    that decide otherwise or were overturned. `hours` and `points` are null until they are counted.
    """

    archive = models.ForeignKey(
        "accounts.Archive", db_column="owner_id", on_delete=models.CASCADE, related_name="+", db_index=False
    )
    conversation = models.ForeignKey(Conversation, on_delete=models.CASCADE, related_name="figures")
    turns_version = models.PositiveBigIntegerField()
    message_count = models.PositiveIntegerField()
    days = models.JSONField(default=dict)
    tools = models.JSONField(default=dict)
    hours = models.JSONField(null=True, help_text="Null: to be counted again.")
    spoken_by = models.JSONField(default=dict, db_column="models")
    points = models.JSONField(null=True)

    class Meta:
        verbose_name_plural = "figures"
        constraints = [
            models.UniqueConstraint(fields=["archive", "conversation"], name="figures_once_a_conversation"),
        ]
        indexes = [
            models.Index(fields=["archive"], condition=Q(points__0__isnull=False), name="figures_with_points"),
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

    class Contents(models.IntegerChoices):
        CODE = 1
        IMAGE = 2
        LINK = 4

    archive = models.ForeignKey(
        "accounts.Archive", db_column="owner_id", on_delete=models.CASCADE, related_name="+", db_index=False
    )
    conversation = models.ForeignKey(Conversation, on_delete=models.CASCADE, related_name="+", db_index=False)
    position = models.PositiveIntegerField()
    role = models.CharField(max_length=10, choices=Role)
    is_real_user = models.BooleanField(default=False, help_text="A person wrote this: it can open a turn.")
    superseded = models.BooleanField(
        default=False, db_default=False, help_text="Its thread went on without it: it belongs to no turn."
    )
    name = models.CharField(max_length=200, blank=True, default="")
    model = models.CharField(max_length=200, blank=True, default="")
    parts = models.JSONField(default=list)
    # A sum of `Contents`.
    contents = models.GeneratedField(
        db_persist=True,
        expression=models.Func(F("parts"), function="convmemory_contents"),
        output_field=models.SmallIntegerField(),
    )
    turn_number = models.PositiveIntegerField(null=True, blank=True)
    outcome = models.JSONField(null=True, help_text="Of the turn that it opens: see messages/outcomes.py.")
    usage = models.JSONField(null=True, help_text="Of the request that it answers: see messages/usage.py.")
    source_key = models.CharField(max_length=200, blank=True, default="")
    content_hash = models.BinaryField(max_length=32)
    created_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["archive", "conversation", "position"],
                name="message_position_unique",
                # Messages change places within a transaction.
                deferrable=Deferrable.DEFERRED,
            ),
            models.UniqueConstraint(
                fields=["archive", "conversation", "source_key"],
                condition=~Q(source_key=""),
                name="message_source_key_unique",
            ),
            models.CheckConstraint(condition=Q(role__in=["user", "assistant", "tool", "system"]), name="message_role"),
            models.CheckConstraint(condition=Q(is_real_user=False) | Q(role="user"), name="message_real_user_role"),
        ]
        indexes = [
            # The conversation first, so that messages are also found by it alone.
            models.Index(fields=["conversation", "archive", "turn_number"], name="message_turn"),
            models.Index(
                fields=["archive", "contents", "conversation"], condition=Q(contents__gt=0), name="message_contents"
            ),
            models.Index(fields=["archive", "model", "conversation"], condition=Q(model__gt=""), name="message_model"),
        ]

    def __str__(self) -> str:
        return f"{self.role} {self.position} of conversation {self.conversation_id}"

    @property
    def typed_parts(self) -> tuple[Part, ...]:
        parts: list[dict[str, Any]] = self.parts
        return tuple(part_from_json(part) for part in parts)

    @property
    def content_metadata(self) -> dict[str, Any]:
        """The kinds of the message's parts and their lengths, without their content."""
        return content_metadata(self.typed_parts)


class MessageSource(models.Model):
    """The raw source lines of an imported message, zlib-compressed, so that nothing is lost."""

    message = models.OneToOneField(Message, on_delete=models.CASCADE, primary_key=True, related_name="source")
    archive = models.ForeignKey("accounts.Archive", db_column="owner_id", on_delete=models.CASCADE, related_name="+")
    data = models.BinaryField()

    def __str__(self) -> str:
        return f"source of message {self.message_id}"


class FileEdit(models.Model):
    """A part of a message that edits a file: the text that it removes and adds is in the part.

    `path` is the file's as seen from the project's folder; outside of it, as the call names it.
    """

    archive = models.ForeignKey(
        "accounts.Archive", db_column="owner_id", on_delete=models.CASCADE, related_name="+", db_index=False
    )
    conversation = models.ForeignKey(Conversation, on_delete=models.CASCADE, related_name="+")
    message = models.ForeignKey(Message, on_delete=models.CASCADE, related_name="+")
    part = models.PositiveIntegerField()
    turn_number = models.PositiveIntegerField()
    path = models.TextField()
    name = models.TextField(help_text="The last part of the path.")
    created_at = models.DateTimeField()

    class Meta:
        indexes = [models.Index(fields=["archive", "name"], name="file_edit_name")]

    def __str__(self) -> str:
        return f"edit in message {self.message_id}"  # no path: it is the owner's own text


class TurnMark(models.Model):
    """A turn that its owner marked; `message` opened it then, so that the mark follows when turns are renumbered."""

    class Kind(models.TextChoices):
        WRONG = "wrong"
        OUTDATED = "outdated"

    message = models.OneToOneField(Message, on_delete=models.CASCADE, primary_key=True, related_name="+")
    archive = models.ForeignKey("accounts.Archive", db_column="owner_id", on_delete=models.CASCADE, related_name="+")
    kind = models.CharField(max_length=10, choices=Kind)
    note = models.CharField(max_length=300, blank=True, default="")
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [models.CheckConstraint(condition=Q(kind__in=["wrong", "outdated"]), name="turn_mark_kind")]

    def __str__(self) -> str:
        return f"mark of message {self.message_id}"  # no note: it is the owner's own text


class HiddenKey(models.Model):
    """A key, token or password whose mark is in a message; only its owner can see it."""

    archive = models.ForeignKey(
        "accounts.Archive", db_column="owner_id", on_delete=models.CASCADE, related_name="+", db_index=False
    )
    message = models.ForeignKey(Message, on_delete=models.CASCADE, related_name="hidden_keys")
    number = models.PositiveIntegerField(help_text="Of the mark in the message, from 1.")
    kind = models.CharField(max_length=40)
    value_encrypted = models.TextField()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["archive", "message", "number"], name="hidden_key_number_unique"),
        ]

    def __str__(self) -> str:
        return f"{self.kind} {self.number} of message {self.message_id}"


class Event(models.Model):
    """One entry of an agent's event log, for structured search; never embedded."""

    archive = models.ForeignKey(
        "accounts.Archive", db_column="owner_id", on_delete=models.CASCADE, related_name="+", db_index=False
    )
    conversation = models.ForeignKey(Conversation, on_delete=models.CASCADE, related_name="events")
    line_number = models.PositiveIntegerField()
    type = models.CharField(max_length=100)
    level = models.CharField(max_length=20, blank=True, default="")
    tool = models.CharField(max_length=100, blank=True, default="")
    turn_number = models.PositiveIntegerField(null=True, blank=True)
    created_at = models.DateTimeField(null=True, blank=True)
    payload = models.JSONField(default=dict)
    words = SearchVectorField(null=True, help_text="Of all its fields: see messages/drafts.py.")

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["archive", "conversation", "line_number"], name="event_line_unique"),
        ]
        indexes = [
            models.Index(fields=["archive", "type"], name="event_owner_type"),
            models.Index(fields=["archive", "tool"], condition=~Q(tool=""), name="event_owner_tool"),
            GinIndex(OwnedWords("words"), name="event_owned_words", fastupdate=False),
        ]

    def __str__(self) -> str:
        return f"{self.type} in conversation {self.conversation_id}"
