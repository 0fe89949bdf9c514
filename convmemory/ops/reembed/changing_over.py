"""The steps of a change of model: build the new space while the old one is active, build its index, switch."""

import time
from collections.abc import Callable

from convmemory.core.errors import ConvMemoryError
from convmemory.embeddings.models import EmbeddingSpace
from convmemory.embeddings.spaces import active_space, start_building
from convmemory.ops.reembed.progress import ReembedProgress
from convmemory.ops.reembed.running import Totals, embed_all
from search.indexing.selecting import DEFECTS, Defect, Selection, select_active, select_building
from search.indexing.switching import NotBuilt, build_vector_index, switch_to

# Sources that arrive faster than they are embedded must not keep the command running for ever.
SWITCH_ATTEMPTS = 100
RETRY_PAUSE_S = 0.5

Tell = Callable[[str], None]
ShowProgress = Callable[[ReembedProgress], None]


class ReembedFailed(ConvMemoryError):
    """Some sources could not be embedded; the message names the first."""


def refresh(
    space: EmbeddingSpace, selection: Selection, defects: tuple[Defect, ...], *, workers: int, show: ShowProgress
) -> Totals:
    """Embed missing, stale or failed items in the active space. Raises: EmbedderUnavailable, ReembedFailed."""
    totals = Totals()
    _embed(select_active(space, selection, defects), space, totals, workers, show)
    return totals


def build(
    space: EmbeddingSpace, selection: Selection, defects: tuple[Defect, ...], *, workers: int, show: ShowProgress
) -> Totals:
    """Embed a part of the archive in a space that is not active, without a switch. Raises: like `change_over`."""
    start_building(space)
    totals = Totals()
    _embed(select_building(space, selection, defects), space, totals, workers, show)
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
        _embed(select_building(space, Selection(), DEFECTS), space, totals, workers, show)
        if build_vector_index(space, like=active_space()):
            tell("The vector index of the new space is built.")
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
