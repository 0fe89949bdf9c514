"""`manage.py bench scale`: search at 100,000 and, with `--passages 1000000`, a million synthetic passages.

Three kinds of owners share the tables: a small one, a large one, and others with the rest.
"""

from typing import TYPE_CHECKING

from django.db import connection

from benchmarks.speeds.bench import Figure, fresh_user, refresh_statistics, search_ms, time_figures
from benchmarks.speeds.synthetic import PASSAGES_PER_TURN, TextMaker, VectorMaker, fill_turns
from convmemory.accounts.callers import Caller
from convmemory.conversations.filters import Filters
from convmemory.core.sql import load_sql
from convmemory.embeddings.spaces import active_space

if TYPE_CHECKING:
    from django.contrib.auth.models import User

SMALL, LARGE = 2_000, 100_000


def bench_scale(passages: int) -> list[Figure]:
    """Return latencies, recall of the passage retriever through the index, and bytes per passage."""
    space = active_space()
    maker, vectors = TextMaker(), VectorMaker(space.dimensions)
    owners: dict[str, User] = {}
    left = passages
    plan = [("small", SMALL), ("large", LARGE)]
    plan += [(f"other-{number}", LARGE) for number in range(passages // LARGE + 1)]
    for name, wanted in plan:
        count = min(wanted, left)
        if count <= 0:
            break
        owners[name] = fresh_user(f"bench-scale-{name}")
        turns = count // PASSAGES_PER_TURN
        fill_turns(caller=Caller.of(owners[name]), space=space, turns=turns, maker=maker, vectors=vectors)
        left -= count
    refresh_statistics()
    figures: list[Figure] = []
    for name, count in (("small", SMALL), ("large", min(LARGE, passages))):
        values = search_ms(Caller.of(owners[name]), maker)
        label = f"hybrid, owner with {count:,} of {passages:,} passages"
        goal = "<= 40" if name == "small" else "<= 80"
        figures += time_figures(label, values, goal)
    filtered = search_ms(Caller.of(owners["large"]), maker, filters=Filters(agent="a"))
    figures += time_figures("the same with a filter on half of it", filtered, "<= 80")
    with connection.cursor() as cursor:
        cursor.execute(load_sql("search", "bytes_per_passage"))
        (size,) = cursor.fetchone()
    return [*figures, Figure("blocks of passages, bytes per passage", size, "bytes", "<= 2,200")]
