"""Stores recent and saved searches: the newest are kept automatically, saved ones until their owner deletes them."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from django.db import connection
from django.utils import timezone

from convmemory.accounts.callers import Caller
from convmemory.conversations.pages.search_box import SearchBox
from convmemory.core.errors import InvalidInput, NotFound
from convmemory.core.sql import load_sql
from search.models import PastSearch

RECENT_LIMIT = 8
SAVED_LIMIT = 100
# The number of recent searches kept for one owner.
KEPT = 30
MAX_ADDRESS_CHARS = 1_000
TYPING_TIME = timedelta(seconds=10)  # between two searches of which one begins with the other


def remember_search(*, caller: Caller, box: SearchBox) -> None:
    """Store this search of the owner instead of those that typing it began; delete the oldest unsaved ones.

    One query.
    """
    address = box.query_string
    if not box.q or len(address) > MAX_ADDRESS_CHARS:
        return
    parameters: dict[str, Any] = {
        "owner": caller.archive_id, "address": address, "text": box.text[:500], "now": timezone.now(),
        "typing": TYPING_TIME, "others": KEPT - 1,
    }  # fmt: skip
    with connection.cursor() as cursor:
        cursor.execute(load_sql("search", "remember_search"), parameters)


def note_use(*, caller: Caller, box: SearchBox) -> None:
    """Note that the owner looked at this search, if it is stored: a saved one may be filters alone. One query."""
    rows = PastSearch.objects.filter(archive_id=caller.archive_id, address=box.query_string[:MAX_ADDRESS_CHARS])
    rows.update(used_at=timezone.now())


def save_search(*, caller: Caller, box: SearchBox) -> PastSearch:
    """Save this search to the owner's list. Raises: InvalidInput if it is empty or too long, or the list is full."""
    address = box.query_string
    if not address or len(address) > MAX_ADDRESS_CHARS:
        raise InvalidInput(f"A search to save has a query or filters, and at most {MAX_ADDRESS_CHARS} characters.")
    if PastSearch.objects.filter(archive_id=caller.archive_id).exclude(saved_at=None).count() >= SAVED_LIMIT:
        raise InvalidInput(f"There are {SAVED_LIMIT} saved searches: take one off the list first.")
    now = timezone.now()
    values = {"text": box.text[:500], "used_at": now, "saved_at": now}
    saved, _ = PastSearch.objects.update_or_create(archive_id=caller.archive_id, address=address, defaults=values)
    return saved


def forget_search(*, caller: Caller, search_id: int) -> None:
    """Delete a search from both lists. Raises: NotFound."""
    gone, _ = PastSearch.objects.filter(archive_id=caller.archive_id, pk=search_id).delete()
    if not gone:
        raise NotFound(f"There is no search {search_id}.")


def past_searches(caller: Caller) -> tuple[Sequence[PastSearch], Sequence[PastSearch]]:
    """Return the saved and the recent searches of the owner, newest first. One query."""
    rows = list(
        PastSearch.objects.filter(archive_id=caller.archive_id).order_by("-used_at", "-pk")[: SAVED_LIMIT + KEPT]
    )
    saved = [row for row in rows if row.saved_at is not None]
    return saved, [row for row in rows if row.saved_at is None][:RECENT_LIMIT]
