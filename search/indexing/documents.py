"""Writes the lexical documents of items: the words of their texts, each text in its language.

Writes `Item` and, in the same transaction, the languages of their source and from which item on it has no postings. The
transaction that stores messages or sections calls `store_words`; workers repair what no transaction wrote. Source:
docs/adr/0081-store-words-with-messages.md.
"""

import time
from collections.abc import Mapping
from typing import Any

from django.db import connection, transaction
from django.db.models import F, Value
from django.db.models.functions import Least

from convmemory.core.sql import load_sql
from search.indexing.batches import ITEMS_PER_BATCH, batches_of_items, read_items
from search.languages import configuration_of
from search.models import Item, Source
from search.postings.cached import unpack_from
from search.vectors.locking import lock_for_writing, locked
from search.vectors.texts import IN_ENGLISH, ItemTexts, item_texts
from search.word_forms import has_other_forms, indexed_text

WEIGHTS = "ABCDS"


def store_words(source: Source, *, first: int, last: int | None = None, is_new: bool = False) -> int:
    """Store the lexical documents of the source's items from `first` on that differ; return how many did.

    Call it in a transaction that has locked the source's row, so that two writers never meet. Items are read 64 at a
    time. A new source has none to compare with.
    """
    end = source.item_count if last is None else last + 1
    stored: list[int] = []
    longer = 0
    languages = set(source.languages.split())
    while first < end:
        until = min(end, first + ITEMS_PER_BATCH)
        texts = {item.number: item_texts(item) for item in read_items(source, first, until - 1)}
        before: dict[int, tuple[bytes, int]] = {}
        if not is_new:
            rows = Item.objects.filter(source_id=source.pk, number__range=(first, until - 1))
            columns = rows.values_list("number", "content_hash", "length")
            before = {number: (bytes(digest), length) for number, digest, length in columns}
        changed = {n: text for n, text in texts.items() if before.get(n, (b"", 0))[0] != text.content_hash}
        longer += _store(source, changed, languages) - sum(before[n][1] for n in changed.keys() & before.keys())
        stored += changed
        first = until
    if stored:
        _note(source, languages, longer=longer, unpacked_from=0 if is_new else unpack_from(source, min(stored)))
    return len(stored)


def bring_up_layout(source: Source) -> None:
    """Store the words of the source's items once more that an earlier version stored in one form. This embeds nothing.

    Only the worker that indexes the source calls this; until then the source is searched as it is.
    """
    for batch in batches_of_items(source, 0):
        texts = {item.number: item_texts(item) for item in batch.items}
        store_documents(
            source,
            {
                number: text
                for number, text in texts.items()
                if text.languages or any(map(has_other_forms, text.lexical.values()))
            },
        )
    Source.objects.filter(pk=source.pk).update(layout=Source.LAYOUT)
    source.refresh_from_db(fields=["unpacked_from", "layout"])


def store_missing_words(source: Source, *, deadline: float) -> bool:
    """Store the words of the items that the source counts as without them, a batch in a transaction.

    Returns False if `time.monotonic()` passed `deadline` before the last batch.
    """
    while True:
        with transaction.atomic():
            lock_for_writing(source.pk)
            current = locked(source)
            if current is None or current.words_missing_from is None:
                return True
            first = current.words_missing_from
            until = min(first + ITEMS_PER_BATCH, current.item_count)
            store_words(current, first=first, last=until - 1)
            rest = until if until < current.item_count else None
            Source.objects.filter(pk=source.pk).update(words_missing_from=rest)
        if rest is not None and time.monotonic() > deadline:
            return False


def drop_words(source: Source) -> None:
    """Delete the lexical documents and postings of items that the source no longer has.

    Call it in a transaction that has locked the source's row.
    """
    gone = Item.objects.filter(source_id=source.pk, number__gte=source.item_count)
    lengths = list(gone.values_list("length", flat=True))
    if lengths:
        gone.delete()
        first = unpack_from(source, source.item_count)
        _note(source, set(source.languages.split()), longer=-sum(lengths), unpacked_from=first)


def store_documents(source: Source, items: Mapping[int, ItemTexts]) -> None:
    """Insert or replace the lexical documents of these items, in a transaction of its own."""
    if not items:
        return
    with transaction.atomic():
        lock_for_writing(source.pk)
        current = locked(source)
        if current is not None:
            languages = set(source.languages.split())
            _store(source, items, languages)
            _note(source, languages, unpacked_from=unpack_from(source, min(items)))


def _store(source: Source, items: Mapping[int, ItemTexts], all_languages: set[str]) -> int:
    """Store the documents and add their languages to those found; return the sum of their lengths."""
    if not items:
        return 0
    texts = list(items.values())
    languages = [text.languages for text in texts]
    all_languages.update(language for of_item in languages for language in of_item.values())
    parameters: dict[str, Any] = {
        "owner": source.archive_id,
        "source": source.pk,
        "numbers": list(items),
        "opening_ids": [t.opening_id for t in texts],
        "headings": [t.heading for t in texts],
        "created_at": [t.created_at or source.created_at for t in texts],
        "hashes": [t.content_hash for t in texts],
        "lengths": [t.length for t in texts],
    }
    for weight in WEIGHTS:
        of_weight = [language.get(weight, "") for language in languages]
        spoken = [text.lexical.get(weight, "") for text in texts]
        # Tools' output is full of identifiers, whose separators are typed.
        forms = [
            indexed_text(text, language, has_joined=weight != IN_ENGLISH)
            for text, language in zip(spoken, of_weight, strict=True)
        ]
        parameters[weight] = [indexed for indexed, _ in forms]
        parameters[f"folded_{weight}"] = [folded for _, folded in forms]
        parameters[f"of_{weight}"] = [configuration_of(language) for language in of_weight]
    with connection.cursor() as cursor:
        cursor.execute(load_sql("search.indexing", "upsert_items"), parameters)
    return sum(parameters["lengths"])


def _note(source: Source, languages: set[str], *, unpacked_from: int, longer: int = 0) -> None:
    """Note at the source that items from one on have no postings, and the languages in which it is searched."""
    source.languages = " ".join(sorted(languages))
    Source.objects.filter(pk=source.pk).update(
        spoken_length=F("spoken_length") + longer,
        languages=source.languages,
        unpacked_from=Least(F("unpacked_from"), Value(unpacked_from)),  # the smaller one if there are two
    )
