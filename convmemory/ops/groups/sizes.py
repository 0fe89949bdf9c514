"""Reports on the groups of owners: their owners, their sizes, and their defects."""

from collections.abc import Iterator
from dataclasses import dataclass

from django.db import connection

from convmemory.core.postgres import groups
from convmemory.core.postgres.layout import schema_of
from convmemory.core.postgres.row_security import tables_without_policy
from convmemory.core.program import COMMAND
from convmemory.core.sql import load_sql
from convmemory.ops.groups.nodes import groups_on_nodes
from convmemory.ops.groups.schemas import groups_behind


@dataclass(frozen=True, slots=True)
class GroupReport:
    """One group. `size` is bytes; `problems` is empty without defects.

    `node` is the host and port of the group's node; empty as long as it lies on the coordinator.
    """

    number: int
    owners: int
    passages: int
    size: int
    problems: tuple[str, ...]
    node: str = ""


def group_reports() -> list[GroupReport]:
    """Return a report on each group, in the order of their numbers; none on one server."""
    numbers = list(groups.layout().groups)
    if not numbers:
        return []
    places = {on_node.number: on_node for on_node in groups_on_nodes(numbers)}
    answering = [number for number in numbers if number in places and not places[number].trouble]
    behind, unprotected = set(groups_behind(answering)), tables_without_policy()
    with connection.cursor() as cursor:
        cursor.execute(load_sql("convmemory.ops.groups", "group_sizes"), [numbers])
        rows = cursor.fetchall()
    reports = []
    for number, owners, invalid, missing in rows:
        on_node = places.get(number)
        problems = [*_problems(number, number in behind, unprotected, invalid, missing)]
        if on_node is None:
            problems.append(f"it lies on no node: run `{COMMAND} distribute` again")
        elif on_node.trouble:
            problems.append(f"its node does not answer: {on_node.trouble}")
        figures = (on_node.passages, on_node.size) if on_node else (0, 0)
        reports.append(GroupReport(number, owners, *figures, tuple(problems), on_node.node if on_node else ""))
    return reports


def _problems(
    number: int, is_behind: bool, unprotected: list[str], invalid: list[str], missing: list[str]
) -> Iterator[str]:
    if is_behind:
        yield f"migrations are missing: run `{COMMAND} migrate`"
    if missing:
        yield f"not read with those of the other groups: {', '.join(missing)}"
    for name in unprotected:
        if name.startswith(f"{schema_of(number)}."):
            yield f"owners are not kept apart in {name}"
    for name in invalid:
        yield f"the index {name} is invalid"
