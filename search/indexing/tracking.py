"""Records the current state of a source and its changed words, in the transaction that changes it."""

from collections.abc import Collection
from dataclasses import asdict
from typing import Any

from django.db import connection, transaction

from convmemory.core.sql import load_sql
from search.indexing.documents import drop_words, store_words
from search.models import Item, ItemEmbedding, PassageBlock, PostingBlock, Source, SourceIndex
from search.sources import SourceFacts
from search.vectors.locking import lock_for_deletion


def put_source(facts: SourceFacts, *, first_changed: int | None) -> int:
    """Store a source's facts; with `first_changed`, also the words of its items from that one on. Return its id.

    Words are searchable once the transaction commits. Vectors are not: the items are marked as behind.
    """
    with transaction.atomic(savepoint=False), connection.cursor() as cursor:
        values = asdict(facts)
        parameters: dict[str, Any] = {"first": first_changed}
        cursor.execute(load_sql("search.indexing", "put_source"), values | parameters)
        source_id, languages, is_new = cursor.fetchone()
        if first_changed is None:
            return int(source_id)
        source = Source(pk=source_id, languages=languages, **values)
        if not is_new:
            parameters = {"source": source_id, "version": facts.version, "first": first_changed}
            cursor.execute(load_sql("search.indexing", "mark_changed"), parameters)
            drop_words(source)
        store_words(source, first=first_changed, is_new=is_new)
    return int(source_id)


def drop_source(*, archive_id: int, kind: str, object_id: int, keeps_passages: bool = False) -> None:
    """Delete a source and all rows derived from it.

    With `keeps_passages` the source stays without anything that a search finds, so that its object can be indexed again
    without the model.
    """
    sources = Source.objects.filter(archive_id=archive_id, kind=kind, object_id=object_id)
    if not keeps_passages:
        delete_sources(sources.values_list("pk", flat=True))
        return
    with transaction.atomic():
        for number in sources.values_list("pk", flat=True):
            lock_for_deletion(number)
        # First, so that who writes rows of it afterwards sees it.
        sources.update(
            version=0, item_count=0, element_count=0, spoken_length=0, title="", agent="", project="", origin="",
            languages="", unpacked_from=None, words_missing_from=None, behind_since=None,
        )  # fmt: skip
        for table in (Item, ItemEmbedding, PostingBlock, SourceIndex):
            table._default_manager.filter(source__in=sources).delete()
        PassageBlock.objects.filter(source__in=sources).update(is_kept=True)


def delete_sources(source_ids: Collection[int]) -> int:
    """Delete sources with their derived rows; return the number of rows."""
    deleted, _ = Source.objects.filter(pk__in=list(source_ids)).delete()
    return deleted
