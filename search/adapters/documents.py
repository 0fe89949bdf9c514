"""Documents as sources of the index: sections are items, and each is one element.

`search/apps.py` registers it and connects it to signals. No other module of the index knows documents.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from django.db import connection
from django.db.models import QuerySet

from convmemory.core.config import config
from convmemory.core.sql import PendingQuery, load_sql
from convmemory.core.text import cut
from convmemory.documents.models import Document, Section
from search.indexing.tracking import delete_sources, drop_source, put_source
from search.models import Source
from search.sources import MAX_HEADING_CHARS, Element, ElementPart, ItemKey, ItemText, Kind, SourceAdapter, SourceFacts
from search.tasks import enqueue_index
from search.vectors.passages import move_passages

KIND = "document"
# Headings are embedded before each passage, cut to this length.
PATH_CHARS = 200
BETWEEN = " > "


class DocumentAdapter(SourceAdapter):
    """Reads sections for the index."""

    kind, item_name = KIND, "section"
    passage_kinds: frozenset[Kind] = frozenset({"document"})

    @property
    def is_embedded(self) -> bool:
        return bool(config.rag_enabled)

    def read_range(self, archive_id: int, object_id: int, first: int, last: int) -> list[ItemText]:
        chosen = sections_of(archive_id).filter(document_id=object_id, number__range=(first, last))
        return [item_of(section) for section in chosen.order_by("number")]

    def read_items(self, archive_id: int, items: Sequence[ItemKey]) -> dict[ItemKey, ItemText]:
        keys = set(items)
        chosen = sections_of(archive_id).filter(
            document_id__in={object_id for object_id, _ in keys}, number__in={number for _, number in keys}
        )
        sections = {(section.document_id, section.number): section for section in chosen}
        return {key: item_of(sections[key]) for key in keys if key in sections}

    def read_elements(self, archive_id: int, element_ids: Iterable[int]) -> dict[int, Element]:
        return {section.pk: element_of(section) for section in sections_of(archive_id).filter(pk__in=set(element_ids))}

    def elements_with(self, archive_id: int, text: str, *, scanned: int, limit: int) -> list[tuple[int, int]]:
        parameters: dict[str, Any] = {"owner": archive_id, "text": text, "scanned": scanned, "limit": limit}
        return PendingQuery(load_sql("search.adapters", "sections_with"), parameters).rows()

    def url(self, object_id: int, item_number: int) -> str:
        return f"/documents/{object_id}?section={item_number}"

    def reconcile(self) -> int:
        with connection.cursor() as cursor:
            cursor.execute(load_sql("search.adapters", "reconcile_documents"))
            wrong, gone = cursor.fetchone()
        for document in Document.objects.filter(pk__in=wrong or []):
            put_source(facts_of(document), first_changed=0)
        delete_sources(gone or [])
        return len(wrong or []) + len(gone or [])


def sections_of(archive_id: int) -> QuerySet[Section]:
    """Return the owner's sections, each with its document."""
    return Section.objects.filter(archive_id=archive_id).select_related("document")


def item_of(section: Section) -> ItemText:
    heading = cut(BETWEEN.join(section.path) or section.document.title, MAX_HEADING_CHARS)
    return ItemText(section.number, heading, (element_of(section),), section.pk, section.document.created_at)


def element_of(section: Section) -> Element:
    """Return a section as the index reads it.

    Its headings are embedded before each passage, and its document's title can be searched by words. Without headings
    the title is embedded instead. With headings it is not, because a new title would mean embedding everything again.
    """
    title = section.document.title
    part = ElementPart(0, "document", section.text, label=_joined([title, *section.path]))
    return Element(section.pk, section.number, (part,), speaker=_joined(section.path or [title]))


def _joined(headings: Sequence[str]) -> str:
    """Join the headings into one line; of a long line only the end is kept."""
    return BETWEEN.join(dict.fromkeys(headings))[-PATH_CHARS:]


def facts_of(document: Document) -> SourceFacts:
    """The document's facts in the index."""
    return SourceFacts(
        kind=KIND,
        archive_id=document.archive_id,
        object_id=document.pk,
        version=document.version,
        item_count=document.section_count,
        element_count=document.section_count,
        created_at=document.created_at,
        updated_at=document.updated_at,
        title=document.title,
        origin=document.format,
    )


def on_document_changed(sender: Any, *, document: Document, first_section: int | None, **kwargs: Any) -> None:
    source_id = put_source(facts_of(document), first_changed=first_section)
    if first_section is not None:
        enqueue_index(archive_id=document.archive_id, source_id=source_id, as_of=document.updated_at)


def on_sections_moved(sender: Any, *, document: Document, moved: Mapping[int, int], **kwargs: Any) -> None:
    source = Source.objects.filter(archive_id=document.archive_id, kind=KIND, object_id=document.pk).first()
    if source is not None:
        move_passages(source, moved)


def on_document_deleted(sender: Any, *, instance: Document, **kwargs: Any) -> None:
    drop_source(archive_id=instance.archive_id, kind=KIND, object_id=instance.pk)


def on_document_trashed(sender: Any, *, document: Document, **kwargs: Any) -> None:
    drop_source(archive_id=document.archive_id, kind=KIND, object_id=document.pk, keeps_passages=True)


def on_document_restored(sender: Any, *, document: Document, **kwargs: Any) -> None:
    """Let a worker index the document; one that has not been read yet has no source before it is."""
    if document.version:
        source_id = put_source(facts_of(document), first_changed=None)
        enqueue_index(archive_id=document.archive_id, source_id=source_id)
