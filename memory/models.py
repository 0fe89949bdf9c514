"""Status records of messages that are embedded. The index holds their passages and vectors (`search/models.py`).

Each row carries its owner, is derived from messages and can be rebuilt.
"""

from django.db import models
from django.db.models import Q

from convmemory.conversations.models import Message
from convmemory.embeddings.models import EmbeddingSpace

HASH_BYTES = 16  # of a record


class MessageEmbedding(models.Model):
    """The state of one message's embedding in one space; the vectors belong to its passages.

    Only messages of a user or an assistant have a record. `content_hash` is the first half of the message's when it was
    embedded; `updated_at` of a record in processing says when a worker last touched it.
    """

    class Status(models.TextChoices):
        PENDING = "pending"
        PROCESSING = "processing"
        COMPLETED = "completed"
        FAILED = "failed"

    archive = models.ForeignKey(
        "accounts.Archive", db_column="owner_id", on_delete=models.CASCADE, related_name="+", db_index=False
    )
    message = models.ForeignKey(Message, on_delete=models.CASCADE, related_name="embeddings", db_index=False)
    space = models.ForeignKey(EmbeddingSpace, on_delete=models.CASCADE, related_name="+", db_index=False)
    status = models.CharField(max_length=10, choices=Status, default=Status.PENDING)
    error = models.TextField(blank=True, default="")
    attempts = models.PositiveSmallIntegerField(default=0)
    token_count = models.PositiveIntegerField(default=0)
    content_hash = models.BinaryField(max_length=HASH_BYTES)
    created_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField(auto_now=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["message", "space", "archive"], name="message_embedding_unique"),
            models.CheckConstraint(
                condition=Q(status__in=["pending", "processing", "completed", "failed"]),
                name="message_embedding_status",
            ),
        ]
        indexes = [
            models.Index(
                fields=["status", "updated_at"], condition=~Q(status="completed"), name="message_embedding_open"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.status} embedding of message {self.message_id}"

    @property
    def conversation_id(self) -> int:
        return self.message.conversation_id

    @property
    def role(self) -> str:
        return self.message.role

    @property
    def position(self) -> int:
        return self.message.position
