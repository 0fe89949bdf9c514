"""Moves groups to the nodes of a Citus cluster: each group lies on one node, the shared tables on the coordinator.

A node has no shared tables, so foreign keys to them are dropped. It has the objects that were created after the
extension, including text search configurations, but functions are not marked as leakproof there. See
docs/adr/0072-owner-group-per-citus-node.md.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import psycopg
from django.db import connection
from psycopg import sql

from convmemory.core.errors import ConvMemoryError, InvalidInput
from convmemory.core.program import COMMAND
from convmemory.core.sql import load_sql
from convmemory.ops.groups.schemas import make_views_over_all, run

Link = psycopg.Connection


class NodeRefused(ConvMemoryError):
    """A node refused a statement, or cannot work with these tables. Groups that were not moved stay where they were."""


@dataclass(frozen=True, slots=True)
class GroupOnNode:
    """A group and its node, as host:port; its passages and its bytes.

    If the node does not answer, both are 0 and `trouble` is the reason.
    """

    number: int
    node: str
    passages: int = 0
    size: int = 0
    trouble: str = ""


def require_nodes(link: Link) -> None:
    """Raises: InvalidInput if this server is no coordinator of a cluster."""
    row = link.execute(load_sql("convmemory.ops.groups", "is_coordinator").encode()).fetchone()
    if not (row and row[0]):
        raise InvalidInput(
            "This server has no nodes: owners are distributed over those of a Citus cluster (docs/scaling.md)."
        )


def schemas_beside_nodes(link: Link) -> list[str]:
    """Return the schemas of groups that still lie on the coordinator."""
    return [
        name for (name,) in link.execute(load_sql("convmemory.ops.groups", "groups_beside_nodes").encode()).fetchall()
    ]


def move_to_nodes(link: Link, tell: Callable[[str], None]) -> None:
    """Move each group that still lies on the coordinator to a node, which Citus chooses.

    Raises: NodeRefused.
    """
    schemas = schemas_beside_nodes(link)
    if schemas:
        marking = load_sql("convmemory.core", "mark_leakproof")
        refused = link.execute(load_sql("convmemory.ops.groups", "run_on_nodes").encode(), [marking]).fetchall()
        if refused:
            raise NodeRefused("; ".join(f"{node}: {reason}" for node, reason in refused))
    for schema in schemas:
        with link.transaction():
            dropping = sql.SQL(load_sql("convmemory.ops.groups", "drop_keys_to_shared"))
            link.execute(dropping.format(schema=sql.Literal(schema)))
            for step in ("give_to_node", "let_go_of_copies"):
                run(link, load_sql("convmemory.ops.groups", step), [schema])
        tell(f"{schema} is on a node.")
    with link.transaction():
        make_views_over_all(link)


def groups_on_nodes(numbers: Sequence[int]) -> list[GroupOnNode]:
    """Return the node of each of these groups."""
    with connection.cursor() as cursor:
        cursor.execute(load_sql("convmemory.ops.groups", "group_nodes"), [list(numbers)])
        return [
            GroupOnNode(number, node, *json.loads(answer)) if answered else GroupOnNode(number, node, trouble=answer)
            for number, node, answered, answer in cursor.fetchall()
        ]


def refuse_older_tables(link: Link) -> None:
    """Raises: NodeRefused if the database was migrated before Citus came into it."""
    if link.execute(load_sql("convmemory.ops.groups", "unsent_configurations").encode()).fetchone():
        raise NodeRefused(
            "The tables here are older than the extension Citus, which sends nodes only what is made after it. Make a "
            f"database with the extension and its nodes, run `{COMMAND} migrate` there, and copy the rows into it."
        )
