"""The index: sources, items, what search keeps of each, how far indexing has come; past searches, rerankers.

Each row carries its owner, is derived from content and can be rebuilt. The models of `models.py` do not belong to
the index; Django finds them here.
"""

from django.contrib.postgres.search import SearchVectorField
from django.db import models
from django.db.models import Q
from django.db.models.functions import Substr
from pgvector.django import HalfVectorField

from convmemory.embeddings.models import EmbeddingSpace
from search.fields import words_of

__all__ = [
    "Item", "ItemEmbedding", "PassageBlock", "PastSearch", "PostingBlock", "RerankerWeight",
    "Source", "SourceIndex",
]  # fmt: skip


class Source(models.Model):
    """An object with numbered items: a conversation, a document. The adapter of its kind reads it (`sources.py`).

    `object_id` is its id in its own table. `version` grows whenever an item changes; it is 0 while there is nothing to
    find. The source of an object in the trash has version 0, and only its passages are left.
    """

    archive = models.ForeignKey(
        "accounts.Archive", db_column="owner_id", on_delete=models.CASCADE, related_name="+", db_index=False
    )
    kind = models.CharField(max_length=20)
    object_id = models.BigIntegerField()
    title = models.CharField(max_length=300, blank=True, default="")
    agent = models.CharField(max_length=100, blank=True, default="")
    project = models.CharField(max_length=300, blank=True, default="")
    origin = models.CharField(max_length=50, blank=True, default="")
    archived = models.BooleanField(default=False)
    created_at = models.DateTimeField()
    updated_at = models.DateTimeField()
    item_count = models.PositiveIntegerField(default=0)
    element_count = models.PositiveIntegerField(default=0)
    version = models.PositiveBigIntegerField(default=0)
    spoken_length = models.PositiveIntegerField(default=0, help_text="Sum of the lengths of its items.")
    layout = models.PositiveSmallIntegerField(
        default=5,
        db_default=5,
        help_text="The version of what is derived from its items' rows; an old one is brought up to the newest.",
    )
    languages = models.CharField(
        max_length=300,
        default="",
        db_default="",
        help_text="Those of its items, besides English, as `search/languages.py` names them, with spaces between.",
    )
    unpacked_from = models.PositiveIntegerField(
        null=True, help_text="The first item whose postings a worker has not packed yet; null if it has packed all."
    )
    words_missing_from = models.PositiveIntegerField(
        null=True, help_text="The first item whose words are not stored, or not as they are now; null if all are."
    )
    behind_since = models.DateTimeField(
        null=True, help_text="When the first change was stored that is not indexed yet; null if all are."
    )
    title_words = words_of("title")

    LAYOUT = 5
    """The newest layout: words are indexed in two forms."""

    class Meta:
        constraints = [models.UniqueConstraint(fields=["archive", "kind", "object_id"], name="source_unique")]
        indexes = [
            models.Index(fields=["archive"], condition=Q(unpacked_from__isnull=False), name="source_unpacked"),
            models.Index(
                fields=["archive"], include=["kind", "languages"], condition=~Q(languages=""), name="source_languages"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.kind} {self.object_id}"


class Item(models.Model):
    """The lexical document of one item, and the text that a hit shows of it.

    The weights name the speaker: in `spoken` A user, B assistant, documents and tool calls, C system prompts; in
    `unspoken` C thinking, D tool calls and output. There are two columns, because most searches read only spoken text.
    """

    archive = models.ForeignKey(
        "accounts.Archive", db_column="owner_id", on_delete=models.CASCADE, related_name="+", db_index=False
    )
    source = models.ForeignKey(Source, on_delete=models.CASCADE, related_name="items", db_index=False)
    number = models.PositiveIntegerField()
    opening_id = models.BigIntegerField(null=True, help_text="The element that opens the item.")
    heading = models.CharField(max_length=300)
    created_at = models.DateTimeField()
    content_hash = models.BinaryField(max_length=32)
    length = models.PositiveIntegerField(help_text="Words of `spoken`, as full text search counts them.")
    spoken = SearchVectorField()
    unspoken = SearchVectorField()
    error = models.TextField(blank=True, default="", help_text="Why the item could not be embedded.")

    class Meta:
        constraints = [models.UniqueConstraint(fields=["source", "number", "archive"], name="item_unique")]
        indexes = [
            models.Index(fields=["archive", "source", "number"], include=["created_at"], name="item_moments"),
            models.Index(fields=["id"], condition=~Q(error=""), name="item_failed"),
        ]

    def __str__(self) -> str:
        return f"item {self.number} of source {self.source_id}"


class PostingBlock(models.Model):
    """The postings of some items of a source in one of their two columns, packed into one row.

    `number` counts blocks of items from the source's first. `items` contains `search.postings.cached.ITEM` for each
    item, `words` the first bytes of each word's SHA-256, sorted, and `sizes`, one byte each, how many of the
    consecutive `postings` (`POSTING`) belong to it. A block is never changed but replaced, with another id.
    """

    class Home(models.IntegerChoices):
        SPOKEN = 0
        UNSPOKEN = 1

    archive = models.ForeignKey(
        "accounts.Archive", db_column="owner_id", on_delete=models.CASCADE, related_name="+", db_index=False
    )
    source = models.ForeignKey(Source, on_delete=models.CASCADE, related_name="+", db_index=False)
    number = models.PositiveIntegerField()
    home = models.PositiveSmallIntegerField(choices=Home)
    items = models.BinaryField()
    words = models.BinaryField()
    sizes = models.BinaryField()
    postings = models.BinaryField()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["source", "number", "home", "archive"], name="posting_block_unique"),
        ]
        indexes = [models.Index(fields=["archive", "home"], include=["id"], name="posting_block_owner")]

    def __str__(self) -> str:
        return f"postings {self.number} of source {self.source_id}"


HASH_START_BYTES = 7  # with their length, what an entry of an index has room for anyway
HASH_START = Substr("content_hash", 1, HASH_START_BYTES)
"""The part of a hash that is indexed: staff look one up now and then, and an entry of a whole one is twice as long."""


class ItemEmbedding(models.Model):
    """The vector of one chunk of an item in one embedding space; the best chunk of an item counts."""

    archive = models.ForeignKey(
        "accounts.Archive", db_column="owner_id", on_delete=models.CASCADE, related_name="+", db_index=False
    )
    source = models.ForeignKey(Source, on_delete=models.CASCADE, related_name="item_embeddings", db_index=False)
    space = models.ForeignKey(EmbeddingSpace, on_delete=models.CASCADE, related_name="+", db_index=False)
    item_number = models.PositiveIntegerField()
    chunk_number = models.PositiveIntegerField(default=0)
    content_hash = models.BinaryField(max_length=32, help_text="Of the whole item, not of the chunk.")
    token_count = models.PositiveIntegerField()
    embedding = HalfVectorField()
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["source", "space", "item_number", "chunk_number", "archive"], name="item_embedding_unique"
            ),
        ]
        indexes = [
            models.Index(fields=["archive", "id"], name="item_embedding_newest"),
            models.Index(HASH_START, name="item_embedding_content"),
        ]

    def __str__(self) -> str:
        return f"chunk {self.chunk_number} of item {self.item_number} of source {self.source_id}"


class SourceIndex(models.Model):
    """The progress of indexing one source in one space.

    It is up to date if `indexed_version` equals the source's `version`. `dirty_from` saves reading items that did not
    change; it is valid only while `seen_version` shows that every change was recorded, else every item's content hash
    is compared.
    """

    source = models.ForeignKey(Source, on_delete=models.CASCADE, related_name="index", db_index=False)
    archive = models.ForeignKey(
        "accounts.Archive", db_column="owner_id", on_delete=models.CASCADE, related_name="+", db_index=False
    )
    space = models.ForeignKey(EmbeddingSpace, on_delete=models.CASCADE, related_name="+", db_index=False)
    indexed_version = models.PositiveBigIntegerField(default=0)
    seen_version = models.PositiveBigIntegerField(default=0)
    dirty_from = models.PositiveIntegerField(null=True, blank=True)
    last_item = models.IntegerField(default=-1, help_text="The last item that was done.")
    passages = models.PositiveIntegerField(default=0)
    refused = models.JSONField(default=dict, help_text="Why the model took an item's text not, by item number.")
    attempts = models.PositiveSmallIntegerField(default=0)
    error = models.TextField(blank=True, default="")
    updated_at = models.DateTimeField(auto_now=True)

    class Meta:
        verbose_name = "index state"
        constraints = [models.UniqueConstraint(fields=["source", "space", "archive"], name="source_index_unique")]
        indexes = [models.Index(fields=["archive"], name="source_index_owner")]

    def __str__(self) -> str:
        return f"index of source {self.source_id} in space {self.space_id}"


class PassageBlock(models.Model):
    """The passages of some items of a source, with the codes of their vectors and of their words, packed into one row.

    A passage is one span of one part of an element, embedded with its speaker's name. `number` counts blocks of items
    from the source's first. `entries` contains `search.vectors.packing.ENTRY` for each passage, item by item, and then
    for each vector of the items, `codes` the first parts of their codes (`search.vectors.codes`) in the same order. The
    others are of passages alone: `fine` contains the second parts, `digests` the first half of the SHA-256 of each
    embedded text, by which an owner's equal text is not embedded again, and `tokens` one bit for each dimension of the
    vectors of the words, passage after passage. They never change: another block replaces this one.

    One that `is_kept` is found by no search, but its texts are not embedded again: its object is in the trash, or came
    from another archive, and is not indexed yet. Such blocks may have a number in common.
    """

    class Kind(models.IntegerChoices):
        USER = 0
        ASSISTANT = 1
        THINKING = 2
        TOOL = 3
        CALL = 4, "Tool call"
        DOCUMENT = 5
        SYSTEM = 6, "System prompt"
        OUTSIDE = 7, "Outside of turns"

    archive = models.ForeignKey(
        "accounts.Archive", db_column="owner_id", on_delete=models.CASCADE, related_name="+", db_index=False
    )
    source = models.ForeignKey(Source, on_delete=models.CASCADE, related_name="passage_blocks", db_index=False)
    space = models.ForeignKey(EmbeddingSpace, on_delete=models.CASCADE, related_name="+", db_index=False)
    number = models.PositiveIntegerField()
    is_kept = models.BooleanField(default=False)
    last_item = models.PositiveIntegerField(help_text="The last item of which it contains anything.")
    passages = models.PositiveIntegerField()
    entries = models.BinaryField()
    digests = models.BinaryField()
    codes = models.BinaryField()
    fine = models.BinaryField()
    tokens = models.BinaryField()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["source", "space", "number", "archive"],
                condition=Q(is_kept=False),
                name="passage_block_unique",
            ),
        ]
        indexes = [
            models.Index(fields=["archive", "space", "is_kept"], include=["id"], name="passage_block_owner"),
            models.Index(fields=["source"], name="passage_block_source"),
        ]

    def __str__(self) -> str:
        return f"passages {self.number} of source {self.source_id}"


class PastSearch(models.Model):
    """A search by its owner, as the query string of its URL; `saved_at` is set if it was saved."""

    archive = models.ForeignKey(
        "accounts.Archive", db_column="owner_id", on_delete=models.CASCADE, related_name="+", db_index=False
    )
    address = models.CharField(max_length=1000)
    text = models.CharField(max_length=500, blank=True)
    used_at = models.DateTimeField()
    saved_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        verbose_name_plural = "past searches"
        constraints = [models.UniqueConstraint(fields=["archive", "address"], name="past_search_unique")]
        indexes = [models.Index(fields=["archive", "-used_at"], name="past_search_newest")]

    def __str__(self) -> str:
        return f"search {self.pk} of {self.archive_id}"


class RerankerWeight(models.Model):
    """The weight of a reranker in every search of this installation, and the measured gain."""

    name = models.CharField(max_length=300, unique=True, help_text="The model, or the address where none is named.")
    weight = models.FloatField(
        help_text="Of its scaled score, compared with 1 of the scaled fused score; 0 leaves it out."
    )
    questions = models.PositiveIntegerField(help_text="How many it was measured on.")
    gain = models.FloatField(help_text="In mean reciprocal rank, on folds that were left out.")
    fitted_at = models.DateTimeField(auto_now=True)

    def __str__(self) -> str:
        return f"{self.name}: {self.weight}"
