"""Finds a single sign that is no word: a character of a script without spaces, or an emoji.

The index has pairs of such characters and no emoji, so the texts themselves are scanned: the newest of them, a bounded
number. Source: docs/adr/0085-queries-as-people-paste-them.md.
"""

import numpy as np
from django.db.models import Sum

from search.models import Source
from search.query import shown_kinds_in
from search.retrieval.candidates import NO_ITEMS, ItemKeys, distinct, item_keys
from search.retrieval.prepared import PreparedQuery
from search.sources import registered

# The newest elements of each kind of source that are scanned, and those found that are read to check them.
SCANNED, MOST_READ = 100_000, 300


def items_with_sign(query: PreparedQuery, sign: str) -> tuple[ItemKeys, bool]:
    """Return the keys (sorted) of items that pass the filters and contain the sign in scope, and whether all are there.

    Four queries for each kind of source.
    """
    kinds = frozenset(shown_kinds_in(query.scope, shows_calls=query.shows_calls))
    keys: list[ItemKeys] = [NO_ITEMS]
    is_all = True
    for kind, adapter in registered().items():
        if query.filters.kinds and kind not in query.filters.kinds:
            continue
        elements_of_objects = adapter.elements_with(query.archive_id, sign, scanned=SCANNED, limit=MOST_READ)
        home = {element: object_id for object_id, element in elements_of_objects}
        of_archive = Source.objects.filter(archive_id=query.archive_id, kind=kind)
        source_of = dict(of_archive.filter(object_id__in=set(home.values())).values_list("object_id", "pk"))
        containing = [
            (source_of[home[number]], element.item_number)
            for number, element in adapter.read_elements(query.archive_id, home).items()
            if home[number] in source_of
            and any(sign in f"{part.label}\n{part.text}" for part in element.parts if part.kind in kinds)
        ]
        if containing:
            keys.append(item_keys(*zip(*containing, strict=True)))
            elements = of_archive.aggregate(all=Sum("element_count"))["all"]
            is_all = is_all and len(elements_of_objects) < MOST_READ and elements <= SCANNED
    distinct_keys = distinct(np.concatenate(keys))
    return distinct_keys[query.eligibility.admitted(distinct_keys)], is_all
