"""The signal of the index, for the layers above it, which subscribe in their `apps.py`."""

from django.dispatch import Signal

# Sent in the transaction that stores the passages of elements, or outside of one if the model could not be used.
# Arguments: source, space, elements: Sequence[Element], token_counts: Mapping[int, int] and errors: Mapping[int, str]
# by element id, keep_completed: bool (records of unchanged elements stay).
elements_embedded = Signal()
