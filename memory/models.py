"""What is embedded of messages: a status record each, their passages with vectors, and the token vectors beside them.

Every row is derived from messages and can be made again; every row carries its owner.
"""

from django.conf import settings
from django.db import models
from django.db.models import Q
from pgvector.django import HalfVectorField

from convmemory.conversations.models import Conversation, Message
from convmemory.embeddings.models import EmbeddingSpace


class MessageEmbedding(models.Model):
    """How far one message is embedded in one space; its vectors are those of its passages.

    Only what a person or an assistant said has a record. `content_hash` is the message's when it was
    embedded; `updated_at` of a record that is processed tells how long no worker has touched it.
    """

    class Status(models.TextChoices):
        PENDING = "pending"
        PROCESSING = "processing"
        COMPLETED = "completed"
        FAILED = "failed"

    owner = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+", db_index=False)
    conversation = models.ForeignKey(
        Conversation, on_delete=models.CASCADE, related_name="message_embeddings", db_index=False
    )
    message = models.ForeignKey(Message, on_delete=models.CASCADE, related_name="embeddings", db_index=False)
    space = models.ForeignKey(EmbeddingSpace, on_delete=models.CASCADE, related_name="+", db_index=False)
    status = models.CharField(max_length=10, choices=Status, default=Status.PENDING)
    error = models.TextField(blank=True, default="")
    attempts = models.PositiveSmallIntegerField(default=0)
    token_count = models.PositiveIntegerField(default=0)
    role = models.CharField(max_length=10, choices=Message.Role)
    position = models.PositiveIntegerField()
    content_hash = models.BinaryField(max_length=32)
    created_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField(auto_now=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["message", "space"], name="message_embedding_unique"),
            models.CheckConstraint(
                condition=Q(status__in=["pending", "processing", "completed", "failed"]),
                name="message_embedding_status",
            ),
        ]
        indexes = [
            models.Index(fields=["conversation", "space"], name="message_embedding_home"),
            models.Index(
                fields=["status", "updated_at"], condition=~Q(status="completed"), name="message_embedding_open"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.status} embedding of message {self.message_id}"


class Passage(models.Model):
    """One span of one part of a message, embedded with its speaker's name.

    `start` and `end` count characters of the part's text. `content_hash` is the first half of the
    SHA-256 of the embedded text: the table itself is the cache in which an equal text is found again.
    """

    class Kind(models.IntegerChoices):
        USER = 0
        ASSISTANT = 1
        THINKING = 2
        TOOL = 3
        CALL = 4, "Tool call"

    owner = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+", db_index=False)
    conversation = models.ForeignKey(Conversation, on_delete=models.CASCADE, related_name="passages", db_index=False)
    message = models.ForeignKey(Message, on_delete=models.CASCADE, related_name="passages", db_index=False)
    content_hash = models.UUIDField()
    space = models.ForeignKey(EmbeddingSpace, on_delete=models.CASCADE, related_name="+", db_index=False)
    turn_number = models.PositiveIntegerField()
    start = models.PositiveIntegerField()
    end = models.PositiveIntegerField()
    part_index = models.PositiveSmallIntegerField()
    kind = models.PositiveSmallIntegerField(choices=Kind)
    token_count = models.PositiveSmallIntegerField()
    embedding = HalfVectorField()

    class Meta:
        indexes = [
            models.Index(fields=["owner", "space", "kind"], name="passage_owner"),
            models.Index(fields=["conversation", "turn_number"], name="passage_turn"),
            models.Index(fields=["message"], name="passage_message"),
            models.Index(fields=["content_hash"], name="passage_content"),
        ]

    def __str__(self) -> str:
        return f"{self.get_kind_display()} passage {self.pk} of message {self.message_id}"


class PassageTokens(models.Model):
    """The token vectors of one passage, coded by `convmemory.embeddings.token_codes`, for late interaction."""

    passage = models.OneToOneField(Passage, on_delete=models.CASCADE, primary_key=True, related_name="tokens")
    owner = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+")
    vectors = models.BinaryField(help_text="one bit a dimension, token after token")

    def __str__(self) -> str:
        return f"tokens of passage {self.passage_id}"


class SignBlock(models.Model):
    """The signs of the vectors of all passages of some turns of a conversation, packed into one row.

    `number` counts blocks of turns from the conversation's first. `places` holds `memory.signs.PLACE` for each
    passage, `signs` its vector's signs in the same order. A block is never changed but replaced, under another id.
    """

    owner = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+", db_index=False)
    conversation = models.ForeignKey(Conversation, on_delete=models.CASCADE, related_name="+", db_index=False)
    space = models.ForeignKey(EmbeddingSpace, on_delete=models.CASCADE, related_name="+", db_index=False)
    number = models.PositiveIntegerField()
    places = models.BinaryField()
    signs = models.BinaryField()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["conversation", "space", "number"], name="sign_block_unique"),
        ]
        indexes = [models.Index(fields=["owner", "space"], include=["id"], name="sign_block_owner")]

    def __str__(self) -> str:
        return f"signs {self.number} of conversation {self.conversation_id}"
