"""Passages: sentence-sized spans of messages with their vectors, and the token vectors beside them.

Every row is derived from messages and can be made again; every row carries its owner.
"""

from django.conf import settings
from django.db import models
from pgvector.django import HalfVectorField

from convmemory.conversations.models import Conversation, Message
from convmemory.embeddings.models import EmbeddingSpace
from memory.fields import signs_of


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
    signs = signs_of("embedding")

    class Meta:
        indexes = [
            # Covers the scan over an owner's signs, which then reads no row of the table.
            models.Index(
                fields=["owner", "space"],
                include=["kind", "conversation", "turn_number", "id", "signs"],
                name="passage_owner_signs",
            ),
            models.Index(fields=["conversation", "turn_number"], name="passage_turn"),
            models.Index(fields=["message"], name="passage_message"),
            models.Index(fields=["content_hash"], name="passage_content"),
        ]

    def __str__(self) -> str:
        return f"{self.get_kind_display()} passage {self.pk} of message {self.message_id}"


class PassageTokens(models.Model):
    """The token vectors of one passage, coded by `convmemory.embeddings.token_codes`, for late interaction."""

    passage = models.OneToOneField(Passage, on_delete=models.CASCADE, primary_key=True, related_name="tokens")
    vectors = models.BinaryField(help_text="one bit a dimension, token after token")

    def __str__(self) -> str:
        return f"tokens of passage {self.passage_id}"
