"""Hides the keys in all stored messages of a person, conversation by conversation, also in the trash. Idempotent."""

from dataclasses import dataclass

from django.db import transaction

from convmemory.accounts.callers import Caller
from convmemory.conversations.messages.numbering import announce_rewritten
from convmemory.conversations.messages.responses import require_idle
from convmemory.conversations.messages.storage_quota import recount_hidden
from convmemory.conversations.messages.stored_keys import hide_beside_messages, hide_in_messages
from convmemory.conversations.models import Conversation
from convmemory.core.config import config
from convmemory.core.errors import ConversationBusy, SwitchedOff


@dataclass(slots=True)
class HidingReport:
    """The counts of examined and changed rows; `busy` are conversations with a reply in progress."""

    conversations: int = 0
    messages: int = 0
    others: int = 0  # titles and events
    busy: int = 0


def hide_stored_keys(*, caller: Caller) -> HidingReport:
    """Hide the keys in all of the owner's conversations. Raises: SwitchedOff."""
    if not config.hide_keys:
        raise SwitchedOff("HIDE_KEYS=0 says that keys stay where they are: set it to 1 first.")
    report = HidingReport()
    numbers = Conversation.with_trash.filter(archive_id=caller.archive_id).order_by("pk").values_list("pk", flat=True)
    for number in list(numbers):
        try:
            with transaction.atomic():
                rows = Conversation.with_trash.select_for_update().filter(archive_id=caller.archive_id)
                conversation = rows.get(pk=number)
                require_idle(conversation)
                changed = hide_in_messages(conversation)
                others = hide_beside_messages(conversation)
                if changed or others:
                    announce_rewritten(conversation, from_position=changed[0] if changed else None)
                    recount_hidden(conversation)
            report.conversations += 1
            report.messages += len(changed)
            report.others += others
        except ConversationBusy:
            report.busy += 1
        except Conversation.DoesNotExist:  # deleted meanwhile
            continue
    return report
