"""How owners are spread over the schemas of a database, as each connection finds it when it is made.

One group, the usual case: their tables stand beside all others. Several: each group has a schema with all tables of
owners, and the schema `every_group` has a table over each of them, which reads, changes and deletes rows of all groups
and takes none. The accounts and what else is shared stay where they were. Reasons: docs/adr/0072-owner-groups.md.
"""

from collections.abc import MutableMapping
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakKeyDictionary

import psycopg

from convmemory.core.sql import load_sql

OVER_ALL = "every_group"


@dataclass(frozen=True, slots=True)
class Layout:
    """The numbers of the groups, none where there is one; the schema of shared tables; the search path to that.

    With `has_nodes` this server hands statements on to those that hold the groups, see `ops/groups/nodes.py`. `known`
    holds the groups of owners that this connection has asked for: they stay while anybody is connected.
    """

    groups: tuple[int, ...] = ()
    home: str = "public"
    home_path: str = ""
    has_nodes: bool = False
    known: dict[int, int] = field(default_factory=dict)

    def path_to(self, group: int | None) -> str:
        """The search path to a group; None, of an owner who belongs to none, or 0 leads to no owner's tables."""
        return f'"{schema_of(group)}", {self.home_path}' if group else self.home_path

    @property
    def path_over_all(self) -> str:
        return f'"{OVER_ALL}", {self.home_path}'

    @property
    def paths(self) -> list[str]:
        """The search paths to the shared tables and to each group."""
        return [self.home_path, *map(self.path_to, self.groups)]

    @property
    def schemas(self) -> list[str]:
        """Every schema with tables that hold rows."""
        return [self.home, *map(schema_of, self.groups)]


ONE_GROUP = Layout()
_layouts: MutableMapping[psycopg.Connection[Any], Layout] = WeakKeyDictionary()


def schema_of(group: int) -> str:
    """The schema that holds a group's tables."""
    return f"group_{group}"


def group_named(schema: str) -> int | None:
    """The group whose tables a schema holds; None for that of the shared tables."""
    prefix, _, number = schema.rpartition("_")
    return int(number) if prefix == "group" and number.isdigit() else None


def note_layout(connection: psycopg.Connection[Any]) -> Layout:
    """Ask the server of a new connection how its owners are spread."""
    row = connection.execute(load_sql("convmemory.core", "layout").encode()).fetchone()
    assert row is not None
    numbers, home, home_path, is_coordinator = row
    _layouts[connection] = found = Layout(tuple(numbers), home, home_path, has_nodes=bool(numbers and is_coordinator))
    if found.has_nodes:
        connection.execute(load_sql("convmemory.core", "pass_settings_on").encode())
    return found


def is_noted(connection: psycopg.Connection[Any]) -> bool:
    return connection in _layouts


def layout_of(connection: psycopg.Connection[Any]) -> Layout:
    return _layouts.get(connection, ONE_GROUP)
