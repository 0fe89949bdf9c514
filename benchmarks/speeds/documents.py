"""Compares search of documents with search of turns: equally many passages of each, of two owners, in one run."""

from functools import partial

from benchmarks.metrics import percentiles
from benchmarks.speeds.bench import QUERIES, Figure, fresh_user, refresh_statistics, timed_s
from benchmarks.speeds.synthetic import (
    SyntheticPassage,
    TextMaker,
    TurnShape,
    VectorMaker,
    fill_turns,
    store_vectors,
)
from convmemory.accounts.callers import Caller
from convmemory.conversations.filters import Filters
from convmemory.core.text import content_hash
from convmemory.documents.models import Document, Section
from convmemory.embeddings.models import EmbeddingSpace
from convmemory.embeddings.spaces import active_space
from search.adapters.documents import facts_of, item_of
from search.indexing.documents import store_documents
from search.indexing.tracking import put_source
from search.models import Source
from search.searching import TURNS_ALONE, DocumentScope, SearchQuery, search
from search.vectors.texts import item_texts

ITEMS, PASSAGES_PER_ITEM, SECTIONS_PER_DOCUMENT = 6_250, 8, 50
SENTENCE_WORDS = 12


def bench_documents() -> list[Figure]:
    """Measure searches of 50,000 passages of documents, compared with searches of 50,000 passages of turns."""
    speaker, reader = fresh_user("bench-turns"), fresh_user("bench-documents")
    space, maker = active_space(), TextMaker()
    vectors = VectorMaker(space.dimensions)
    shape = TurnShape(passages=PASSAGES_PER_ITEM)
    fill_turns(caller=Caller.of(speaker), space=space, turns=ITEMS, maker=maker, vectors=vectors, shape=shape)
    fill_documents(caller=Caller.of(reader), space=space, sections=ITEMS, maker=maker, vectors=vectors)
    refresh_statistics()
    turns_ms, sections_ms = [], []
    for number in range(QUERIES + 1):  # alternating, so that both run under the same load
        query = SearchQuery(text=maker.question(), filters=Filters(kinds=TURNS_ALONE))
        turns_s = timed_s(partial(search, caller=Caller.of(speaker), query=query))
        query = SearchQuery(text=maker.question(), document_scope=DocumentScope())
        sections_s = timed_s(partial(search, caller=Caller.of(reader), query=query))
        if number:
            turns_ms.append(turns_s * 1000)
            sections_ms.append(sections_s * 1000)
    slow = [percentiles(milliseconds)["p95"] for milliseconds in (turns_ms, sections_ms)]
    return [
        Figure("search of 50,000 passages of turns, p95", slow[0], "ms"),
        Figure("search of 50,000 passages of documents, p95", slow[1], "ms"),
        Figure("documents against turns", slow[1] / slow[0], "ratio", "<= 1.2"),
    ]


def fill_documents(
    *, caller: Caller, space: EmbeddingSpace, sections: int, maker: TextMaker, vectors: VectorMaker
) -> None:
    """Give the owner this many indexed sections of some sentences each."""
    for first in range(0, sections, SECTIONS_PER_DOCUMENT):
        count = min(SECTIONS_PER_DOCUMENT, sections - first)
        document = Document.objects.create(
            archive_id=caller.archive_id, name=f"{first}.txt", title=maker.text(4), format="text", size=1,
            status="ready", version=1, digest=content_hash(f"{caller.archive_id}-{first}").hex(), section_count=count,
        )  # fmt: skip
        rows: list[Section] = []
        for number in range(count):
            text = " ".join(maker.text(SENTENCE_WORDS) for _ in range(PASSAGES_PER_ITEM))
            rows.append(
                Section(
                    archive_id=document.archive_id, document=document, number=number, start=number * 2_000, text=text
                )
            )
        Section.objects.bulk_create(rows)
        put_source(facts_of(document), first_changed=None)
        source = Source.objects.get(archive_id=document.archive_id, kind="document", object_id=document.pk)
        texts = {row.number: item_texts(item_of(row)) for row in rows}
        source.spoken_length = sum(text.length for text in texts.values())
        source.save(update_fields=["spoken_length"])
        store_documents(source, texts)
        passages = [
            SyntheticPassage(row.pk, row.number, start, "document")
            for row in rows
            for start in range(0, PASSAGES_PER_ITEM * 50, 50)
        ]
        store_vectors(source, space, passages, vectors)
