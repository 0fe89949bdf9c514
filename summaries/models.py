"""Summaries of ranges of a conversation, each with the state of the work on it.

Only `ordering.py` (requests of callers) and `making.py` (workers) write rows.
"""

from typing import Any

from django.db import models
from django.db.models import F, Q
from django.utils.translation import gettext_lazy as _

from convmemory.conversations.models import Conversation


class ConversationSummary(models.Model):
    """One summary of the messages from `from_position` to `to_position`, both included.

    While a summary is regenerated, `content` is the earlier text. `run` is the worker's claim: a worker that lost it
    stores nothing. `partials` are finished pieces of a long range, by content hash.
    """

    class Status(models.TextChoices):
        PENDING = "pending"
        PROCESSING = "processing"
        COMPLETED = "completed"
        FAILED = "failed"

    class Method(models.TextChoices):
        MODEL = "model", _("by a language model")
        EXTRACTIVE = "extractive", _("extract of its own sentences")

    archive = models.ForeignKey(
        "accounts.Archive", db_column="owner_id", on_delete=models.CASCADE, related_name="+", db_index=False
    )
    conversation = models.ForeignKey(Conversation, on_delete=models.CASCADE, related_name="summaries", db_index=False)
    from_position = models.PositiveIntegerField()
    to_position = models.PositiveIntegerField()
    status = models.CharField(max_length=10, choices=Status, default=Status.PENDING)
    error = models.TextField(blank=True, default="")
    content = models.TextField(blank=True, default="")
    method = models.CharField(max_length=10, choices=Method)
    asked_by = models.IntegerField(null=True, help_text="The member who asked for it in a space.")
    model = models.CharField(max_length=200, blank=True, default="")
    prompt_version = models.PositiveSmallIntegerField(null=True, blank=True)
    token_count = models.PositiveIntegerField(default=0)
    partials = models.JSONField(default=dict, blank=True)
    attempts = models.PositiveSmallIntegerField(default=0)
    run = models.UUIDField(null=True, blank=True)
    due_at = models.DateTimeField(help_text="When to begin, try again, or take over from a worker that was lost.")
    created_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField(auto_now=True)
    completed_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        verbose_name_plural = "conversation summaries"
        constraints = [
            models.CheckConstraint(condition=Q(from_position__lte=F("to_position")), name="summary_range"),
            models.CheckConstraint(
                condition=Q(status__in=["pending", "processing", "completed", "failed"]), name="summary_status"
            ),
        ]
        indexes = [
            models.Index(fields=["conversation", "-id"], name="summary_conversation"),
            models.Index(fields=["archive"], name="summary_owner"),
            models.Index(
                fields=["due_at"], condition=Q(status__in=["pending", "processing"]), name="summary_unfinished"
            ),
        ]

    def __str__(self) -> str:
        first, last = self.from_position + 1, self.to_position + 1
        return f"summary of messages {first} to {last} of conversation {self.conversation_id}"

    @property
    def is_unfinished(self) -> bool:
        return self.status in (self.Status.PENDING, self.Status.PROCESSING)

    @property
    def message_count(self) -> int:
        return int(self.to_position) - int(self.from_position) + 1

    @property
    def label(self) -> str:
        """Return how the summary was produced, for display."""
        method: Any = self.Method(self.method).label
        return f"{method} ({self.model})" if self.model and self.method == self.Method.MODEL else str(method)
