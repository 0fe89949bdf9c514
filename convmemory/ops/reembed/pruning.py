"""Deletes the rows of retired spaces in batches, so that no transaction is long and a killed run loses no work."""

import time
from collections.abc import Callable, Iterator

from django.apps import apps
from django.db import models
from django.utils import timezone

from convmemory.core import groups
from convmemory.core.acting import in_group
from convmemory.core.errors import InvalidInput
from convmemory.embeddings.models import EmbeddingSpace
from search.vector_index import drop_passage_index

BATCH = 5_000
# A search that began before the switch still reads the old space (ADR 15).
GRACE_S = 60


def retired_spaces() -> list[EmbeddingSpace]:
    """Return spaces that are neither active nor being built."""
    return list(EmbeddingSpace.objects.filter(is_active=False, is_building=False).order_by("pk"))


def prune(space: EmbeddingSpace, *, tell: Callable[[str], None], wait: Callable[[float], None] = time.sleep) -> int:
    """Delete all rows and the index of a retired space, then the space itself; return the number of rows.

    Raises: InvalidInput if the space is active or being built.
    """
    if not any(space.pk == retired.pk for retired in retired_spaces()):
        raise InvalidInput(f"{space} is in use and cannot be pruned.")
    if (left_s := _grace_left_s(space)) > 0:
        tell(f"Waiting {left_s:.0f} s for searches that began before the switch ...")
        wait(left_s)
    drop_passage_index(space)
    deleted = sum(_delete_rows(model, field, space) for model, field in rows_of_spaces())
    with in_group(groups.every_group()[0]):  # Django deletes rows of the space again, which takes real tables
        EmbeddingSpace.objects.filter(pk=space.pk, is_active=False, is_building=False).delete()
    return deleted


def rows_of_spaces() -> Iterator[tuple[type[models.Model], str]]:
    """Yield each model whose rows are deleted with their space, and the name of the field."""
    for model in apps.get_models():
        for field in model._meta.concrete_fields:
            remote = field.remote_field
            if field.related_model is EmbeddingSpace and remote and remote.on_delete is models.CASCADE:
                yield model, field.name


def _delete_rows(model: type[models.Model], field: str, space: EmbeddingSpace) -> int:
    deleted = 0
    for group in groups.groups_of(model):
        with in_group(group):
            deleted += _delete_in_batches(model._default_manager.filter(**{field: space}))
    return deleted


def _delete_in_batches(rows: models.QuerySet[models.Model]) -> int:
    deleted = last = 0
    while ids := list(rows.order_by("pk").filter(pk__gt=last).values_list("pk", flat=True)[:BATCH]):
        rows.model._default_manager.filter(pk__in=ids).delete()
        deleted, last = deleted + len(ids), ids[-1]
    return deleted


def _grace_left_s(space: EmbeddingSpace) -> float:
    return GRACE_S - (timezone.now() - space.retired_at).total_seconds() if space.retired_at else 0.0
