"""Notes on the items that the operators of a query exclude: a hyphen may have been meant as a hyphen.

Compares the results with those of the same query without its operators. Takes at most one database query.
"""

from collections.abc import Sequence

from django.utils.translation import ngettext, pgettext

from convmemory.core.sql import PendingQuery, load_sql
from search.query_text import QueryText
from search.ranking.stages import RankedItems
from search.retrieval.candidates import ItemKeys, split_keys
from search.retrieval.filters import phrase_sql
from search.retrieval.prepared import PreparedQuery

# The number of best items without operators that are checked if no item remains with them.
LOOKED_AT = 50


def notes_on_operators(text: QueryText, ranked: RankedItems, free: RankedItems) -> list[str]:
    """Return a note naming the operators that exclude all items or the best one; none if they exclude neither."""
    best_first = free.table.keys[free.order[:LOOKED_AT]]
    if not len(best_first) or best_first[0] in ranked.table.keys:
        return []
    nothing_left = not len(ranked.order)
    keeping_out = _keeping_out(free.query, text, best_first if nothing_left else best_first[:1])
    if not keeping_out:
        return []
    return [_note_text(nothing_left, len(keeping_out)) % {"named": listed(keeping_out)}]


def _note_text(nothing_left: bool, count: int) -> str:
    if nothing_left:
        return ngettext(
            "%(named)s keeps out every result: remove it to see some.",
            "%(named)s keep out every result: remove them to see some.",
            count,
        )
    return ngettext(
        "%(named)s keeps out the result that would come first: remove it to see it.",
        "%(named)s keep out the result that would come first: remove them to see it.",
        count,
    )


def _keeping_out(query: PreparedQuery, text: QueryText, items: ItemKeys) -> list[str]:
    """Return the operators, as typed, that exclude any of these items."""
    sources, numbers = split_keys(items)
    said = [*text.phrases, *text.excluded]
    parameters = {"owner": query.owner_id, "phrases": said, "sources": sources, "items": numbers}
    statement = load_sql("search", "phrases_found").replace("{phrase}", phrase_sql("p.phrase", query.languages))
    rows = PendingQuery(statement, parameters).rows()
    held = {int(place): int(count) for place, count in rows}
    return [
        operator
        for place, operator in enumerate(text.operators)
        if (held[place] < len(items) if place < len(text.phrases) else held[place] > 0)
    ]


def listed(names: Sequence[str]) -> str:
    """Join names as in a sentence: "a, b and c"."""
    return pgettext("before the last of several names", " and ").join(filter(None, [", ".join(names[:-1]), names[-1]]))
