"""Indexes several sources of one owner at once: one call of the model embeds what all of them need next.

The model sorts the texts of a call by length, so that little is padded; a short conversation alone has too few texts.
"""

import time
from collections import defaultdict, deque
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from convmemory.embeddings.models import EmbeddingSpace
from search.indexing.active import IndexResult, index_steps
from search.indexing.batches import BATCH_CHARS
from search.vectors.passages import Answer, EmbeddingSteps, TextsToEmbed, embed

if TYPE_CHECKING:
    from uuid import UUID

# Sources are added to a call of the model until it has so many characters; the last one adds a batch at most.
CHARS_AT_ONCE = BATCH_CHARS


def index_together(
    *, archive_id: int, source_ids: Sequence[int], deadline: float
) -> dict[int, IndexResult | Exception]:
    """Index each of the sources as `index_source` does; return its result, or the error that ended it.

    The first one is begun in any case; others that are not when `time.monotonic()` passes `deadline` are missing in it.
    """
    waiting = deque(source_ids)
    results: dict[int, IndexResult | Exception] = {}
    running: dict[int, EmbeddingSteps[IndexResult]] = {}
    requests: dict[int, TextsToEmbed] = {}

    def resume(source_id: int, step: Callable[[], TextsToEmbed]) -> None:
        try:
            requests[source_id] = step()
            return
        except StopIteration as stop:
            results[source_id] = stop.value
        except Exception as error:  # the caller raises it or tries the source alone: it ends no other one
            results[source_id] = error
        del running[source_id]

    try:
        while waiting or running:
            while waiting and sum(sum(map(len, each.texts.values())) for each in requests.values()) < CHARS_AT_ONCE:
                if (results or running) and time.monotonic() > deadline:
                    waiting.clear()
                    break
                source_id = waiting.popleft()
                running[source_id] = index_steps(archive_id=archive_id, source_id=source_id, deadline=deadline)
                resume(source_id, partial(next, running[source_id]))
            answered, requests = requests, {}
            answers = _embed_together(archive_id, answered.values())
            for source_id, request in answered.items():
                steps, answer = running[source_id], answers[request.space]
                if isinstance(answer, Exception):
                    resume(source_id, partial(steps.throw, answer))
                else:
                    resume(source_id, partial(steps.send, answer))
    finally:
        for steps in running.values():
            steps.close()  # releases their locks
    return results


def _embed_together(archive_id: int, requests: Collection[TextsToEmbed]) -> Mapping[EmbeddingSpace, Answer | Exception]:
    """Embed the texts of all requests, each once; return the answer, or the error, for each space."""
    texts: dict[EmbeddingSpace, dict[UUID, str]] = defaultdict(dict)
    for request in requests:
        texts[request.space] |= request.texts
    answers: dict[EmbeddingSpace, Answer | Exception] = {}
    for space, of_space in texts.items():
        try:
            answers[space] = embed(TextsToEmbed(archive_id, space, of_space))
        except Exception as error:  # each source records it and ends with it
            answers[space] = error
    return answers
