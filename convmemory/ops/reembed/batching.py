"""`manage.py reembed --batch`: embeds a whole archive with a provider's Batch API, into the cache of vectors.

Submitted batches are recorded in rows, so that a killed run resumes waiting for them. The ordinary run afterwards finds
the vectors in the cache and computes missing ones: failures, and texts that arrived meanwhile.
"""

import time
from collections.abc import Callable, Collection, Iterator
from itertools import islice

from django.utils import timezone

from convmemory.core.acting import acting_for
from convmemory.core.text import content_hash
from convmemory.embeddings.batch_api import MAX_BYTES, MAX_REQUESTS, BatchApi, BatchesNotOffered, RemoteBatch
from convmemory.embeddings.cache import store_vectors
from convmemory.embeddings.models import EmbeddingBatch, EmbeddingSpace
from convmemory.embeddings.openai_compatible import OpenAIEmbedder
from convmemory.embeddings.spaces import embedder_for
from convmemory.embeddings.token_model import PairedEmbedder
from search.indexing.active import texts_to_embed
from search.models import Source

POLL_S = 30.0
TAKEN_AT_ONCE = 512
# SHA-256 in hexadecimal.
HASH_CHARS = 64

Tell = Callable[[str], None]


def embed_in_batches(source_ids: Collection[int], space: EmbeddingSpace, *, tell: Tell) -> int:
    """Embed the missing texts of these sources in batches, and wait for the results; return the number of stored
    vectors.

    If the provider has no such API, says so and does nothing. Raises: EmbedderUnavailable.
    """
    embedder = embedder_for(space)
    if isinstance(embedder, PairedEmbedder):
        embedder = embedder.sentences
    if not isinstance(embedder, OpenAIEmbedder):
        tell("This model runs here: there are no batches to hand in.")
        return 0
    api = embedder.batch_api()
    try:
        # Find batches by their mark that were being submitted when a run died, or delete their rows.
        for row in _waiting(space):
            if row.remote_id:
                continue
            row.remote_id = api.find(str(row.pk))
            if row.remote_id:
                row.save(update_fields=["remote_id"])
            else:
                row.delete()
        taken = _take_all(api, space, tell)
        for archive_id, texts in _files(space, source_ids):
            with acting_for(archive_id):
                row = EmbeddingBatch.objects.create(archive_id=archive_id, space=space, requests=len(texts))
            row.remote_id = api.submit(texts, mark=str(row.pk))
            row.save(update_fields=["remote_id"])
            tell(f"Batch {row.remote_id} of {len(texts):,} texts is handed in.")
        return taken + _take_all(api, space, tell)
    except BatchesNotOffered as error:
        EmbeddingBatch.objects.filter(space=space, remote_id="").delete()
        tell(f"{error} The texts are sent as usual.")
        return 0


def _waiting(space: EmbeddingSpace) -> list[EmbeddingBatch]:
    return list(EmbeddingBatch.objects.filter(space=space, ended_at=None).order_by("pk"))


def _files(space: EmbeddingSpace, source_ids: Collection[int]) -> Iterator[tuple[int, dict[str, str]]]:
    """Yield owners with distinct texts, by hash, as many as fit one batch."""
    texts: dict[str, str] = {}
    size, archive_id = 0, 0
    for source in Source.objects.filter(pk__in=source_ids).order_by("archive_id", "pk").iterator():
        for text in texts_to_embed(source, space):
            name = content_hash(text).hex()
            if texts and (
                source.archive_id != archive_id or len(texts) == MAX_REQUESTS or size + len(text) > MAX_BYTES // 4
            ):
                yield archive_id, texts
                texts, size = {}, 0
            archive_id = source.archive_id
            size += len(text) if name not in texts else 0
            texts[name] = text
    if texts:
        yield archive_id, texts


def _take_all(api: BatchApi, space: EmbeddingSpace, tell: Tell) -> int:
    """Wait until all batches are over, and store their vectors; return their number."""
    taken = 0
    while rows := _waiting(space):
        for row in rows:
            batch = api.state(row.remote_id)
            if batch.is_over:
                taken += _take(api, row, batch, tell)
        if waiting := _waiting(space):
            tell(f"{len(waiting)} of the batches are not done yet.")
            time.sleep(POLL_S)
    return taken


def _take(api: BatchApi, row: EmbeddingBatch, batch: RemoteBatch, tell: Tell) -> int:
    """Store the vectors of one batch. Idempotent: an existing vector stays."""
    taken = 0
    vectors = api.vectors(batch)
    while some := dict(islice(vectors, TAKEN_AT_ONCE)):
        # Only names in our format: results are another server's text.
        valid = {
            bytes.fromhex(name): vector
            for name, vector in some.items()
            if len(name) == HASH_CHARS and set(name) <= set("0123456789abcdef")
        }
        with acting_for(row.archive_id):
            store_vectors(row.space, valid, archive_id=row.archive_id)
        taken += len(valid)
    EmbeddingBatch.objects.filter(pk=row.pk, ended_at=None).update(
        ended_at=timezone.now(), vectors=taken, status=batch.status
    )
    missing = max(row.requests - taken, 0)
    tell(f"Batch {row.remote_id}: {taken:,} vectors" + (f", {missing:,} texts are sent as usual." if missing else "."))
    return taken
