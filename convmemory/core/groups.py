"""Owner groups: which tables every group has, which group a new owner joins, and work that goes through all groups.

What people keep lies in the tables of their group; accounts, the queue and what describes the installation are shared.
How a connection finds a group: `core/postgres/layout.py`. Reasons: docs/adr/0072-owner-groups.md.
"""

from typing import Any

from django.apps import apps
from django.contrib.auth.models import User
from django.db import connection, models

from convmemory.core import acting
from convmemory.core.models import OwnerGroup
from convmemory.core.postgres.layout import Layout
from convmemory.core.sql import load_sql

SHARED_APPS = frozenset({"accounts", "core", "ops", "sign_in"})
"""Apps whose tables stay together though their rows have owners: who somebody is, and what is done for whom."""
OWNER = "owner"


def layout() -> Layout:
    """How the owners of this database are spread."""
    found: Layout = connection.layout  # type: ignore[attr-defined]
    return found


def every_group() -> tuple[int | None, ...]:
    """Return the groups to act in, one after the other, for work for no one person; None where there is one.

    Work that goes on in a group already stays there.
    """
    who = acting.current()
    if who.group is not None or who.neighbour is not None:
        return (who.group,)
    return layout().groups or (None,)


def schemas() -> list[str]:
    """Return every schema with tables that hold rows; that of the shared tables is the first."""
    return layout().schemas


def place_name(schema: str, name: str) -> str:
    """What a table or an index is called, with its schema where it belongs to a group."""
    return name if schema == layout().home else f"{schema}.{name}"


def groups_of(model: type[models.Model]) -> tuple[int | None, ...]:
    """Return the groups that have a table of the model's; None for the one table of all others."""
    return (layout().groups if is_grouped(model) else ()) or (None,)


def is_grouped(model: type[models.Model]) -> bool:
    """Return whether each group has a table of its own for the model; also for models as migrations know them."""
    if model._meta.app_label in SHARED_APPS or not model._meta.managed or model._meta.proxy:
        return False
    return any(field.name == OWNER for field in model._meta.local_fields)


def grouped_tables() -> list[str]:
    """Return the tables that every group has, by name."""
    return sorted(model._meta.db_table for model in apps.get_models(include_auto_created=True) if is_grouped(model))


def grouped_apps() -> frozenset[str]:
    """Return the apps that have such tables, beside others maybe."""
    return frozenset(model._meta.app_label for model in apps.get_models(include_auto_created=True) if is_grouped(model))


def place_owner(owner_id: int) -> None:
    """Let a new owner join the smallest group; where there is one group, nothing is written."""
    if layout().groups:
        with connection.cursor() as cursor:
            cursor.execute(load_sql("convmemory.core", "place_owner"), {"owner": owner_id, "schemas": _group_schemas()})


def owners_without_group() -> list[int]:
    """Accounts whose owner has no place in any group, which nothing but a defect can bring about."""
    placed = OwnerGroup.objects.values("owner_id")
    return list(User.objects.exclude(pk__in=placed).order_by("pk").values_list("pk", flat=True))


def _group_schemas() -> list[str]:
    return layout().schemas[1:]


def after_user_saved(instance: User, created: bool, **kwargs: Any) -> None:
    """Receive `post_save` of accounts."""
    if created:
        place_owner(instance.pk)


class GroupRouter:
    """Lets a migration change shared tables once, and those of groups once in each, see `manage.py migrate`."""

    def allow_migrate(self, db: str, app_label: str, model_name: str | None = None, **hints: Any) -> bool | None:
        """What names no model, rows to be changed or a statement, is for groups where the app has tables there.

        `hints={"shared": True}` says otherwise.
        """
        who = acting.current()
        if not layout().groups:
            return None
        model = hints.get("model")
        if model is not None:
            is_for_groups = is_grouped(model)
        else:
            is_for_groups = app_label in grouped_apps() and not hints.get("shared")
        return is_for_groups == bool(who.group)
