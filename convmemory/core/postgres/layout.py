"""The distribution of owners over the nodes of a Citus cluster, as read when a connection is opened.

On one server, the usual case, the tables of owners are in the same schema as all others. On a cluster each group of
owners has a schema with all tables of owners, which lies on a node, and the schema `every_group` has a view over each
of them, which reads the rows of all groups. Accounts and other shared tables stay on the coordinator. Reasons:
docs/adr/0072-owner-group-per-citus-node.md.
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
    """The numbers of the groups, none on one server; the schema of shared tables; and the search path to it.

    `owner_groups` caches the groups of owners that this connection has looked up: no owner ever changes groups.
    """

    groups: tuple[int, ...] = ()
    home: str = "public"
    home_path: str = ""
    owner_groups: dict[int, int] = field(default_factory=dict)

    def path_to(self, group: int | None) -> str:
        """Return the search path to a group; None (an owner without a group) and 0 lead to no owner's tables."""
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


ONE_SERVER = Layout()
_layouts: MutableMapping[psycopg.Connection[Any], Layout] = WeakKeyDictionary()


def schema_of(group: int) -> str:
    """Return the schema that holds a group's tables."""
    return f"group_{group}"


def note_layout(connection: psycopg.Connection[Any]) -> Layout:
    """Query the server of a new connection for the distribution of its owners."""
    row = connection.execute(load_sql("convmemory.core.postgres", "layout").encode()).fetchone()
    assert row is not None
    numbers, home, home_path = row
    _layouts[connection] = layout = Layout(tuple(numbers), home, home_path)
    if layout.groups:
        connection.execute(load_sql("convmemory.core.postgres", "pass_settings_on").encode())
    return layout


def is_noted(connection: psycopg.Connection[Any]) -> bool:
    return connection in _layouts


def layout_of(connection: psycopg.Connection[Any]) -> Layout:
    return _layouts.get(connection, ONE_SERVER)
