"""What the index tells those above it; they subscribe in their `apps.py`."""

from django.dispatch import Signal

# Sent in the transaction that stores the passages of messages, or outside of one where the model could not be used.
# Arguments: conversation, space, messages: Sequence[StoredMessage], token_counts: Mapping[int, int] and
# errors: Mapping[int, str] by message id, keep_completed: bool (what is embedded as it stands stays so).
messages_embedded = Signal()

# Sent before the turns of a conversation from one on are compared with what is stored of them: messages may have moved.
# Arguments: conversation, first_turn: int.
turns_compared = Signal()
