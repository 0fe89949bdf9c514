"""The signals of this app, for the apps above it."""

from django.dispatch import Signal

# Sent when what a model is about to be sent is not the conversation as it is.
# Arguments: conversation_id: int, owner_id: int, result: convmemory.context.values.FilterResult.
context_filtered = Signal()
