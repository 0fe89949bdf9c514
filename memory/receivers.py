"""What memory does when the index has embedded messages, or looks whether they changed: its records follow."""

from collections.abc import Mapping, Sequence
from typing import Any

from convmemory.conversations.models import Conversation
from convmemory.conversations.reading import StoredMessage
from convmemory.embeddings.models import EmbeddingSpace
from memory.records import follow_positions, note_outcomes


def on_messages_embedded(
    sender: Any,
    *,
    conversation: Conversation,
    space: EmbeddingSpace,
    messages: Sequence[StoredMessage],
    token_counts: Mapping[int, int],
    errors: Mapping[int, str],
    keep_completed: bool,
    **kwargs: Any,
) -> None:
    note_outcomes(
        conversation, space, messages, token_counts=token_counts, errors=errors, keep_completed=keep_completed
    )


def on_turns_compared(sender: Any, *, conversation: Conversation, first_turn: int, **kwargs: Any) -> None:
    follow_positions(conversation, first_turn)
