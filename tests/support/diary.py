"""A toy source for tests: a diary, whose entries are items of one element each."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime

from django.contrib.auth.models import User
from django.db import connection, models, transaction
from django.test.utils import isolate_apps

from search.indexing.noting import put_source
from search.sources import Element, ElementPart, ItemKey, ItemText, Kind, SourceFacts, register, unregister

DAY = datetime(2026, 3, 1, tzinfo=UTC)

with isolate_apps("tests"):

    class Entry(models.Model):
        owner = models.ForeignKey(User, on_delete=models.CASCADE, related_name="+")
        diary_id = models.BigIntegerField()
        number = models.PositiveIntegerField()
        text = models.TextField()

        class Meta:
            app_label = "tests"

        def __str__(self) -> str:
            return f"entry {self.number} of diary {self.diary_id}"


class DiaryAdapter:
    kind, item_name = "diary", "entry"
    passage_kinds: frozenset[Kind] = frozenset({"user"})
    is_embedded = True

    def read_range(self, owner_id: int, object_id: int, first: int, last: int) -> list[ItemText]:
        return [item_of(entry) for entry in entries(owner_id, diary_id=object_id, number__range=(first, last))]

    def read_items(self, owner_id: int, items: Sequence[ItemKey]) -> dict[ItemKey, ItemText]:
        diaries = {diary_id for diary_id, _ in items}
        found = {(entry.diary_id, entry.number): item_of(entry) for entry in entries(owner_id, diary_id__in=diaries)}
        return {key: found[key] for key in items if key in found}

    def read_elements(self, owner_id: int, element_ids: Iterable[int]) -> dict[int, Element]:
        return {entry.pk: element_of(entry) for entry in entries(owner_id, pk__in=set(element_ids))}

    def url(self, object_id: int, item_number: int) -> str:
        return f"/diaries/{object_id}#{item_number}"

    def reading_url(self, object_id: int, item_number: int) -> str:
        return ""

    def reconcile(self) -> int:
        return 0


def entries(owner_id: int, **conditions: object) -> models.QuerySet[Entry]:
    return Entry._default_manager.filter(owner_id=owner_id, **conditions).order_by("diary_id", "number")


def element_of(entry: Entry) -> Element:
    return Element(entry.pk, entry.number, (ElementPart(0, "user", entry.text),))


def item_of(entry: Entry) -> ItemText:
    return ItemText(entry.number, entry.text[:300], (element_of(entry),), entry.pk, DAY)


def write(owner: User, diary_id: int, *texts: str, version: int, archived: bool = False) -> None:
    """Put the entries `texts` at the end of a diary."""
    with transaction.atomic():
        first = entries(owner.pk, diary_id=diary_id).count()
        rows = [Entry(owner=owner, diary_id=diary_id, number=n, text=text) for n, text in enumerate(texts, first)]
        Entry._default_manager.bulk_create(rows)
        total = first + len(rows)
        facts = SourceFacts(
            DiaryAdapter.kind, owner.pk, diary_id, version, total, total, DAY, DAY, title="Diary", archived=archived
        )
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
        unregister(DiaryAdapter.kind)
        with connection.schema_editor() as editor:
            editor.delete_model(Entry)
