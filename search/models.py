"""What search keeps of each turn: its lexical document, its vectors and its passages; and how far indexing has come.

Every row is derived from messages and can be made again; every row carries its owner.
"""

from django.conf import settings
from django.contrib.postgres.indexes import GinIndex
from django.contrib.postgres.search import SearchVectorField
from django.db import models
from django.db.models import Q
from pgvector.django import HalfVectorField

from convmemory.conversations.models import Conversation, Message
from convmemory.embeddings.models import EmbeddingSpace
from search.fields import OwnedWords, signs_of


class TurnDocument(models.Model):
    """The lexical document of one turn, and what a hit shows of it.

    The weights name who said it: in `spoken` A user, B assistant and tool calls; in `unspoken` C thinking,
    D tool calls and output. Two columns, because most searches read only what was spoken.
    """

    owner = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+", db_index=False)
    conversation = models.ForeignKey(
        Conversation, on_delete=models.CASCADE, related_name="turn_documents", db_index=False
    )
    turn_number = models.PositiveIntegerField()
    message_id = models.BigIntegerField(help_text="The real user message that opens the turn.")
    question = models.CharField(max_length=300)
    created_at = models.DateTimeField()
    content_hash = models.BinaryField(max_length=32)
    length = models.PositiveIntegerField(help_text="Words of `spoken`, as full text search counts them.")
    spoken = SearchVectorField()
    unspoken = SearchVectorField()
    error = models.TextField(blank=True, default="", help_text="Why the turn could not be embedded.")

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["conversation", "turn_number"], name="turn_document_unique"),
        ]
        indexes = [
            models.Index(fields=["owner", "id"], name="turn_document_newest"),
            models.Index(fields=["id"], condition=~Q(error=""), name="turn_document_failed"),
            GinIndex(OwnedWords("spoken"), name="turn_document_owned_spoken", fastupdate=False),
            GinIndex(OwnedWords("unspoken"), name="turn_document_owned_unspoken", fastupdate=False),
        ]

    def __str__(self) -> str:
        return f"turn {self.turn_number} of conversation {self.conversation_id}"


class TurnEmbedding(models.Model):
    """The vector of one chunk of a turn in one embedding space; the best chunk of a turn counts."""

    owner = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+", db_index=False)
    conversation = models.ForeignKey(
        Conversation, on_delete=models.CASCADE, related_name="turn_embeddings", db_index=False
    )
    space = models.ForeignKey(EmbeddingSpace, on_delete=models.CASCADE, related_name="+", db_index=False)
    turn_number = models.PositiveIntegerField()
    chunk_number = models.PositiveIntegerField(default=0)
    content_hash = models.BinaryField(max_length=32, help_text="Of the whole turn, not of the chunk.")
    token_count = models.PositiveIntegerField()
    embedding = HalfVectorField()
    signs = signs_of("embedding")
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["conversation", "space", "turn_number", "chunk_number"], name="turn_embedding_unique"
            ),
        ]
        indexes = [
            # Covers the scan over an owner's signs, which then reads no row of the table.
            models.Index(
                fields=["owner", "space"],
                include=["conversation", "turn_number", "id", "signs"],
                name="turn_embedding_owner",
            ),
            models.Index(fields=["owner", "id"], name="turn_embedding_newest"),
            models.Index(fields=["content_hash"], name="turn_embedding_content"),
        ]

    def __str__(self) -> str:
        return f"chunk {self.chunk_number} of turn {self.turn_number} of conversation {self.conversation_id}"


class ConversationIndex(models.Model):
    """How far one conversation is indexed in the active space.

    It is up to date when `indexed_version` equals the conversation's `turns_version`. `dirty_from`
    spares reading turns that did not change; it may be trusted only while `noted_version` shows that
    every change was noted, else every turn's content hash is compared.
    """

    conversation = models.OneToOneField(
        Conversation, on_delete=models.CASCADE, primary_key=True, related_name="index_state"
    )
    owner = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+", db_index=False)
    space = models.ForeignKey(EmbeddingSpace, on_delete=models.SET_NULL, null=True, related_name="+")
    indexed_version = models.PositiveBigIntegerField(default=0)
    noted_version = models.PositiveBigIntegerField(default=0)
    dirty_from = models.PositiveIntegerField(null=True, blank=True)
    last_embedded_turn_number = models.IntegerField(default=-1)
    spoken_length = models.PositiveIntegerField(default=0, help_text="Sum of the lengths of its turn documents.")
    passages = models.PositiveIntegerField(default=0)
    attempts = models.PositiveSmallIntegerField(default=0)
    error = models.TextField(blank=True, default="")
    updated_at = models.DateTimeField(auto_now=True)

    class Meta:
        verbose_name = "index state"
        indexes = [models.Index(fields=["owner"], name="conversation_index_owner")]

    def __str__(self) -> str:
        return f"index of conversation {self.conversation_id}"


class SpaceProgress(models.Model):
    """How far one conversation is embedded in a space that is built beside the active one.

    It is up to date when `indexed_version` equals the conversation's `turns_version`. Only a short cut: the
    rows of the space tell by themselves what is missing. The switch moves it into `ConversationIndex`.
    """

    conversation = models.ForeignKey(Conversation, on_delete=models.CASCADE, related_name="+", db_index=False)
    owner = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+")
    space = models.ForeignKey(EmbeddingSpace, on_delete=models.CASCADE, related_name="+")
    indexed_version = models.PositiveBigIntegerField(default=0)
    turns = models.PositiveIntegerField(default=0, help_text="Turns from the first on that are done.")
    passages = models.PositiveIntegerField(default=0)
    refused = models.JSONField(default=dict, help_text="Why the model took a turn's text not, by turn number.")
    error = models.TextField(blank=True, default="")
    updated_at = models.DateTimeField(auto_now=True)

    class Meta:
        verbose_name_plural = "space progress"
        constraints = [models.UniqueConstraint(fields=["conversation", "space"], name="space_progress_unique")]

    def __str__(self) -> str:
        return f"progress of conversation {self.conversation_id} in space {self.space_id}"


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
        db_table = "memory_passage"
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

    class Meta:
        db_table = "memory_passagetokens"

    def __str__(self) -> str:
        return f"tokens of passage {self.passage_id}"


class SignBlock(models.Model):
    """The signs of the vectors of all passages of some turns of a conversation, packed into one row.

    `number` counts blocks of turns from the conversation's first. `places` holds `search.vectors.codes.PLACE` for each
    passage, `signs` its vector's signs in the same order. A block is never changed but replaced, under another id.
    """

    owner = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+", db_index=False)
    conversation = models.ForeignKey(Conversation, on_delete=models.CASCADE, related_name="+", db_index=False)
    space = models.ForeignKey(EmbeddingSpace, on_delete=models.CASCADE, related_name="+", db_index=False)
    number = models.PositiveIntegerField()
    places = models.BinaryField()
    signs = models.BinaryField()

    class Meta:
        db_table = "memory_signblock"
        constraints = [
            models.UniqueConstraint(fields=["conversation", "space", "number"], name="sign_block_unique"),
        ]
        indexes = [models.Index(fields=["owner", "space"], include=["id"], name="sign_block_owner")]

    def __str__(self) -> str:
        return f"signs {self.number} of conversation {self.conversation_id}"
