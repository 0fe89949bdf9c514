"""The signals of this app; apps above it subscribe in their `apps.py`."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from django.dispatch import Signal

from convmemory.conversations.pages.rendering import Note, Versions

# Sent inside the transaction that creates or changes a conversation; not for changes of its processing status alone.
# Arguments: conversation, first_turn: int | None (the lowest turn number that can have changed; None: no turn has).
conversation_changed = Signal()

# Sent inside the transaction that counts conversations for the statistics; a receiver sets `Figures.points`.
# Arguments: archive_id: int, conversation_ids: list[int].
conversations_counted = Signal()

# Sent inside the transaction that renames projects. Arguments: archive_id: int, conversation_ids: list[int].
projects_renamed = Signal()

# Sent inside the transaction that deletes a conversation, before any row of it is locked: receivers can wait for
# writers of derived rows. Arguments: conversation_id: int, archive_id: int.
conversation_deleting = Signal()

# Sent inside the transactions that put a conversation into the trash and take it out again. Argument: conversation.
conversation_trashed = Signal()
conversation_restored = Signal()

# Sent inside the transaction that releases a conversation from a writer whose lease has expired; its row is locked.
# Argument: conversation. A receiver returns the messages (MessageDraft) that were received before the writer died.
response_abandoned = Signal()

# Sent while a conversation's page is rendered, so that other apps can add to it.
# Arguments: caller, conversation, messages: list[Message], is_whole: bool (else these messages only continue the page).
# A receiver returns a PageAddition.
conversation_shown = Signal()


@dataclass(frozen=True, slots=True)
class PageAddition:
    """An app's additions to a conversation's page: values for the template, notes below messages and versions of
    questions by message id, and the ids of messages that other versions lead to and the page leaves out.
    """

    values: Mapping[str, Any] = field(default_factory=dict)
    notes: Mapping[int, Sequence[Note]] = field(default_factory=dict)
    versions: Mapping[int, Versions] = field(default_factory=dict)
    left_out: Collection[int] = ()
