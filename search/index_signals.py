"""What the index announces to the apps above it, which subscribe in their `apps.py`."""

from django.dispatch import Signal

# Sent in the transaction that stores the passages of elements, or outside of one where the model could not be used.
# Arguments: source, space, elements: Sequence[Element], token_counts: Mapping[int, int] and errors: Mapping[int, str]
# by element id, keep_completed: bool (what is embedded as it stands stays so).
elements_embedded = Signal()

# Sent before the items of a source from one on are compared with what is stored of them: elements may have moved.
# Arguments: source, first_item: int.
items_compared = Signal()
