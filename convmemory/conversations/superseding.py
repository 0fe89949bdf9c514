"""Continues a thread from an earlier message: the later ones stay, collapsed, and belong to no turn."""

from django.contrib.auth.models import AbstractBaseUser
from django.db import transaction

from convmemory.conversations.numbering import finish_change
from convmemory.conversations.responses import lock_conversation, require_idle
from convmemory.core.errors import NotFound


def supersede_from(*, owner: AbstractBaseUser, conversation_id: int, message_id: int) -> None:
    """Mark this message of the conversation and all after it as superseded, and renumber its turns.

    Raises: NotFound, ConversationBusy while a response is being written.
    """
    with transaction.atomic():
        conversation = lock_conversation(owner=owner, conversation_id=conversation_id)
        require_idle(conversation)
        first = conversation.messages.filter(pk=message_id).values_list("position", flat=True).first()
        if first is None:
            raise NotFound(f"There is no message {message_id} in conversation {conversation_id}.")
        conversation.messages.filter(position__gte=first).update(superseded=True)
        finish_change(conversation, from_position=first, message_count=conversation.message_count)
