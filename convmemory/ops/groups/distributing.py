"""Distributes the owners of a database over groups on the nodes of a Citus cluster, or adds groups to existing ones.

While the rows are copied, the tables of owners can be read and not written. Each group is created in a transaction of
its own under another name; the last transaction gives the groups their names and drops the tables that they were copied
from. A run that is killed before leaves the database as it was, and the next one starts over. Each group then moves to
a node (`nodes.py`); the next run finishes the work of a killed one. See docs/adr/0072-owner-group-per-citus-node.md.
"""

import heapq
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import psycopg
from psycopg import sql

from convmemory.core.errors import ConvMemoryError, InvalidInput
from convmemory.core.postgres import layout
from convmemory.core.postgres.groups import grouped_tables
from convmemory.core.postgres.layout import OVER_ALL, Layout, schema_of
from convmemory.core.sql import load_sql
from convmemory.ops.groups.links import own_link, refuse_while_in_use
from convmemory.ops.groups.nodes import move_to_nodes, refuse_older_tables, require_nodes, schemas_beside_nodes
from convmemory.ops.groups.schemas import choose_path, columns_of, make_group, run

MOST_GROUPS = 64
IDS = "distributing_ids"
OTHER_ORDERS = ("synchronize_seqscans", "enable_indexscan", "enable_nestloop", "enable_mergejoin")
"""Plans that would not return a table's rows in their physical order."""

Tell = Callable[[str], None]
Link = psycopg.Connection


class DistributionFailed(ConvMemoryError):
    """The copied rows differ from the original ones. The database is unchanged."""


@dataclass(frozen=True, slots=True)
class Distribution:
    """The number of owners of each group, by its number, and the number of copied rows."""

    owners: Mapping[int, int]
    rows: int = 0


def distribute(*, groups: int, tell: Tell = lambda line: None) -> Distribution:
    """Distribute all owners over `groups` groups; if there are some already, add empty ones up to that number.

    Raises: InvalidInput if the number is wrong, or the database has no nodes or is in use; DistributionFailed,
    NodeRefused.
    """
    with own_link() as guard:
        require_nodes(guard)
        present = layout.note_layout(guard)
        first, least = len(present.groups) + 1, max(2, len(present.groups) + (not schemas_beside_nodes(guard)))
        if not least <= groups <= MOST_GROUPS:
            raise InvalidInput(f"Name {least} to {MOST_GROUPS} groups: there are {len(present.groups) or 'none'} yet.")
        refuse_while_in_use(guard)
        refuse_older_tables(guard)
        _drop_drafts(guard)
        if present.groups:
            # Create empty groups, which new owners join.
            numbers = range(first, groups + 1)
            with guard.transaction():
                for number in numbers:
                    make_group(
                        guard, schema=_draft(number), tables=grouped_tables(), source=schema_of(1),
                        home_path=present.home_path, fill=lambda: None,
                    )  # fmt: skip
                choose_path(guard, present.home_path)
                run(guard, load_sql("convmemory.core.postgres", "drop_views_over_all"))
                _name_groups(guard, numbers)
            done = Distribution(dict.fromkeys(numbers, 0))
        else:
            try:
                done = _spread(guard, present, groups, tell)
            except BaseException:
                _drop_drafts(guard)
                raise
        move_to_nodes(guard, tell)
    return done


def _drop_drafts(link: Link) -> None:
    for (name,) in link.execute(load_sql("convmemory.ops.groups", "drafts").encode()).fetchall():
        link.execute(sql.SQL("DROP SCHEMA {} CASCADE").format(sql.Identifier(name)))


def _spread(guard: Link, before_spread: Layout, groups: int, tell: Tell) -> Distribution:
    tables = grouped_tables()
    places = [sql.Identifier(before_spread.home, table) for table in tables]
    with own_link() as maker, guard.transaction():
        refuse_while_in_use(guard, backend_pids=[maker.info.backend_pid])
        guard.execute(sql.SQL("LOCK TABLE {} IN EXCLUSIVE MODE").format(sql.SQL(", ").join(places)))
        with maker.transaction():
            owners = _place_owners(maker, groups)
            # Sequences that go on where those of the tables stand: columns that draw from them, and their names.
            numbered = maker.execute(
                load_sql("convmemory.ops.groups", "numbered_columns").encode(), [list(tables)]
            ).fetchall()
            maker.execute(sql.SQL("CREATE SCHEMA {}").format(sql.Identifier(IDS)))
            for table, column, name in numbered:
                old, new = sql.Identifier(before_spread.home, name), sql.Identifier(IDS, f"{table}_{column}_seq")
                maker.execute(sql.SQL("CREATE SEQUENCE {}").format(new))
                going_on = sql.SQL(load_sql("convmemory.ops.groups", "go_on_counting"))
                maker.execute(going_on.format(new=sql.Literal(new.as_string(maker)), old=old))
            numbered = [(table, column, f"{table}_{column}_seq") for table, column, _ in numbered]
        for number in range(1, groups + 1):
            with maker.transaction():
                _copy_group(maker, before_spread, number, tables, numbered)
            tell(f"Group {number} of {groups}: {owners[number]} owners.")
        # The number of rows of all groups.
        rows = 0
        for table in tables:
            before = _count(maker, before_spread.home, table)
            after = sum(_count(maker, _draft(number), table) for number in range(1, groups + 1))
            if before != after:
                raise DistributionFailed(
                    f"{table} has {before} rows, but {after} were copied. The database is unchanged."
                )
            rows += after
        home_tables = sql.SQL(", ").join(sql.Identifier(before_spread.home, table) for table in tables)
        guard.execute(sql.SQL("DROP TABLE {}").format(home_tables))
        for _, _, name in numbered:
            moving = sql.SQL("ALTER SEQUENCE {} SET SCHEMA {}")
            guard.execute(moving.format(sql.Identifier(IDS, name), sql.Identifier(before_spread.home)))
        guard.execute(sql.SQL("DROP SCHEMA {}").format(sql.Identifier(IDS)))
        choose_path(guard, before_spread.home_path)
        run(guard, load_sql("convmemory.core", "grant_rights"))  # to the sequences
        guard.execute(sql.SQL("CREATE SCHEMA {}").format(sql.Identifier(OVER_ALL)))
        _name_groups(guard, range(1, groups + 1))
    return Distribution(owners, rows)


def _place_owners(maker: Link, groups: int) -> dict[int, int]:
    """The largest first, each into the group that has least."""
    sizes = maker.execute(load_sql("convmemory.ops.groups", "owner_sizes").encode()).fetchall()
    loads = [(0, 0, number) for number in range(1, groups + 1)]
    places: dict[int, int] = {}
    for archive_id, size in sorted(sizes, key=lambda row: (-row[1], row[0])):
        load, owners, number = heapq.heappop(loads)
        heapq.heappush(loads, (load + size, owners + 1, number))
        places[archive_id] = number
    run(maker, load_sql("convmemory.ops.groups", "forget_places"))
    run(maker, load_sql("convmemory.ops.groups", "place_owners"), [list(places), list(places.values())])
    return {number: owners for _, owners, number in sorted(loads, key=lambda load: load[2])}


def _copy_group(
    maker: Link, before_spread: Layout, number: int, tables: Sequence[str], numbered: Sequence[tuple[str, str, str]]
) -> None:
    schema = _draft(number)
    copying = sql.SQL(load_sql("convmemory.ops.groups", "copy_group"))

    def fill() -> None:
        for way in OTHER_ORDERS:
            run(maker, f"SET LOCAL {way} = off")
        for table in tables:
            target, source = sql.Identifier(schema, table), sql.Identifier(before_spread.home, table)
            values = {"target": target, "source": source, "columns": columns_of(maker, table)}
            maker.execute(copying.format(**values, group=sql.Literal(number)))

    make_group(
        maker, schema=schema, tables=tables, source=before_spread.home, home_path=before_spread.home_path, fill=fill
    )
    drawing = sql.SQL("ALTER TABLE {} ALTER COLUMN {} SET DEFAULT nextval({})")
    for table, column, name in numbered:
        sequence = sql.Literal(sql.Identifier(IDS, name).as_string(maker))
        maker.execute(drawing.format(sql.Identifier(schema, table), sql.Identifier(column), sequence))


def _count(link: Link, schema: str, table: str) -> int:
    counting = sql.SQL(load_sql("convmemory.ops", "count_all")).format(sql.Identifier(schema, table))
    row = link.execute(counting).fetchone()
    return int(row[0]) if row else 0


def _name_groups(guard: Link, numbers: range) -> None:
    for number in numbers:
        names = sql.Identifier(_draft(number)), sql.Identifier(schema_of(number))
        guard.execute(sql.SQL("ALTER SCHEMA {} RENAME TO {}").format(*names))


def _draft(number: int) -> str:
    return f"distributing_{number}"
