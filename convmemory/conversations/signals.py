"""What this app tells those downstream; they subscribe in their `apps.py`."""

from django.dispatch import Signal

# Sent after the transaction that changed turns has committed.
# Arguments: conversation_id: int, owner_id: int, first_turn: int (the lowest turn number that can have changed).
turns_changed = Signal()

# Sent inside the transaction that takes a conversation back from a writer whose lease has run out; its row is locked.
# Argument: conversation. A receiver returns the messages (MessageDraft) that were received before the writer died.
response_abandoned = Signal()
