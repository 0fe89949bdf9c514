"""Conversations, their messages, the raw source of each message, and agents' event logs.

Rows are written by `ingest.py` alone. Lengths are cut there, never here.
"""

from typing import Any

from django.conf import settings
from django.db import models
from django.db.models import Deferrable, F, Q

from convmemory.conversations.parts import Part, part_from_json


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
        ]

    def __str__(self) -> str:
        return f"conversation {self.pk}"  # no title: the admin prints this for staff, who may not read it

    def get_absolute_url(self) -> str:
        return f"/conversations/{self.pk}"

    @property
    def messages(self) -> "models.QuerySet[Message]":
        """Its messages, looked up by owner and conversation."""
        return Message.objects.filter(owner_id=self.owner_id, conversation_id=self.pk)


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


class MessageSource(models.Model):
    """The raw source lines of an imported message, zlib-compressed: nothing is lost."""

    message = models.OneToOneField(Message, on_delete=models.CASCADE, primary_key=True, related_name="source")
    owner = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+")
    data = models.BinaryField()

    def __str__(self) -> str:
        return f"source of message {self.message_id}"


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

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["owner", "conversation", "line_number"], name="event_line_unique"),
        ]
        indexes = [
            models.Index(fields=["owner", "type"], name="event_owner_type"),
            models.Index(fields=["owner", "tool"], condition=~Q(tool=""), name="event_owner_tool"),
        ]

    def __str__(self) -> str:
        return f"{self.type} in conversation {self.conversation_id}"
