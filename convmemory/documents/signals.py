"""The signals of this app; layers above subscribe in their `apps.py`."""

from django.dispatch import Signal

# Sent inside the transaction that makes a document's sections, before they are stored.
# Arguments: document, moved: Mapping[int, int] (old numbers of unchanged sections, with their new ones).
sections_moved = Signal()

# Sent inside the transaction that creates or changes a document.
# Arguments: document, first_section: int | None (the lowest section that can have changed; None: no section has).
document_changed = Signal()

# Sent inside the transactions that put a document into the trash and take it out again. Argument: document.
document_trashed = Signal()
document_restored = Signal()
