"""The text that a stored turn vector was made from, made again from the messages."""

from convmemory.conversations.reading import messages_of_turns
from convmemory.core.errors import EmbeddingError
from convmemory.embeddings.spaces import embedder_for
from search.indexing.active import texts_of
from search.indexing.chunking import chunk_text
from search.models import TurnEmbedding


def embedded_text(row: TurnEmbedding) -> tuple[str, str]:
    """The text of the vector's chunk, and a note where it may not be that; the caller has checked the reader."""
    turn = texts_of(messages_of_turns(row.conversation, row.turn_number, row.turn_number)).get(row.turn_number)
    if turn is None:
        return "", "The turn is gone; the next sweep removes this vector."
    note = "" if turn.content_hash == bytes(row.content_hash) else "The turn has changed since: this is its text now."
    others = TurnEmbedding.objects.filter(
        conversation_id=row.conversation_id, space_id=row.space_id, turn_number=row.turn_number
    )
    if others.count() == 1:
        return turn.embedded, note
    try:
        embedder = embedder_for(row.space)
    except EmbeddingError as error:
        return turn.embedded, f"This is the whole turn, of which the vector is one chunk: {error}"
    chunks = chunk_text(turn.embedded, max_tokens=embedder.card.max_tokens, token_offsets=embedder.token_spans)
    return (chunks[row.chunk_number] if row.chunk_number < len(chunks) else turn.embedded), note
