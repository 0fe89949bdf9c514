"""`manage.py bench row-security`: searches as the application makes them, under policies, and as the tables' owner.

Both take turns, question by question, over owners of several sizes who share the tables. Each statement of a search is
explained for both, too: a policy must not cost a statement its index.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from functools import partial
from typing import Any

from django.contrib.auth.models import User
from django.db import connection

from convmemory.core.acting import acting_for, schema_owner
from convmemory.embeddings.spaces import active_space
from convmemory.ops.benchmarks.bench import Figure, percentile, refresh_statistics, scratch_user, timed_s
from convmemory.ops.benchmarks.synthetic import PASSAGES_PER_TURN, TextMaker, VectorMaker, fill_turns
from search import vector_index
from search.searching import SearchQuery, search

SIZES = (2_000, 16_000, 60_000)
"""Passages of each owner."""
ROUNDS = 150
GOAL = "<= 1.10"

Identity = Callable[[], AbstractContextManager[None]]


def bench_row_security() -> list[Figure]:
    """Milliseconds of searches with the policies and without them, and how many statements lose an index to them."""
    space, maker = active_space(), TextMaker()
    vectors = VectorMaker(space.dimensions)
    owners = {size: scratch_user(f"bench-row-security-{size}") for size in SIZES}
    for size, owner in owners.items():
        fill_turns(owner=owner, space=space, turns=size // PASSAGES_PER_TURN, maker=maker, vectors=vectors)
    vector_index.ensure_passage_index(space)
    refresh_statistics()
    return [figure for size, owner in owners.items() for figure in _of_owner(owner, size, maker)]


def _of_owner(owner: User, size: int, maker: TextMaker) -> Iterator[Figure]:
    held, free = _milliseconds(owner, maker)
    for share in (50, 95):
        label = f"search p{share}, owner with {size:,} passages"
        with_policies, without = percentile(held, share), percentile(free, share)
        yield Figure(f"{label}, with the policies", with_policies, "ms")
        yield Figure(f"{label}, without", without, "ms")
        yield Figure(f"{label}, with against without", with_policies / without, "ratio", GOAL)
    read = read_in_whole(owner, maker.question())
    yield Figure(f"statements that read a table in whole for it, owner with {size:,}", len(read), "statements", "0")


def _milliseconds(owner: User, maker: TextMaker) -> tuple[list[float], list[float]]:
    """Of searches that the policies hold, and of those that they do not; each asks something else."""
    ways: tuple[Identity, Identity] = (partial(acting_for, owner.pk), schema_owner)
    found: tuple[list[float], list[float]] = ([], [])
    for number in range(-1, ROUNDS):  # the first to warm up
        for way in (0, 1) if number % 2 else (1, 0):
            with ways[way]():
                connection.cursor().close()  # logging in is no part of a search
                seconds = timed_s(partial(search, caller=owner, query=SearchQuery(text=maker.question())))
            if number >= 0:
                found[way].append(seconds * 1000)
    return found


def read_in_whole(owner: User, question: str) -> dict[str, set[str]]:
    """The statements of a search that read tables in whole under the policies alone, with those tables.

    Another index is no loss: of two that cost nearly the same the planner takes now the one, now the other.
    """
    found = {}
    for statement, parameters in _statements_of_search(owner, question):
        with acting_for(owner.pk):
            held = set(_scanned(statement, parameters))
        with schema_owner():
            free = set(_scanned(statement, parameters))
        if lost := held - free:
            found[statement] = lost
    return found


def _statements_of_search(owner: User, question: str) -> list[tuple[str, Any]]:
    statements: list[tuple[str, Any]] = []

    def note(execute: Callable[..., Any], sql: str, params: Any, many: bool, context: Any) -> Any:
        if sql.lstrip().upper().startswith(("SELECT", "WITH", "--")):
            statements.append((sql, params))
        return execute(sql, params, many, context)

    with acting_for(owner.pk), connection.execute_wrapper(note):
        search(caller=owner, query=SearchQuery(text=question))
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
