"""Finding work that was missed, and rows that nothing stands behind any more.

Missed: a lost signal, a killed worker, an endpoint that was down. Orphaned: rows of turns that are gone,
and rows whose owner is not their conversation's, which nobody must find.
"""

from django.db import connection
from django.db.models import F, Q
from django.utils import timezone

from convmemory.conversations.models import Conversation
from convmemory.core.retrying import EMBEDDING
from convmemory.core.sql import load_sql
from convmemory.embeddings.spaces import active_space

DERIVED_TABLES = ("search_turndocument", "search_turnembedding", "memory_passage")


def conversations_to_index(*, limit: int) -> list[int]:
    """Ids of conversations whose index is behind, those that wait longest first.

    A conversation that failed is tried again with growing pauses, as `EMBEDDING` has it;
    `manage.py reembed --only failed` tries it again after that.
    """
    due = Q(index_state=None) | Q(index_state__error="") | EMBEDDING.due(timezone.now(), prefix="index_state__")
    waiting = Conversation.objects.filter(is_behind() & due, turns_version__gt=0).order_by("updated_at")
    return list(waiting.values_list("pk", flat=True)[:limit])


def is_behind() -> Q:
    """The condition that a conversation's index does not show its present turns in the active space."""
    return (
        Q(index_state=None)
        | ~Q(index_state__indexed_version=F("turns_version"))
        | ~Q(index_state__space=active_space())
    )


def count_orphans() -> dict[str, int]:
    """Orphaned rows by table, only tables that have any. Reads every derived row."""
    counts = {}
    with connection.cursor() as cursor:
        for table in DERIVED_TABLES:
            cursor.execute(load_sql("search", "count_orphans").replace("{table}", table))
            counts[table] = cursor.fetchone()[0]
    return {table: count for table, count in counts.items() if count}


def delete_orphans() -> int:
    """Delete orphaned rows; how many. What is missing then is found as damage and made again."""
    deleted = 0
    with connection.cursor() as cursor:
        for table in DERIVED_TABLES:
            cursor.execute(load_sql("search", "delete_orphans").replace("{table}", table))
            deleted += cursor.rowcount
    return deleted
