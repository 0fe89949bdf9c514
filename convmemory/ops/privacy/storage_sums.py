"""Recounts what each archive stores (bytes, turns, documents) and what each person added to spaces.

Transactions that store and delete maintain these sums (`messages/storage_quota.py`). This takes them from
conversations, documents and kept uploads, and finds rows that bypassed them: those of an older version, which have no
sum yet, and those that an administrator, an erasure or a restore changed.
"""

import time
from collections.abc import Mapping

from django.db import connection, transaction
from django.db.models import Q

from convmemory.accounts.models import Archive
from convmemory.conversations.messages.storage_quota import NOTHING, Amounts, recount, uncounted_conversations
from convmemory.conversations.models import Conversation, StoredUse
from convmemory.core import acting
from convmemory.core.postgres import groups
from convmemory.core.sql import load_sql

COUNTED_AT_ONCE = 100
MAX_S = 20.0
FORGET_PERSON = (
    "forget_adder_of_conversations", "forget_adder_of_documents", "forget_adder_of_uploads",
    "forget_sender_of_imports", "forget_asker_of_summaries",
)  # fmt: skip


def reconcile_storage() -> int:
    """Count uncounted rows, for `MAX_S` at most, then each owner's sum; return how many sums were missing or wrong."""
    counted: int = 0
    deadline = time.monotonic() + MAX_S
    while time.monotonic() < deadline and (ids := uncounted_conversations(limit=COUNTED_AT_ONCE)):
        with transaction.atomic():
            locked = Conversation.objects.select_for_update().filter(pk__in=ids, stored_bytes=None).order_by("pk")
            recount(list(locked.values_list("pk", flat=True)))
        counted += len(ids)
    with connection.cursor() as cursor:
        cursor.execute(load_sql("convmemory.ops.privacy", "count_documents"))
        counted += cursor.rowcount
        cursor.execute(load_sql("convmemory.ops.privacy", "owners_with_storage"))
        owners = [archive_id for (archive_id,) in cursor.fetchall()]
    counted += sum(_reconcile(archive_id) for archive_id in owners)
    return counted


def _reconcile(archive_id: int) -> bool:
    """Set the owner's sum; return whether it was wrong.

    The row is locked first. A transaction that stores data changes the row last, so that the sum is taken either before
    or after all of its data.
    """
    with transaction.atomic():
        row = _locked(archive_id)
        with connection.cursor() as cursor:
            cursor.execute(load_sql("convmemory.ops.privacy", "stored_by_owner"), {"owner": archive_id})
            stored = tuple(cursor.fetchone())
        if (row.stored_bytes, row.turns, row.documents) == stored:
            return False
        row.stored_bytes, row.turns, row.documents = stored
        row.save(update_fields=["stored_bytes", "turns", "documents"])
    return True


def reconcile_added() -> int:
    """Set the sums of what persons added to spaces, over all archives; return how many were wrong."""
    used = StoredUse.objects.exclude(Q(added_bytes=0) & Q(added_turns=0) & Q(added_documents=0))
    sums = {row.archive_id: Amounts(row.added_bytes, row.added_turns, row.added_documents) for row in used}
    added = _added()
    differing = [person for person in {*sums, *added} if sums.get(person, NOTHING) != added.get(person, NOTHING)]
    return sum(_reconcile_added(person) for person in sorted(differing))


def _reconcile_added(person_id: int) -> bool:
    """Set what one person added, as `_reconcile` does, in their own archive's row; return whether it was wrong."""
    if not Archive.objects.filter(pk=person_id).exists():
        forget_person(person_id)  # a process wrote for them while they were erased
        return True
    with transaction.atomic():
        with acting.counting_for(person_id):
            row = _locked(person_id)
        added = _added(person_id).get(person_id, NOTHING)
        if Amounts(row.added_bytes, row.added_turns, row.added_documents) == added:
            return False
        row.added_bytes, row.added_turns, row.added_documents = added.size, added.turns, added.documents
        with acting.counting_for(person_id):
            row.save(update_fields=["added_bytes", "added_turns", "added_documents"])
    return True


def _locked(archive_id: int) -> StoredUse:
    StoredUse.objects.get_or_create(archive_id=archive_id)
    return StoredUse.objects.select_for_update().get(archive_id=archive_id)


def _added(person_id: int | None = None) -> Mapping[int, Amounts]:
    with connection.cursor() as cursor:
        cursor.execute(load_sql("convmemory.ops.privacy", "added_by_person"), {"person": person_id})
        return {person: Amounts(size, turns, documents) for person, size, turns, documents in cursor.fetchall()}


def forget_person(person_id: int) -> None:
    """Take a person's number from what they added to spaces and asked for there: it counts for the spaces alone."""
    for number in groups.layout().groups or (acting.NO_GROUP,):
        with acting.in_group(number), connection.cursor() as cursor:
            for statement in FORGET_PERSON:
                cursor.execute(load_sql("convmemory.ops.privacy", statement), {"person": person_id})
