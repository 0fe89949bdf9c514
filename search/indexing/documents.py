"""Writes the lexical documents of items: the words of their texts, each text in its language.

Writes `Item` and, in the same transaction, the postings of the items and the languages of their source.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from django.db import connection, transaction

from convmemory.core.sql import load_sql
from search.languages import configuration_of
from search.models import Source
from search.postings.cached import pack_postings
from search.vectors.locking import lock_for_writing
from search.vectors.texts import ItemTexts, searchable

WEIGHTS = "ABCDS"


def store_documents(source: Source, items: Mapping[int, ItemTexts]) -> None:
    """Insert or replace the lexical documents of these items, in one query."""
    if not items:
        return
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
    with transaction.atomic(), connection.cursor() as cursor:
        lock_for_writing(source.pk)
        cursor.execute(load_sql("search.indexing", "upsert_items"), parameters)
        pack_postings(source, items)
        _add_languages(source, (language for of_item in languages for language in of_item.values()))


def _add_languages(source: Source, found: Iterable[str]) -> None:
    """Add to the source's languages: a search stems words in all languages of its owner."""
    known = set(source.languages.split())
    if new := set(found) - known:
        source.languages = " ".join(sorted(known | new))
        Source.objects.filter(pk=source.pk).update(languages=source.languages)
