"""Embeds many sources in several processes, with bounded work in flight; no stored work is lost if one of them dies.

A process stores its vectors batch by batch, so the next run continues from the rows.
"""

import multiprocessing
import os
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass, field

from convmemory.core.errors import ConvMemoryError, EmbedderUnavailable
from convmemory.embeddings.models import EmbeddingSpace
from convmemory.ops.reembed.child import StepResult, prepare, step

WINDOW = 2  # steps submitted in advance, per worker
HELD_PAUSE_S = 0.2
HELD_ATTEMPTS = 50  # attempts at a source that another process is indexing

Submit = Callable[[int, int], "Future[StepResult]"]


class WorkerDied(ConvMemoryError):
    """A worker process ended unexpectedly, by a kill or for want of memory: run the command again, it goes on."""

    def __str__(self) -> str:
        return str(self.__doc__)


@dataclass(slots=True)
class Totals:
    """The totals of a run. `computed` counts texts that the model embedded; `errors` are by source."""

    sources: int = 0
    items: int = 0
    computed: int = 0
    failed: int = 0
    errors: dict[int, str] = field(default_factory=dict)
    busy: int = 0

    def add(self, source_id: int, result: StepResult) -> None:
        self.items += result.items
        self.computed += result.computed
        self.failed += result.failed
        self.sources += result.finished
        if result.error:
            self.errors[source_id] = result.error


def embed_all(
    sources: Mapping[int, int],
    space: EmbeddingSpace,
    totals: Totals,
    *,
    workers: int,
    on_progress: Callable[[int], None],
) -> None:
    """Embed the sources (ids with their numbers of items) in `space`; `on_progress` receives the number of items done.

    Raises:
        EmbedderUnavailable: the model cannot be used now; stored vectors stay.
        WorkerDied: a worker process ended; stored vectors stay.
    """
    with _submitter(workers) as submit:
        try:
            _feed(submit, deque(sources), sources, space, totals, WINDOW * workers, on_progress)
        except BrokenProcessPool as error:
            raise WorkerDied from error


def _feed(
    submit: Submit,
    waiting: deque[int],
    item_counts: Mapping[int, int],
    space: EmbeddingSpace,
    totals: Totals,
    window: int,
    on_progress: Callable[[int], None],
) -> None:
    running: dict[Future[StepResult], int] = {}
    attempts: dict[int, int] = {}
    reported: dict[int, int] = {}
    while waiting or running:
        while waiting and len(running) < window:
            source_id = waiting.popleft()
            running[submit(space.pk, source_id)] = source_id
        for future in wait(running, return_when=FIRST_COMPLETED).done:
            source_id = running.pop(future)
            result = future.result()
            if result.unavailable:
                raise EmbedderUnavailable(result.unavailable)
            totals.add(source_id, result)
            done = item_counts[source_id] - reported.get(source_id, 0) if result.finished else result.items
            reported[source_id] = reported.get(source_id, 0) + done
            on_progress(done)
            if not result.finished and _may_go_on(source_id, result, attempts, totals):
                waiting.append(source_id)


def _may_go_on(source_id: int, result: StepResult, attempts: dict[int, int], totals: Totals) -> bool:
    """Return whether to retry: always after a slice, a bounded number of times if another process holds the source."""
    if result.items or result.computed:
        return True
    attempts[source_id] = attempts.get(source_id, 0) + 1
    if attempts[source_id] < HELD_ATTEMPTS:
        time.sleep(HELD_PAUSE_S)
        return True
    totals.busy += 1
    return False


@contextmanager
def _submitter(workers: int) -> Iterator[Submit]:
    """Yield a function that runs a step: in this process with one worker, otherwise in processes of their own."""
    if workers <= 1:
        yield _now
        return
    os.environ["EMBEDDING_THREADS"] = str(max(1, (os.cpu_count() or 1) // workers))  # for the children
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(workers, mp_context=context, initializer=prepare, initargs=(os.getpid(),))
    try:
        yield lambda space_id, source_id: pool.submit(step, space_id, source_id)
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _now(space_id: int, source_id: int) -> "Future[StepResult]":
    future: Future[StepResult] = Future()
    future.set_result(step(space_id, source_id))
    return future
