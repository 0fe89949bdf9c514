"""Receives signals of conversations: hands over what a dead writer had received, and adds the chat to pages."""

from collections.abc import Sequence
from typing import Any

from django.contrib.auth.models import User

from convmemory.chat.agents import HOW_TO_SET_UP
from convmemory.chat.models import Reply
from convmemory.chat.pages import composer_for, notes_on
from convmemory.chat.replies import take_over
from convmemory.conversations.drafts import MessageDraft
from convmemory.conversations.models import Conversation, Message
from convmemory.conversations.signals import PageAddition


def on_response_abandoned(sender: Any, *, conversation: Conversation, **kwargs: Any) -> list[MessageDraft]:
    return take_over(conversation)


def on_conversation_shown(
    sender: Any, *, owner: User, conversation: Conversation, messages: Sequence[Message], is_whole: bool, **kwargs: Any
) -> PageAddition:
    values: dict[str, Any] = {}
    if is_whole:
        composer = composer_for(owner=owner, conversation=conversation)
        values = {"composer": composer, "how_to_set_up": HOW_TO_SET_UP}
    replies = list(
        Reply.objects.filter(owner_id=owner.pk, conversation=conversation, question__in=messages).order_by("pk")
    )
    values["asked_here"] = {reply.question_id for reply in replies}
    return PageAddition(values, notes_on(replies, messages))
