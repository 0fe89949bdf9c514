"""Writes the lexical documents of items: the words of their texts, each text in its language.

Writes `Item` and, in the same transaction, the postings of the items and the languages of their source. The transaction
that stores messages or sections calls `store_words`; workers repair what no transaction wrote. Source:
docs/adr/0081-store-words-with-messages.md.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from django.db import connection, transaction
from django.db.models import F

from convmemory.core.sql import load_sql
from search.indexing.batches import ITEMS_PER_BATCH, read_items
from search.languages import configuration_of
from search.models import Item, Source
from search.postings.cached import drop_postings, pack_postings
from search.vectors.locking import lock_for_writing
from search.vectors.texts import ItemTexts, item_texts, searchable

WEIGHTS = "ABCDS"


def store_words(source: Source, *, first: int, last: int | None = None, is_new: bool = False) -> int:
    """Store the lexical documents of the source's items from `first` on that differ; return how many did.

    Call it in a transaction that has locked the source's row, so that two writers never meet. Items are read 64 at a
    time. A new source has none to compare with. A source of an older layout is left to `bring_up_layout`.
    """
    if source.layout < Source.IN_LANGUAGES:
        return 0
    end = source.item_count if last is None else last + 1
    stored = changed_length = 0
    while first < end:
        # Batches end where blocks of postings do: each block is packed once.
        until = min(end, (first // ITEMS_PER_BATCH + 1) * ITEMS_PER_BATCH)
        texts = {item.number: item_texts(item) for item in read_items(source, first, until - 1)}
        known: dict[int, tuple[bytes, int]] = {}
        if not is_new:
            rows = Item.objects.filter(source_id=source.pk, number__range=(first, until - 1))
            columns = rows.values_list("number", "content_hash", "length")
            known = {number: (bytes(digest), length) for number, digest, length in columns}
        changed = {n: text for n, text in texts.items() if known.get(n, (b"", 0))[0] != text.content_hash}
        changed_length += _store(source, changed) - sum(known[n][1] for n in changed.keys() & known.keys())
        stored += len(changed)
        first = until
    if changed_length:
        Source.objects.filter(pk=source.pk).update(spoken_length=F("spoken_length") + changed_length)
    return stored


def drop_words(source: Source) -> None:
    """Delete the lexical documents and postings of items that the source no longer has.

    Call it in a transaction that has locked the source's row.
    """
    gone = Item.objects.filter(source_id=source.pk, number__gte=source.item_count)
    lengths = list(gone.values_list("length", flat=True))
    if lengths:
        gone.delete()
        drop_postings(source, source.item_count)
        Source.objects.filter(pk=source.pk).update(spoken_length=F("spoken_length") - sum(lengths))


def store_documents(source: Source, items: Mapping[int, ItemTexts]) -> None:
    """Insert or replace the lexical documents of these items, in a transaction of its own."""
    with transaction.atomic():
        lock_for_writing(source.pk)
        _store(source, items)


def _store(source: Source, items: Mapping[int, ItemTexts]) -> int:
    """Store the documents; return the sum of their lengths."""
    if not items:
        return 0
    texts = list(items.values())
    languages = [text.languages for text in texts]
    parameters: dict[str, Any] = {
        "owner": source.owner_id,
        "source": source.pk,
        "numbers": list(items),
        "opening_ids": [t.opening_id for t in texts],
        "headings": [t.heading for t in texts],
        "created_at": [t.created_at or source.created_at for t in texts],
        "hashes": [t.content_hash for t in texts],
        "lengths": [t.length for t in texts],
    }
    for weight in WEIGHTS:
        own = [language.get(weight, "") for language in languages]
        said = [text.lexical.get(weight, "") for text in texts]
        parameters[weight] = [searchable(text, language) for text, language in zip(said, own, strict=True)]
        parameters[f"of_{weight}"] = [configuration_of(language) for language in own]
    with connection.cursor() as cursor:
        cursor.execute(load_sql("search.indexing", "upsert_items"), parameters)
    pack_postings(source, items)
    _add_languages(source, (language for of_item in languages for language in of_item.values()))
    return sum(parameters["lengths"])


def _add_languages(source: Source, found: Iterable[str]) -> None:
    """Add to the source's languages: a search stems words in all languages of its owner."""
    known = set(source.languages.split())
    if new := set(found) - known:
        source.languages = " ".join(sorted(known | new))
        Source.objects.filter(pk=source.pk).update(languages=source.languages)
