"""The signals of this app, for the layers above it."""

from django.dispatch import Signal

# Sent when the context of a model differs from the stored conversation.
# Arguments: conversation_id: int, owner_id: int, result: convmemory.context.values.FilterResult.
context_filtered = Signal()
