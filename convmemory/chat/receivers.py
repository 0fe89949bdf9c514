"""What chat does when a conversation is taken back from a writer that died: hand over what was received."""

from typing import Any

from convmemory.chat.replies import take_over
from convmemory.conversations.drafts import MessageDraft
from convmemory.conversations.models import Conversation


def on_response_abandoned(sender: Any, *, conversation: Conversation, **kwargs: Any) -> list[MessageDraft]:
    return take_over(conversation)
