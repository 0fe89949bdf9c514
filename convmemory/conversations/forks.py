"""Conversations that begin with a copy of another one: only their own messages are stored, with a link to the other.

A message is recognised by its source key, which a copy keeps. If the other conversation is not stored, the copy is
stored in full.
"""

from dataclasses import replace
from itertools import chain

from django.contrib.auth.models import AbstractBaseUser

from convmemory.conversations.drafts import ConversationDraft
from convmemory.conversations.message_rows import source_key_of
from convmemory.conversations.models import Conversation, Message
from convmemory.core.text import storable


def without_copies(*, owner: AbstractBaseUser, draft: ConversationDraft) -> ConversationDraft:
    """Return the draft without the messages that it copied from the conversation from which it was forked.

    If that conversation is not stored, the draft is unchanged.
    """
    messages = iter(draft.messages)
    first = next(messages, None)
    if first is None:
        return replace(draft, messages=())
    whole = chain([first], messages)
    original = _original(owner, draft, source_key_of(first))
    if original is None:
        return replace(draft, messages=whole)
    # Compared by key and not by position, because the original may have grown since the fork.
    held = set(original.messages.exclude(source_key="").values_list("source_key", flat=True))
    return replace(
        draft,
        messages=(message for message in whole if source_key_of(message) not in held),
        parent_source_id=draft.parent_source_id or original.source_id,
    )


def _original(owner: AbstractBaseUser, draft: ConversationDraft, key: str) -> Conversation | None:
    """Return the oldest conversation of the same source with this message, unless it is the draft's own."""
    of_source = Conversation.objects.filter(owner_id=owner.pk, source=draft.source)
    others = of_source.exclude(source_id=storable(draft.source_id)[:300])
    held = Message.objects.filter(owner_id=owner.pk, source_key=key) if key else Message.objects.none()
    return others.filter(pk__in=held.values("conversation_id")).order_by("pk").first()
