"""The steps of a change of model: build the space, switch to it, delete the old one."""

import time
from collections.abc import Callable, Iterator
from functools import partial
from itertools import chain

from django.apps import apps
from django.db import models
from django.utils import timezone

from convmemory.core.errors import ConvMemoryError, InvalidInput
from convmemory.core.postgres.archives import for_all_archives
from convmemory.embeddings.models import EmbeddingSpace
from convmemory.embeddings.spaces import start_building
from convmemory.ops.reembed.progress import ReembedProgress
from convmemory.ops.reembed.running import Totals, embed_all
from search.indexing.sweeping import DEFECTS, Defect, SourceSelection, select_active, select_building
from search.indexing.switching import NotBuilt, switch_to

# Sources that arrive faster than they are embedded must not keep the command running for ever.
SWITCH_ATTEMPTS = 100
RETRY_PAUSE_S = 0.5

Tell = Callable[[str], None]
ShowProgress = Callable[[ReembedProgress], None]


class ReembedFailed(ConvMemoryError):
    """Some sources could not be embedded; the message names the first."""


def refresh(
    space: EmbeddingSpace, selection: SourceSelection, defects: tuple[Defect, ...], *, workers: int, show: ShowProgress
) -> Totals:
    """Embed missing, stale or failed items in the active space. Raises: EmbedderUnavailable, ReembedFailed."""
    totals = Totals()
    _embed(selected(partial(select_active, space, selection, defects)), space, totals, workers, show)
    return totals


def build(
    space: EmbeddingSpace, selection: SourceSelection, defects: tuple[Defect, ...], *, workers: int, show: ShowProgress
) -> Totals:
    """Embed a part of the archive in a space that is not active, without a switch. Raises: like `change_over`."""
    start_building(space)
    totals = Totals()
    _embed(selected(partial(select_building, space, selection, defects)), space, totals, workers, show)
    return totals


def change_over(space: EmbeddingSpace, *, workers: int, show: ShowProgress, tell: Tell) -> Totals:
    """Build `space` until it contains all items of the active one, then switch to it.

    Raises:
        InvalidInput: another space is being built.
        EmbedderUnavailable: the model is unavailable; run again to continue.
        ReembedFailed: some sources cannot be embedded, or arrive faster than they are.
    """
    start_building(space)
    totals = Totals()
    for _ in range(SWITCH_ATTEMPTS):
        chosen = selected(partial(select_building, space, SourceSelection(), DEFECTS))
        _embed(chosen, space, totals, workers, show)
        try:
            switch_to(space)
        except NotBuilt:
            time.sleep(RETRY_PAUSE_S)
        else:
            return totals
    raise ReembedFailed(
        "Sources change faster than they are embedded, so the old space is still searched. "
        "Run the same command again when less arrives; it goes on where it stopped."
    )


def selected(select: Callable[[], dict[int, int]]) -> dict[int, int]:
    """Return the sources that `select` chooses in all archives, with their numbers of items."""
    return dict(chain.from_iterable(chosen.items() for chosen in for_all_archives(select)))


def _embed(sources: dict[int, int], space: EmbeddingSpace, totals: Totals, workers: int, show: ShowProgress) -> None:
    if not sources:
        return
    progress = ReembedProgress(sum(sources.values()), time.monotonic)

    def on_progress(items: int) -> None:
        progress.add(items)
        show(progress)

    embed_all(sources, space, totals, workers=min(workers, len(sources)), on_progress=on_progress)
    if totals.errors:
        first, reason = next(iter(totals.errors.items()))
        raise ReembedFailed(f"{len(totals.errors)} sources failed, the first one is {first}: {reason}")


BATCH = 5_000
# A search that began before the switch still reads the old space (ADR 15).
GRACE_S = 60


def retired_spaces() -> list[EmbeddingSpace]:
    """Return spaces that are neither active nor being built."""
    return list(EmbeddingSpace.objects.filter(is_active=False, is_building=False).order_by("pk"))


def count_rows(space: EmbeddingSpace) -> int:
    """Return the number of rows that are deleted with a space."""

    def count() -> int:
        rows = (model._default_manager.filter(**{field: space}) for model, field in rows_of_spaces())
        return sum(each.count() for each in rows)

    return sum(for_all_archives(count))


def prune(space: EmbeddingSpace, *, tell: Callable[[str], None], wait: Callable[[float], None] = time.sleep) -> int:
    """Delete all rows of a retired space, then the space itself; return the number of rows.

    Raises: InvalidInput if the space is active or being built.
    """
    if not any(space.pk == retired.pk for retired in retired_spaces()):
        raise InvalidInput(f"{space} is in use and cannot be pruned.")
    left_s = GRACE_S - (timezone.now() - space.retired_at).total_seconds() if space.retired_at else 0.0
    if left_s > 0:
        tell(f"Waiting {left_s:.0f} s for searches that began before the switch ...")
        wait(left_s)
    deleted = 0
    for model, field in rows_of_spaces():
        deleted += sum(for_all_archives(partial(_delete_rows, model, field, space)))
    retired = EmbeddingSpace.objects.filter(pk=space.pk, is_active=False, is_building=False)
    list(for_all_archives(retired.delete))
    return deleted


def rows_of_spaces() -> Iterator[tuple[type[models.Model], str]]:
    """Yield each model whose rows are deleted with their space, and the name of the field."""
    for model in apps.get_models():
        for field in model._meta.concrete_fields:
            remote = field.remote_field
            if field.related_model is EmbeddingSpace and remote and remote.on_delete is models.CASCADE:
                yield model, field.name


def _delete_rows(model: type[models.Model], field: str, space: EmbeddingSpace) -> int:
    rows = model._default_manager.filter(**{field: space})
    count = last = 0
    while ids := list(rows.order_by("pk").filter(pk__gt=last).values_list("pk", flat=True)[:BATCH]):
        model._default_manager.filter(pk__in=ids).delete()
        count, last = count + len(ids), ids[-1]
    return count
