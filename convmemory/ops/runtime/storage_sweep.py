"""Recounts the stored bytes of each owner, from the sums of conversations, documents and kept uploads.

Transactions that store and delete maintain the owners' sums (`storage_quota.py`). This finds rows that bypassed them:
those of an older version, which have no sum yet, and those that an administrator or a restore changed.
"""

import time

from django.db import connection, transaction

from convmemory.conversations.models import Conversation, StoredUse
from convmemory.conversations.storage_quota import recount, uncounted_conversations
from convmemory.core.sql import load_sql

BATCH = 100
MAX_S = 20.0


def reconcile_storage() -> int:
    """Count uncounted rows, for `MAX_S` at most, then each owner's sum; return how many sums were missing or wrong."""
    counted: int = _count_uncounted(time.monotonic() + MAX_S)
    with connection.cursor() as cursor:
        cursor.execute(load_sql("convmemory.ops.runtime", "count_documents"))
        counted += cursor.rowcount
        cursor.execute(load_sql("convmemory.ops.runtime", "owners_with_storage"))
        owners = [owner_id for (owner_id,) in cursor.fetchall()]
    counted += sum(_reconcile(owner_id) for owner_id in owners)
    return counted


def _count_uncounted(deadline: float) -> int:
    count = 0
    while time.monotonic() < deadline and (ids := uncounted_conversations(limit=BATCH)):
        with transaction.atomic():
            locked = Conversation.objects.select_for_update().filter(pk__in=ids, stored_bytes=None).order_by("pk")
            recount(list(locked.values_list("pk", flat=True)))
        count += len(ids)
    return count


def _reconcile(owner_id: int) -> bool:
    """Set the owner's sum; return whether it was wrong.

    The row is locked first. A transaction that stores data changes the row last, so that the sum is taken either before
    or after all of its data.
    """
    with transaction.atomic():
        StoredUse.objects.get_or_create(owner_id=owner_id)
        row = StoredUse.objects.select_for_update().get(owner_id=owner_id)
        with connection.cursor() as cursor:
            cursor.execute(load_sql("convmemory.ops.runtime", "stored_bytes_of_owner"), {"owner": owner_id})
            (stored,) = cursor.fetchone()
        if row.stored_bytes == stored:
            return False
        row.stored_bytes = stored
        row.save(update_fields=["stored_bytes"])
    return True
