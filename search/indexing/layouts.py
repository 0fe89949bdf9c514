"""Upgrades a source's derived data whose format changes between versions.

These data are whether passages ask, the lexical documents of languages other than English, the token vectors of
words, and the vectors of items. Reads items through the source's adapter. A source with an older layout can be
searched; the sweep upgrades it to the newest.
"""

from typing import Any

from django.db import connection, transaction

from convmemory.core.errors import EmbedderUnavailable
from convmemory.core.sql import load_sql
from convmemory.embeddings.embedder import TokenEmbedder
from convmemory.embeddings.models import EmbeddingSpace
from convmemory.embeddings.spaces import active_space, embedder_for
from convmemory.embeddings.token_model import PairedEmbedder
from search.indexing.batches import batches_of_items
from search.indexing.documents import store_documents
from search.models import BinaryCodeBlock, ItemEmbedding, Source
from search.postings.cached import HOMES, ITEM, ITEMS_PER_BLOCK
from search.sources import ItemText
from search.vectors.blocks import pack_codes
from search.vectors.item_vectors import store_item_vectors
from search.vectors.locking import lock_for_writing, lock_vectors
from search.vectors.passages import asking_places, drop_punctuation, passage_texts
from search.vectors.texts import item_texts
from search.word_forms import has_other_forms


def bring_up_layout(source: Source) -> None:
    """Upgrade the source's rows to the newest layout. Only the worker that indexes the source calls this.

    If the model of the active space is unavailable, token vectors stay as they are until the next run.
    """
    if source.layout < Source.IN_LANGUAGES:
        _bring_up_words(source)
        _set_layout(source, Source.IN_LANGUAGES)
    if source.layout < Source.WITHOUT_PUNCTUATION and _keep_words_alone(source):
        _set_layout(source, Source.WITHOUT_PUNCTUATION)
    if source.layout == Source.WITHOUT_PUNCTUATION:
        _derive_item_vectors(source)
        _set_layout(source, Source.WITH_DERIVED_VECTORS)
    if source.layout == Source.WITH_DERIVED_VECTORS:
        _bring_up_words(source)
        _set_layout(source, Source.LAYOUT)


def _bring_up_words(source: Source) -> None:
    """Upgrade whether passages ask, and words of other languages or with other forms. This embeds nothing."""
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
        if source.layout < Source.WITH_ASKING:
            _mark_asking(source, batch.items)
    source.refresh_from_db(fields=["unpacked_from"])


def _keep_words_alone(source: Source) -> bool:
    """Delete the token vectors of punctuation in the active space; return False if its model is unavailable."""
    try:
        space = active_space()
        embedder = embedder_for(space)
    except EmbedderUnavailable:
        return False
    if not isinstance(embedder, TokenEmbedder) or isinstance(embedder, PairedEmbedder):
        return True  # rows of a token model of its own contain no punctuation
    for batch in batches_of_items(source, 0):
        texts = passage_texts(element for item in batch.items for element in item.elements)
        with transaction.atomic():
            lock_vectors(source.pk, space.pk)
            if drop_punctuation(source, space, embedder, texts, range(batch.first, batch.last + 1)):
                pack_codes(source, space, range(batch.first, batch.last + 1))  # outdates what processes cached
    return True


def _derive_item_vectors(source: Source) -> None:
    """Replace the vectors of the items in the active space whose content is the same as when they were embedded."""
    space = active_space()
    embedded = ItemEmbedding.objects.filter(source=source, space=space, chunk_number=0)
    for batch in batches_of_items(source, 0):
        hashes = {item.number: item_texts(item).content_hash for item in batch.items}
        rows = embedded.filter(item_number__range=(batch.first, batch.last)).values_list("item_number", "content_hash")
        current = {number for number, digest in rows if bytes(digest) == hashes.get(number)}
        with transaction.atomic():
            lock_vectors(source.pk, space.pk)
            store_item_vectors(source, space, [item for item in batch.items if item.number in current], hashes)


def _set_layout(source: Source, layout: int) -> None:
    Source.objects.filter(pk=source.pk).update(layout=layout)
    source.layout = layout


def _mark_asking(source: Source, items: list[ItemText]) -> None:
    if not items:
        return
    places = asking_places(element for item in items for element in item.elements)
    parameters: dict[str, Any] = {
        "owner": source.archive_id,
        "source": source.pk,
        "first": items[0].number,
        "last": items[-1].number,
        "elements": [place[0] for place in places],
        "parts": [place[1] for place in places],
        "starts": [place[2] for place in places],
        "ends": [place[3] for place in places],
    }
    with transaction.atomic(), connection.cursor() as cursor:
        lock_for_writing(source.pk)
        cursor.execute(load_sql("search.indexing", "mark_asking"), parameters)
        packed = BinaryCodeBlock.objects.filter(source=source).values("space")
        for space in EmbeddingSpace.objects.filter(pk__in=packed):
            lock_vectors(source.pk, space.pk)
            pack_codes(source, space, range(items[0].number, items[-1].number + 1))  # as above


def find_lost_postings() -> list[int]:
    """Return the sources whose blocks of postings do not match their items. Reads all items and blocks."""
    parameters = {
        "items": ITEMS_PER_BLOCK,
        "item_bytes": ITEM.itemsize,
        "homes": len(HOMES),
    }
    with connection.cursor() as cursor:
        cursor.execute(load_sql("search.indexing", "postings_lost"), parameters)
        return [row[0] for row in cursor.fetchall()]
