"""Reads the headings of items, for staff who inspect the neighbours of a vector."""

from collections.abc import Iterable

from django.db.models import Q

from search.models import Item


def headings_of(items: Iterable[tuple[str, int, int]]) -> dict[tuple[str, int, int], str]:
    """Return the headings of some items (kind, object, number); the caller has checked the permission to read them."""
    condition = Q(pk__in=[])
    for kind, object_id, number in items:
        condition |= Q(source__kind=kind, source__object_id=object_id, number=number)
    rows = Item.objects.filter(condition).values_list("source__kind", "source__object_id", "number", "heading")
    return {(kind, object_id, number): heading for kind, object_id, number, heading in rows}
