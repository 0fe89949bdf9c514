"""The trash of a person: what is in it, putting it back, and deleting it for good.

Deleting puts a conversation or document into it (`messages/ingest.py`, `documents/library.py`). What has been there for
TRASH_DAYS is neither listed nor put back any more, and `delete_due` deletes it. To delete something earlier is to mark
it as due. What is on legal hold stays in the trash until the hold is lifted. Source: docs/adr/0104-trash.md.
"""

import time
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import chain
from typing import Literal, get_args

from django.db.models import CharField, Q, Value
from django.db.models.functions import Coalesce, NullIf

from convmemory.accounts.callers import Caller
from convmemory.accounts.holds import not_held, refuse_held
from convmemory.conversations.messages import ingest
from convmemory.conversations.models import Conversation
from convmemory.core.config import config
from convmemory.core.errors import InvalidInput, NotFound, OnLegalHold
from convmemory.core.numbers import MAX_BIGINT
from convmemory.core.trash import DUE_NOW, last_expired
from convmemory.documents import library
from convmemory.documents.models import Document

Kind = Literal["conversation", "document"]
KINDS: tuple[Kind, ...] = get_args(Kind)
MAX_START = 10_000
BATCH = 100
MODELS: dict[Kind, type[Conversation] | type[Document]] = {"conversation": Conversation, "document": Document}
NOT_HELD: dict[Kind, Q] = {"conversation": not_held(conversation="pk"), "document": not_held()}


@dataclass(frozen=True, slots=True)
class Trashed:
    """A conversation or document in the trash; it is deleted for good after `kept_until`."""

    kind: Kind
    id: int
    title: str
    trashed_at: datetime

    @property
    def kept_until(self) -> datetime:
        return self.trashed_at + timedelta(days=config.trash_days)


def page_of_trash(*, caller: Caller, limit: int, start: int = 0) -> tuple[list[Trashed], int | None]:
    """Return what is in the caller's trash, the latest first, and the start of the next page, if any. One query.

    Raises: InvalidInput.
    """
    if not 0 <= start <= MAX_START:
        raise InvalidInput(f"The trash is listed up to number {MAX_START:,}: restore or delete some first.")
    rows = {
        kind: model.with_trash.filter(archive_id=caller.archive_id, trashed_at__gt=last_expired()).order_by()
        for kind, model in MODELS.items()
    }
    named = Coalesce(NullIf("title", Value("")), "name", output_field=CharField())
    conversations = rows["conversation"].values_list(Value("conversation"), "pk", "title", "trashed_at")
    documents = rows["document"].values_list(Value("document"), "pk", named, "trashed_at")
    trashed_rows = conversations.union(documents, all=True).order_by("-trashed_at", "pk")[start : start + limit + 1]
    page = [Trashed(*row) for row in trashed_rows]
    return page[:limit], start + limit if len(page) > limit else None


def restore(*, caller: Caller, kind: str, object_id: int) -> None:
    """Put something of the caller's trash back: its address, turns and vectors stay the same. Raises: NotFound."""
    if kind == "conversation":
        ingest.restore_conversation(caller=caller, conversation_id=object_id)
    elif kind == "document":
        library.restore_document(caller=caller, document_id=object_id)
    else:
        raise _unknown(kind)


def delete_now(*, caller: Caller, kind: str, object_id: int) -> None:
    """Mark something in the caller's trash as due; the caller enqueues its deletion. Raises: NotFound, OnLegalHold."""
    if kind not in KINDS:
        raise _unknown(kind)
    rows = MODELS[kind].with_trash.filter(archive_id=caller.archive_id, trashed_at__gt=last_expired())
    ids = [object_id] if kind == "conversation" and object_id <= MAX_BIGINT else []
    refuse_held(archive_id=caller.archive_id, conversation_ids=ids)
    if object_id > MAX_BIGINT or not rows.filter(pk=object_id).update(trashed_at=DUE_NOW):
        raise NotFound(f"There is no {kind} {object_id} in your trash.")


def empty(*, caller: Caller) -> int:
    """Mark everything in the caller's trash as due but what is held; return how many. The caller enqueues the deletion.

    Raises: OnLegalHold if the caller is held.
    """
    refuse_held(archive_id=caller.archive_id)
    is_kept = Q(archive_id=caller.archive_id, trashed_at__gt=last_expired())
    return sum(
        model.with_trash.filter(is_kept, NOT_HELD[kind]).update(trashed_at=DUE_NOW) for kind, model in MODELS.items()
    )


def delete_due(*, caller: Caller, deadline: float) -> bool:
    """Delete for good what is due in the person's trash, one by one, until `deadline` (monotonic seconds).

    Returns whether nothing is left. Each has a transaction of its own, so that a killed worker loses one.
    """
    for kind, model in MODELS.items():
        due = model.with_trash.filter(
            NOT_HELD[kind], archive_id=caller.archive_id, trashed_at__lte=last_expired()
        ).order_by("pk")
        while batch := list(due.values_list("pk", flat=True)[:BATCH]):
            for pk in batch:
                if time.monotonic() > deadline:
                    return False
                try:
                    if kind == "conversation":
                        ingest.delete_for_good(caller=caller, conversation_id=pk)
                    else:
                        library.delete_for_good(caller=caller, document_id=pk)
                except (NotFound, OnLegalHold):  # another worker, or staff, was faster
                    continue
    return True


def owners_with_due(*, limit: int) -> list[int]:
    """Return owners in whose trash something is due."""
    due = (m.with_trash.filter(NOT_HELD[kind], trashed_at__lte=last_expired()) for kind, m in MODELS.items())
    owners = (rows.order_by().values_list("archive_id", flat=True).distinct()[:limit] for rows in due)
    return sorted(set(chain.from_iterable(owners)))[:limit]


def _unknown(kind: str) -> InvalidInput:
    return InvalidInput(f"{kind[:40]!r} is nothing that the trash holds: use {' or '.join(KINDS)}.")
