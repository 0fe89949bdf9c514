"""Embedding spaces and the cache of vectors, keyed so that the same text of an owner is embedded once."""

from django.db import models
from django.db.models import Q

SENTENCE_FIELDS = ("provider", "model", "dimensions", "recipe_version")
TOKEN_FIELDS = ("token_model", "token_dimensions", "is_centred")


class EmbeddingSpace(models.Model):
    """Vectors that may be compared with each other: one sentence model, one token model, one text recipe.

    The token model provides the token vectors of late interaction, whatever provides the vectors of sentences; without
    one, `token_model` is empty. If `is_centred`, `token_mean`, the mean token vector (token_dimensions,) float32 of a
    fixed background, is subtracted from its token vectors.

    The active space is searched. One other may be building: new content is embedded in both, until the switch makes it
    the active one. A retired space keeps its rows until it is pruned.
    """

    provider = models.CharField(max_length=32)
    model = models.CharField(max_length=200)
    dimensions = models.PositiveIntegerField()
    recipe_version = models.PositiveIntegerField()
    location = models.CharField(
        max_length=500, blank=True, default="", help_text="Folder of a local model, or an endpoint's base URL."
    )
    token_model = models.CharField(max_length=200, blank=True, default="")
    token_dimensions = models.PositiveIntegerField(default=0)
    token_location = models.CharField(max_length=500, blank=True, default="", help_text="Folder of the token model.")
    token_mean = models.BinaryField(default=b"")
    is_centred = models.BooleanField(default=False)
    is_active = models.BooleanField(default=False)
    is_building = models.BooleanField(default=False)
    created_at = models.DateTimeField(auto_now_add=True)
    retired_at = models.DateTimeField(null=True, blank=True, help_text="When another space took over.")

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=[*SENTENCE_FIELDS, *TOKEN_FIELDS],
                name="embeddings_space_with_tokens_unique",
            ),
            models.UniqueConstraint(fields=["is_active"], condition=Q(is_active=True), name="embeddings_space_active"),
            models.UniqueConstraint(
                fields=["is_building"], condition=Q(is_building=True), name="embeddings_space_building"
            ),
            models.CheckConstraint(
                condition=Q(is_active=False) | Q(is_building=False), name="embeddings_space_active_or_building"
            ),
        ]

    def __str__(self) -> str:
        named = f"{self.provider}/{self.model}, {self.dimensions} dimensions, recipe {self.recipe_version}"
        if self.token_model == self.model and not self.is_centred:
            return named
        return f"{named}, {f'tokens of {self.token_model}' if self.token_model else 'no token vectors'}"


class CachedVector(models.Model):
    """The vector of an owner's passage: float16, little endian, `2 * space.dimensions` bytes.

    It contains no text: it is found by the hash of a text, which cannot be reversed. Two owners of the same text have a
    vector each.
    """

    archive = models.ForeignKey(
        "accounts.Archive", db_column="owner_id", on_delete=models.CASCADE, related_name="+", db_index=False
    )
    space = models.ForeignKey(EmbeddingSpace, on_delete=models.CASCADE, db_index=False)
    content_hash = models.BinaryField(max_length=32)
    vector = models.BinaryField()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["archive", "space", "content_hash"], name="embeddings_vector_owned"),
        ]

    def __str__(self) -> str:
        return bytes(self.content_hash).hex()


class EmbeddingBatch(models.Model):
    """Texts of one owner that a provider embeds asynchronously. It contains no text and no hash.

    `remote_id` is empty until the provider has accepted it, `ended_at` is null until its vectors are stored.
    """

    archive = models.ForeignKey("accounts.Archive", db_column="owner_id", on_delete=models.CASCADE, related_name="+")
    space = models.ForeignKey(EmbeddingSpace, on_delete=models.CASCADE, related_name="batches")
    remote_id = models.CharField(max_length=200, blank=True, default="")
    requests = models.PositiveIntegerField()
    vectors = models.PositiveIntegerField(default=0)
    status = models.CharField(max_length=50, blank=True, default="")
    created_at = models.DateTimeField(auto_now_add=True)
    ended_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        verbose_name_plural = "embedding batches"

    def __str__(self) -> str:
        return f"batch {self.remote_id or self.pk}"
