"""Finds which users' rows a task names in its arguments, by the names of its function's parameters.

`conversation_id` means a conversation, `archive_id` an archive. Used to find the entries about a user in the queue and
its history; a test checks that all tasks' parameters are understood.
"""

import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any

from django.db import connection
from django_q.models import Task

from convmemory.core.models import OwnerTask
from convmemory.core.queue.fair_queue import find_task
from convmemory.core.sql import load_sql
from convmemory.ops.privacy.ownership import OwnedTable, owned_by_name, owner_field

PERSONS = ("user", "person")
NAMED_ELSEWHERE = frozenset({"space_id"})
"""Parameters that name no row of a user."""

BATCH = 1_000


@dataclass(frozen=True, slots=True)
class NamedRow:
    """A row that a task names."""

    table: OwnedTable
    pk: int


def named_rows(func: str | Callable[..., Any], args: Iterable[Any], kwargs: Mapping[str, Any]) -> list[NamedRow]:
    """Return the rows that a call of this function with these arguments concerns."""
    function = find_task(func) if isinstance(func, str) else func
    if function is None:
        return []
    try:
        bound = inspect.signature(function).bind_partial(*args, **kwargs).arguments
    except (TypeError, ValueError):
        return []
    return [
        NamedRow(table, pk)
        for name, value in bound.items()
        if (table := table_of_parameter(name))
        for pk in (value if isinstance(value, (list, tuple)) else [value])
        if isinstance(pk, int)
    ]


def owners_of_call(func: str, args: Iterable[Any], kwargs: Mapping[str, Any]) -> set[int]:
    """Return the owners of the rows that a call concerns; none for a call that names the users themselves."""
    owners: set[int] = set()
    for row in named_rows(func, args, kwargs):
        if field := owner_field(row.table.model):
            owners |= set(row.table.model._default_manager.filter(pk=row.pk).values_list(field, flat=True))
    return owners


def table_of_parameter(name: str) -> OwnedTable | None:
    """Return the table whose rows a parameter called `<name>_id` or `<name>_ids` names."""
    stem = name.removesuffix("s").removesuffix("_id")
    if stem == name.removesuffix("s") or name in NAMED_ELSEWHERE:
        return None
    tables = owned_by_name()
    if stem in PERSONS:
        return tables["user"]
    word = stem.replace("_", "")
    matching = [table for model, table in tables.items() if model.endswith(word)]
    return tables.get(word) or (matching[0] if len(matching) == 1 else None)


def drop_queued(archive_id: int) -> int:
    """Remove tasks from the queue that name rows of this user, or deleted rows; return their number."""
    dropped: int = OwnerTask.objects.filter(archive_id=archive_id).delete()[0]
    unowned = OwnerTask.objects.filter(archive=None)
    calls = [(pk, named_rows(func, args, {})) for pk, func, args in unowned.values_list("pk", "func", "args")]
    return dropped + unowned.filter(pk__in=_about(calls, archive_id)).delete()[0]


def drop_finished(archive_id: int) -> int:
    """Delete finished and failed tasks that name rows of this user, or deleted rows; return their number.

    Tasks with unreadable arguments are deleted too: they may name the user.
    """
    dropped = 0
    tasks = Task.objects.order_by("pk").values_list("pk", "func", "args", "kwargs").iterator()
    while batch := list(islice(tasks, BATCH)):
        unreadable = [pk for pk, _, args, kwargs in batch if args is None or kwargs is None]
        calls = [(pk, named_rows(func, args or (), kwargs or {})) for pk, func, args, kwargs in batch]
        dropped += Task.objects.filter(pk__in=[*unreadable, *_about(calls, archive_id)]).delete()[0]
    return dropped


def _about(calls: list[tuple[Any, list[NamedRow]]], archive_id: int) -> list[Any]:
    """Return the keys of the calls that name a row of the user, or one that no longer exists."""
    by_table: dict[OwnedTable, set[int]] = {}
    for _, rows in calls:
        for row in rows:
            by_table.setdefault(row.table, set()).add(row.pk)
    kept = {}
    for table, pks in by_table.items():
        # Which of these rows exist and are not the person's.
        statement = load_sql("convmemory.ops.privacy", "rows_of_others").format(
            pk=table.model._meta.pk.column, table=table.name, condition=table.condition
        )
        with connection.cursor() as cursor:
            cursor.execute(statement, {"pks": sorted(pks), "owner": archive_id})
            kept[table] = {pk for (pk,) in cursor.fetchall()}
    return [key for key, rows in calls if any(row.pk not in kept[row.table] for row in rows)]
