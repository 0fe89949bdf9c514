"""Undoes a whole import: removes the messages that it added, and keeps earlier and later ones.

A conversation that the import created is deleted, unless messages were added to it since; from any other, the messages
that the import added are removed. Messages that it only updated stay as they are.
"""

import logging
import time

from django.contrib.auth.models import AbstractBaseUser

from convmemory.conversations.import_models import Import, ImportedConversation
from convmemory.conversations.imported_rows import remove_messages
from convmemory.conversations.imports import get_import
from convmemory.conversations.ingest import delete_conversation
from convmemory.conversations.kept_uploads import drop_upload_of
from convmemory.conversations.models import Conversation
from convmemory.core.errors import InvalidInput, NotFound

State = Import.State

logger = logging.getLogger(__name__)


def request_undo(*, owner: AbstractBaseUser, import_id: int) -> Import:
    """Mark the caller's import for undoing; the calling view or command enqueues it. A repeated call changes nothing.

    Raises: NotFound, InvalidInput while it still runs.
    """
    row = get_import(owner=owner, import_id=import_id)
    if row.is_unfinished:
        raise InvalidInput("The import has not ended yet: wait until it has, then undo it.")
    ended = Import.objects.filter(pk=row.pk, owner_id=owner.pk, state__in=[State.DONE, State.FAILED])
    ended.update(state=State.UNDOING)
    return get_import(owner=owner, import_id=import_id)


def undo(*, owner: AbstractBaseUser, import_id: int, deadline: float) -> bool:
    """Revert conversation after conversation until `deadline` (monotonic seconds); returns whether all are done."""
    row = Import.objects.filter(pk=import_id, owner_id=owner.pk, state=State.UNDOING).first()
    if row is None:
        return True
    while time.monotonic() < deadline:
        found = ImportedConversation.objects.filter(owner_id=owner.pk, import_job=row).order_by("-pk").first()
        if found is None:
            drop_upload_of(row)
            Import.objects.filter(pk=row.pk, state=State.UNDOING).update(state=State.UNDONE)
            return True
        _take_back(owner, found)
    return False


def _take_back(owner: AbstractBaseUser, found: ImportedConversation) -> None:
    """Revert one conversation. Idempotent, because a worker may die between its steps."""
    try:
        if found.first_message is not None and found.last_message is not None:
            ids = (found.first_message, found.last_message)
            remove_messages(owner=owner, conversation_id=found.conversation_id, ids=ids)
        left = Conversation.objects.get(pk=found.conversation_id, owner_id=owner.pk).message_count
        if found.created and not left:
            delete_conversation(owner=owner, conversation_id=found.conversation_id)
    except (NotFound, Conversation.DoesNotExist):
        logger.info("Conversation %s was deleted before its import was undone", found.conversation_id)
    # Last: if a worker dies before, the next one repeats the step.
    ImportedConversation.objects.filter(pk=found.pk).delete()
