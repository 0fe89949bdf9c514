"""Moves one owner with all rows into another group, while no other connection uses the database."""

import psycopg
from django.contrib.auth.models import User
from psycopg import sql

from convmemory.core.errors import InvalidInput, NotFound
from convmemory.core.postgres import layout
from convmemory.core.postgres.groups import grouped_tables
from convmemory.core.postgres.layout import schema_of
from convmemory.core.sql import load_sql
from convmemory.ops.groups.links import own_link, refuse_while_in_use
from convmemory.ops.groups.schemas import choose_path, columns_of, run

Link = psycopg.Connection


def move_owner(*, username: str, to: int) -> int:
    """Move all rows of this owner to group `to` in one transaction; return their number.

    Raises: NotFound for an unknown name, InvalidInput if the group does not exist or the database is in use.
    """
    owner_id = User.objects.filter(username=username).values_list("pk", flat=True).first()
    if owner_id is None:
        raise NotFound(f"There is no user {username!r}.")
    with own_link() as link:
        found = layout.note_layout(link)
        if to not in found.groups:
            raise InvalidInput(f"There is no group {to}: `manage.py groups` lists them.")
        refuse_while_in_use(link)
        with link.transaction():
            row = link.execute(load_sql("convmemory.core", "group_of_owner").encode(), [owner_id]).fetchone()
            if row is None or row[0] == to:
                return 0
            choose_path(link, found.path_to(to))
            # Move the rows; foreign keys are checked when the transaction ends.
            tables = grouped_tables()
            source = schema_of(row[0])
            target = schema_of(to)
            run(link, "SET CONSTRAINTS ALL DEFERRED")
            copying, deleting = (
                sql.SQL(load_sql("convmemory.ops.groups", name)) for name in ("copy_owner", "delete_owner")
            )
            moved = 0
            for table in tables:
                places = {"source": sql.Identifier(source, table), "target": sql.Identifier(target, table)}
                copied = link.execute(copying.format(**places, columns=columns_of(link, table)), [owner_id])
                moved += copied.rowcount
            for table in tables:
                link.execute(deleting.format(source=sql.Identifier(source, table)), [owner_id])
            run(link, load_sql("convmemory.ops.groups", "move_place"), {"owner": owner_id, "number": to})
    return moved
