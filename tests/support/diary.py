"""A toy source for tests: a diary, whose entries are items of one element each."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime

from django.contrib.auth.models import User
from django.db import connection, models, transaction
from django.test.utils import isolate_apps

from convmemory.accounts.models import Archive
from search.indexing.tracking import put_source
from search.sources import Element, ItemText, Kind, SourceAdapter, SourceFacts, one_element_item, register, unregister

DAY = datetime(2026, 3, 1, tzinfo=UTC)

with isolate_apps("tests"):

    class Entry(models.Model):  # noqa: DJ008 (a toy that no page shows)
        archive = models.ForeignKey(Archive, db_column="owner_id", on_delete=models.CASCADE, related_name="+")
        diary_id = models.BigIntegerField()
        number = models.PositiveIntegerField()
        text = models.TextField()

        class Meta:
            app_label = "tests"


class DiaryAdapter(SourceAdapter):
    kind, item_name = "diary", "entry"
    passage_kinds: frozenset[Kind] = frozenset({"user"})

    def read_range(self, archive_id: int, object_id: int, first: int, last: int) -> list[ItemText]:
        return [item_of(entry) for entry in entries(archive_id, diary_id=object_id, number__range=(first, last))]

    def read_elements(self, archive_id: int, element_ids: Iterable[int]) -> dict[int, Element]:
        return {entry.pk: item_of(entry).elements[0] for entry in entries(archive_id, pk__in=set(element_ids))}

    def url(self, object_id: int, item_number: int) -> str:
        return f"/diaries/{object_id}#{item_number}"


def entries(archive_id: int, **conditions: object) -> models.QuerySet[Entry]:
    return Entry._default_manager.filter(archive_id=archive_id, **conditions).order_by("diary_id", "number")


def item_of(entry: Entry) -> ItemText:
    return one_element_item(entry.pk, entry.number, "user", entry.text, DAY)


@transaction.atomic
def write(owner: User, diary_id: int, *texts: str, version: int, archived: bool = False) -> None:
    """Put the entries `texts` at the end of a diary."""
    first = entries(owner.pk, diary_id=diary_id).count()
    rows = [Entry(archive_id=owner.pk, diary_id=diary_id, number=n, text=text) for n, text in enumerate(texts, first)]
    Entry._default_manager.bulk_create(rows)
    total = first + len(rows)
    facts = SourceFacts("diary", owner.pk, diary_id, version, total, total, DAY, DAY, "Diary", archived=archived)
    put_source(facts, first_changed=first)


@contextmanager
def kept_diaries() -> Iterator[None]:
    """The diary's table, and its adapter in the index."""
    with connection.schema_editor() as editor:
        editor.create_model(Entry)
    register(DiaryAdapter())
    try:
        yield
    finally:
        unregister("diary")
        with connection.schema_editor() as editor:
            editor.delete_model(Entry)
