"""`manage.py bench row-security`: measure the cost of separating owners for a search by policies.

Compares, question by question in turn, searches as the application runs them, under policies, with those of the tables'
owner, whom policies do not affect. Owners of several sizes share the tables. Each statement of a search is explained
too: a policy must not cost it an index. See docs/adr/0066-row-level-security.md.
"""

import gc
import json
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from django.db import DEFAULT_DB_ALIAS, connection, connections
from numpy.typing import NDArray

from benchmarks.speeds.bench import Figure, fresh_user, refresh_statistics
from benchmarks.speeds.synthetic import PASSAGES_PER_TURN, TextMaker, VectorMaker, fill_turns
from convmemory.accounts.callers import Caller
from convmemory.core.acting import acting_for, schema_owner
from convmemory.core.postgres.base import DatabaseWrapper
from convmemory.embeddings.cache import query_embedding
from convmemory.embeddings.models import EmbeddingSpace
from convmemory.embeddings.spaces import active_space
from search.searching import SearchQuery, search

SIZES = (2_000, 16_000, 60_000, 500_000)
"""The passages of each measured owner, up to the requested size."""
UP_TO = 60_000
NEIGHBOURS_PASSAGES = 800
"""The passages of each other owner."""
NEIGHBOURS = 8
ROUNDS = 300
# The draws of the bootstrap.
RESAMPLES = 2_000
GOAL = "<= 1.10"

Identity = Callable[[int], AbstractContextManager[None]]
Milliseconds = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Way:
    """A way to search: through a connection of its own, as the owner with a given number or with another log-in."""

    name: str
    wrapper: DatabaseWrapper
    identity: Identity

    @contextmanager
    def taken(self, archive_id: int) -> Iterator[None]:
        usual = connections[DEFAULT_DB_ALIAS]
        connections[DEFAULT_DB_ALIAS] = self.wrapper
        try:
            with self.identity(archive_id):
                self.wrapper.ensure_connection()  # logging in is not part of a search
                yield
        finally:
            connections[DEFAULT_DB_ALIAS] = usual


def bench_row_security(*, up_to: int = UP_TO, rounds: int = ROUNDS) -> list[Figure]:
    """Fill the database; return milliseconds of searches with and without policies, and statements without index."""
    space, maker = active_space(), TextMaker()
    # Create the owners by the number of their passages, and other owners with few.
    vectors = VectorMaker(space.dimensions)
    fill = partial(fill_turns, space=space, maker=maker, vectors=vectors)
    owners = {size: fresh_user(f"bench-row-security-{size}") for size in SIZES if size <= up_to}
    for size, owner in owners.items():
        fill(caller=Caller.of(owner), turns=size // PASSAGES_PER_TURN)
    for number in range(NEIGHBOURS):
        neighbour = fresh_user(f"bench-row-security-neighbour-{number}")
        fill(caller=Caller.of(neighbour), turns=NEIGHBOURS_PASSAGES // PASSAGES_PER_TURN)
    refresh_statistics()
    policies = Way("with policies", _own_connection(), acting_for)
    without = Way("without", _own_connection(), lambda archive_id: schema_owner())
    figures: list[Figure] = []
    for size, owner in owners.items():
        figures += _compare(policies, without, Caller.of(owner), space, size, maker, rounds)
        read = read_in_whole(Caller.of(owner), maker.question())
        tables = ", ".join(sorted(set().union(*read.values()))) or "a table"
        figures.append(Figure(f"statements that policies make read {tables} in whole", len(read), "statements"))
    for way in (policies, without):
        way.wrapper.close()
    return figures


def _own_connection() -> DatabaseWrapper:
    """Return a connection that stays open from one search to the next."""
    values = connection.settings_dict
    options = {name: value for name, value in values["OPTIONS"].items() if name != "pool"}
    return DatabaseWrapper({**values, "OPTIONS": options}, DEFAULT_DB_ALIAS)


def _compare(
    first: Way, second: Way, caller: Caller, space: EmbeddingSpace, size: int, maker: TextMaker, rounds: int
) -> Iterator[Figure]:
    times, differing = _milliseconds((first, second), caller, space, maker, rounds)
    for share in (50, 95):
        label = f"search p{share}, {size:,} passages"
        one, other = np.percentile(times, share, axis=0).tolist()
        # The 95 % bootstrap interval of the ratio of both columns' percentiles; the same at each call.
        drawn = times[np.random.default_rng(0).integers(0, len(times), (RESAMPLES, len(times)))]
        percentiles = np.percentile(drawn, share, axis=1)
        low, high = np.quantile(percentiles[:, 0] / percentiles[:, 1], [0.025, 0.975])
        low, high = float(low), float(high)
        yield Figure(f"{label}, {first.name}", one, "ms")
        yield Figure(f"{label}, {second.name}", other, "ms")
        note = f"{low:.2f} to {high:.2f} (95 %, {rounds} questions)"
        yield Figure(f"{label}, {first.name} against {second.name}", one / other, "ratio", f"{GOAL}  {note}")
    yield Figure(f"searches with other hits, {first.name} and {second.name}", differing, "searches", "0")


def _milliseconds(
    ways: tuple[Way, Way], caller: Caller, space: EmbeddingSpace, maker: TextMaker, rounds: int
) -> tuple[Milliseconds, int]:
    """Return milliseconds of the searches of both ways (rounds, 2), and how often their hits differed.

    Both ask the same questions, whose vectors are cached before.
    """
    times, differing = np.zeros((rounds, len(ways))), 0
    gc.collect()
    gc.freeze()  # as a web process does once it is loaded
    for number in range(-2, rounds):  # the first to warm up
        text = maker.question()
        query_embedding(space, text, archive_id=caller.archive_id)
        hits: dict[int, list[tuple[int, int]]] = {}
        for index in (0, 1) if number % 2 else (1, 0):
            with ways[index].taken(caller.archive_id):
                milliseconds, hits[index] = _search(caller, text)
            if number >= 0:
                times[number, index] = milliseconds
        differing += hits[0] != hits[1]
    return times, differing


def _search(caller: Caller, text: str) -> tuple[float, list[tuple[int, int]]]:
    """Return milliseconds, and the turns found."""
    started = time.perf_counter()
    hits = search(caller=caller, query=SearchQuery(text=text)).hits
    milliseconds = (time.perf_counter() - started) * 1000
    return milliseconds, [(hit.object_id, hit.number) for hit in hits]


def read_in_whole(caller: Caller, question: str) -> dict[str, set[str]]:
    """Return the statements of a search that scan whole tables only under the policies, with those tables.

    A different index is no loss: of two that cost nearly the same the planner takes either.
    """
    statements = {}
    for statement, parameters in _statements_of_search(caller, question):
        with acting_for(caller.archive_id):
            secured = set(_scanned(statement, parameters))
        with schema_owner():
            free = set(_scanned(statement, parameters))
        if lost := secured - free:
            statements[statement] = lost
    return statements


def _statements_of_search(caller: Caller, question: str) -> list[tuple[str, Any]]:
    statements: list[tuple[str, Any]] = []

    def note(execute: Callable[..., Any], sql: str, params: Any, many: bool, context: Any) -> Any:
        if sql.lstrip().upper().startswith(("SELECT", "WITH", "--")):
            statements.append((sql, params))
        return execute(sql, params, many, context)

    with acting_for(caller.archive_id), connection.execute_wrapper(note):
        search(caller=caller, query=SearchQuery(text=question))
    return statements


def _scanned(statement: str, parameters: Sequence[Any] | dict[str, Any] | None) -> Iterator[str]:
    with connection.cursor() as cursor:
        cursor.execute(f"EXPLAIN (FORMAT JSON) {statement}", parameters)
        ((plan,),) = cursor.fetchall()
    yield from _scanned_in((json.loads(plan) if isinstance(plan, str) else plan)[0]["Plan"])


def _scanned_in(node: dict[str, Any]) -> Iterator[str]:
    if node["Node Type"] == "Seq Scan":
        yield node["Relation Name"]
    for inner in node.get("Plans", ()):
        yield from _scanned_in(inner)
