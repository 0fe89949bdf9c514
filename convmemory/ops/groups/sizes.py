"""How the groups of owners are: who belongs to them, how large they are, and what is wrong."""

from collections.abc import Iterator
from dataclasses import dataclass

from django.db import connection

from convmemory.core import groups
from convmemory.core.postgres.layout import schema_of
from convmemory.core.postgres.row_security import tables_without_policy
from convmemory.core.sql import load_sql
from convmemory.ops.groups.migrating import groups_behind


@dataclass(frozen=True, slots=True)
class GroupReport:
    """One group. `passages` is the planner's estimate; `size` is bytes; `problems` is empty where all is well."""

    number: int
    owners: int
    passages: int
    size: int
    problems: tuple[str, ...]


def group_reports() -> list[GroupReport]:
    """Every group in the order of their numbers; none where there is one."""
    numbers = list(groups.layout().groups)
    if not numbers:
        return []
    behind, unprotected = set(groups_behind()), tables_without_policy()
    with connection.cursor() as cursor:
        cursor.execute(load_sql("convmemory.ops", "group_sizes"), [numbers])
        rows = cursor.fetchall()
    return [
        GroupReport(
            number, owners, passages, size, tuple(_problems(number, number in behind, unprotected, invalid, missing))
        )
        for number, owners, passages, size, invalid, missing in rows
    ]


def _problems(
    number: int, is_behind: bool, unprotected: list[str], invalid: list[str], missing: list[str]
) -> Iterator[str]:
    if is_behind:
        yield "migrations are missing: run `manage.py migrate`"
    if missing:
        yield f"tables are missing, or not read with the others: {', '.join(missing)}"
    for name in unprotected:
        if name.startswith(f"{schema_of(number)}."):
            yield f"owners are not kept apart in {name}"
    for name in invalid:
        yield f"the index {name} is invalid"
