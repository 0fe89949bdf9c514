"""Recreates from the source the text of a stored item vector."""

from convmemory.core.errors import EmbeddingError
from convmemory.embeddings.spaces import embedder_for
from search.indexing.batches import read_items
from search.indexing.chunking import chunk_text
from search.models import ItemEmbedding
from search.vectors.texts import item_texts


def embedded_text(row: ItemEmbedding) -> tuple[str, str]:
    """Return the text of the vector's chunk, and a note if it may differ from the embedded one.

    The caller has checked that the reader may see it.
    """
    items = read_items(row.source, row.item_number, row.item_number)
    if not items:
        return "", "The turn is gone; the next sweep removes this vector."
    item = item_texts(items[0])
    note = "" if item.content_hash == bytes(row.content_hash) else "The turn has changed since: this is its text now."
    others = ItemEmbedding.objects.filter(source_id=row.source_id, space_id=row.space_id, item_number=row.item_number)
    if others.count() == 1:
        return item.embedded, note
    try:
        embedder = embedder_for(row.space)
    except EmbeddingError as error:
        return item.embedded, f"This is the whole turn, of which the vector is one chunk: {error}"
    chunks = chunk_text(item.embedded, max_tokens=embedder.card.max_tokens, token_offsets=embedder.token_spans)
    return (chunks[row.chunk_number] if row.chunk_number < len(chunks) else item.embedded), note
