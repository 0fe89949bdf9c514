"""Changes that imports make to conversations already stored: links to parents, and messages removed by Undo."""

from typing import Any

from django.contrib.auth.models import AbstractBaseUser
from django.db import connection, transaction
from django.db.models import Min, OuterRef, Subquery

from convmemory.conversations.models import Conversation
from convmemory.conversations.numbering import finish_change
from convmemory.conversations.responses import lock_conversation, require_idle
from convmemory.conversations.storage_quota import bytes_of_messages, count_stored
from convmemory.core.sql import load_sql


def link_children(*, owner: AbstractBaseUser) -> int:
    """Link conversations to parents that were imported after them; returns how many were linked."""
    parent = Conversation.objects.filter(
        owner=OuterRef("owner"), source=OuterRef("source"), source_id=OuterRef("parent_source_id")
    )
    orphans = Conversation.objects.filter(owner_id=owner.pk, parent=None).exclude(parent_source_id="")
    return (
        orphans.annotate(found=Subquery(parent.values("pk")[:1]))
        .exclude(found=None)
        .update(parent_id=Subquery(parent.values("pk")[:1]))
    )


def remove_messages(*, owner: AbstractBaseUser, conversation_id: int, ids: tuple[int, int]) -> int:
    """Delete the conversation's messages with ids in this range, both ends included; returns how many.

    Raises: NotFound, ConversationBusy.
    """
    with transaction.atomic():
        conversation = lock_conversation(owner=owner, conversation_id=conversation_id)
        require_idle(conversation)
        gone = conversation.messages.filter(pk__range=ids)
        lowest = gone.aggregate(at=Min("position"))["at"]
        if lowest is None:
            return 0
        ids_gone = list(gone.values_list("pk", flat=True))
        freed = bytes_of_messages(owner_id=owner.pk, message_ids=ids_gone)
        gone.delete()
        _close_gaps(conversation, lowest)
        finish_change(conversation, from_position=lowest, message_count=conversation.message_count - len(ids_gone))
        count_stored(owner_id=owner.pk, conversation_id=conversation_id, change=-freed)
    return len(ids_gone)


def _close_gaps(conversation: Conversation, lowest: int) -> None:
    """Renumber the positions of the messages from position `lowest` on without gaps, in their order."""
    left = list(conversation.messages.filter(position__gte=lowest).order_by("position").values_list("pk", flat=True))
    parameters: dict[str, Any] = {
        "owner": conversation.owner_id,
        "conversation": conversation.pk,
        "messages": left,
        "positions": list(range(lowest, lowest + len(left))),
    }
    with connection.cursor() as cursor:
        cursor.execute(load_sql("convmemory.conversations", "set_positions"), parameters)
