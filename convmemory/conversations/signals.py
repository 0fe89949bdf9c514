"""What this app tells those downstream; they subscribe in their `apps.py`."""

from django.dispatch import Signal

# Sent after the transaction that changed turns has committed.
# Arguments: conversation_id: int, owner_id: int, first_turn: int (the lowest turn number that can have changed).
turns_changed = Signal()
