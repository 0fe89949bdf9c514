"""Lists the texts of a source that a space lacks, for callers that embed them in advance."""

from collections.abc import Iterator

from convmemory.embeddings.cache import unknown_texts
from convmemory.embeddings.models import EmbeddingSpace
from search.indexing.active import chunks_of
from search.indexing.batches import batches_of_items
from search.models import Source
from search.vectors.passages import new_passage_texts
from search.vectors.texts import item_texts


def texts_to_embed(source: Source, space: EmbeddingSpace) -> Iterator[str]:
    """Yield the passages and chunks of the source's items whose vectors are neither in the index nor in the cache."""
    for batch in batches_of_items(source, 0):
        elements = [element for item in batch.items for element in item.elements]
        chunks = chunks_of(space, {item.number: item_texts(item) for item in batch.items})
        texts = [*new_passage_texts(source.owner_id, space, elements), *(text for _, _, text in chunks)]
        yield from unknown_texts(space, texts, owner_id=source.owner_id)
