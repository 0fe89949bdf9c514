"""Records the current state of a source and its first changed item, in the transaction that changes it."""

from collections.abc import Collection
from dataclasses import asdict

from django.db import connection

from convmemory.core.sql import load_sql
from search.models import Source
from search.sources import SourceFacts


def put_source(facts: SourceFacts, *, first_changed: int | None) -> None:
    """Store a source's facts; with `first_changed`, mark its items from that one on as behind."""
    with connection.cursor() as cursor:
        cursor.execute(load_sql("search.indexing", "put_source"), asdict(facts))
        (source_id,) = cursor.fetchone()
        if first_changed is not None:
            parameters = {"source": source_id, "version": facts.version, "first": first_changed}
            cursor.execute(load_sql("search.indexing", "mark_changed"), parameters)


def drop_source(*, owner_id: int, kind: str, object_id: int) -> None:
    """Delete a source and all rows derived from it."""
    delete_sources(
        Source.objects.filter(owner_id=owner_id, kind=kind, object_id=object_id).values_list("pk", flat=True)
    )


def delete_sources(source_ids: Collection[int]) -> int:
    """Delete sources with their derived rows; return the number of rows."""
    deleted, _ = Source.objects.filter(pk__in=list(source_ids)).delete()
    return deleted
