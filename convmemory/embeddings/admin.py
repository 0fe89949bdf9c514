"""Embedding spaces and the vector cache in the admin."""

from typing import Any

import numpy as np
from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest

from convmemory.core.administration.lists import OwnerFilter, UptoFilter
from convmemory.core.administration.metadata import DeletableAdmin, MetadataAdmin
from convmemory.embeddings.cache import STORED_DTYPE
from convmemory.embeddings.models import CachedVector, EmbeddingSpace


@admin.register(EmbeddingSpace)
class EmbeddingSpaceAdmin(MetadataAdmin):
    """Embedding spaces, read-only: `manage.py reembed` creates, activates and prunes them."""

    list_display = (
        "id", "provider", "model", "dimensions", "token_model", "recipe_version", "is_active", "is_building",
        "retired_at",
    )  # fmt: skip
    list_filter = ("is_active", "is_building", UptoFilter)
    fields = (
        "provider", "model", "dimensions", "token_model", "token_dimensions", "is_centred", "recipe_version",
        "is_active", "is_building", "created_at", "retired_at",
    )  # fmt: skip


@admin.register(CachedVector)
class CachedVectorAdmin(DeletableAdmin):
    """Cached vectors. Deleted ones are computed again when they are needed."""

    list_display = ("id", "archive", "space", "hash")
    list_filter = (OwnerFilter, "space", UptoFilter)
    fields = ("archive", "space", "hash", "norm")
    readonly_fields = ("hash", "norm")

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        return super().get_queryset(request).defer("vector")

    @admin.display(description="content hash")
    def hash(self, obj: CachedVector) -> str:
        return bytes(obj.content_hash).hex()

    @admin.display(description="norm")
    def norm(self, obj: CachedVector) -> str:
        vector = np.frombuffer(bytes(obj.vector), dtype=STORED_DTYPE).astype(np.float32)
        return f"{np.linalg.norm(vector):.4f}"
