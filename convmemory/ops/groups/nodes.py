"""Groups on several servers: with Citus each group lies whole on one node, the shared tables on the coordinator.

A node has no shared tables, so that no foreign key leads there. It has what was made while the extension was there,
text search configurations among it, but no marks of functions.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import psycopg
from django.db import connection
from psycopg import sql

from convmemory.core.errors import ConvMemoryError
from convmemory.core.sql import load_sql
from convmemory.ops.groups.schemas import make_tables_over_all, run

Link = psycopg.Connection


class NodeRefused(ConvMemoryError):
    """A node does not do what it was asked. Groups that it has not got yet are where they were."""


@dataclass(frozen=True, slots=True)
class GroupOnNode:
    """A group and the node that holds it, as host:port; its passages by the planner's count, and its bytes.

    Where the node does not answer both are 0, and `trouble` says why.
    """

    number: int
    node: str
    passages: int = 0
    size: int = 0
    trouble: str = ""


def has_nodes(link: Link) -> bool:
    """Whether this server hands tables on to others."""
    row = link.execute(load_sql("convmemory.ops", "is_coordinator").encode()).fetchone()
    return bool(row and row[0])


def schemas_beside_nodes(link: Link) -> list[str]:
    """The schemas of groups that still lie on the coordinator; none where there are no nodes."""
    if not has_nodes(link):
        return []
    return [name for (name,) in link.execute(load_sql("convmemory.ops", "groups_beside_nodes").encode()).fetchall()]


def give_to_nodes(link: Link, tell: Callable[[str], None]) -> None:
    """Give each group that has no node to one; Citus chooses which. A run that was killed goes on.

    Raises: NodeRefused.
    """
    schemas = schemas_beside_nodes(link)
    if schemas:
        _refuse_unsent_configurations(link)
        _mark_functions(link)
    for schema in schemas:
        with link.transaction():
            _give(link, schema)
        tell(f"{schema} is on a node.")
    with link.transaction():
        make_tables_over_all(link)


def groups_on_nodes(numbers: Sequence[int]) -> list[GroupOnNode]:
    """Where these groups lie."""
    with connection.cursor() as cursor:
        cursor.execute(load_sql("convmemory.ops", "group_nodes"), [list(numbers)])
        return [_on_node(*row) for row in cursor.fetchall()]


def _on_node(number: int, node: str, answered: bool, answer: str) -> GroupOnNode:
    return GroupOnNode(number, node, *json.loads(answer)) if answered else GroupOnNode(number, node, trouble=answer)


def _give(link: Link, schema: str) -> None:
    dropping = sql.SQL(load_sql("convmemory.ops", "drop_keys_to_shared"))
    link.execute(dropping.format(schema=sql.Literal(schema)))
    for step in ("give_to_node", "let_go_of_copies"):
        run(link, load_sql("convmemory.ops", step), [schema])


def _refuse_unsent_configurations(link: Link) -> None:
    if link.execute(load_sql("convmemory.ops", "unsent_configurations").encode()).fetchone():
        raise NodeRefused(
            "The tables here are older than Citus, which sends nodes only what was made beside it. Make a database "
            "with the extension and its nodes, run `manage.py migrate` there, and copy the rows into it."
        )


def _mark_functions(link: Link) -> None:
    marking = load_sql("convmemory.core", "mark_leakproof")
    refused = link.execute(load_sql("convmemory.ops", "run_on_nodes").encode(), [marking]).fetchall()
    if refused:
        raise NodeRefused("; ".join(f"{node}: {reason}" for node, reason in refused))
