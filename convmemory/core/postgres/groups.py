"""Owner groups: the tables that every group has, and the group that a new owner joins.

Groups exist on the nodes of a Citus cluster alone. Rows with an owner lie in the tables of the owner's group; accounts,
the queue and rows about the installation are shared. A connection finds its group in `core/postgres/layout.py`.
Reasons: docs/adr/0072-owner-group-per-citus-node.md.
"""

from typing import Any

from django.apps import apps
from django.db import connection, models

from convmemory.core import acting
from convmemory.core.models import OwnerGroup
from convmemory.core.postgres.layout import Layout
from convmemory.core.sql import load_sql

SHARED_APPS = frozenset({"accounts", "core", "ops", "sign_in"})
"""Apps whose tables are shared though their rows have owners: accounts and the queue."""
OWNER = "archive"


def layout() -> Layout:
    """Return the distribution of owners over groups in this database."""
    current: Layout = connection.layout  # type: ignore[attr-defined]
    return current


def is_grouped(model: type[models.Model]) -> bool:
    """Return whether each group has a table of its own for the model; also for the models of migrations."""
    if model._meta.app_label in SHARED_APPS or not model._meta.managed or model._meta.proxy:
        return False
    return any(field.name == OWNER for field in model._meta.local_fields)


def grouped_tables() -> list[str]:
    """Return the tables that every group has, by name."""
    return sorted(model._meta.db_table for model in apps.get_models(include_auto_created=True) if is_grouped(model))


def grouped_apps() -> frozenset[str]:
    """Return the apps that have such tables, perhaps among others."""
    return frozenset(model._meta.app_label for model in apps.get_models(include_auto_created=True) if is_grouped(model))


def place_owner(archive_id: int) -> None:
    """Add a new owner to the smallest group; on one server, nothing is written."""
    if layout().groups:
        parameters: dict[str, Any] = {"owner": archive_id, "schemas": layout().schemas[1:]}
        with connection.cursor() as cursor:
            cursor.execute(load_sql("convmemory.core.postgres", "place_owner"), parameters)


def owners_without_group() -> list[int]:
    """Return the archives that are in no group, which only a defect can cause."""
    archives = apps.get_model("accounts", "Archive")._default_manager
    placed = OwnerGroup.objects.values("archive_id")
    return list(archives.exclude(pk__in=placed).order_by("pk").values_list("pk", flat=True))


def after_archive_saved(instance: models.Model, created: bool, **kwargs: Any) -> None:
    """Receive `post_save` of archives."""
    if created:
        place_owner(instance.pk)


class GroupRouter:
    """Lets a migration change shared tables once, and those of groups once in each, see `manage.py migrate`."""

    def allow_migrate(self, db: str, app_label: str, model_name: str | None = None, **hints: Any) -> bool | None:
        """Return whether the operation belongs to the tables of groups if a group is chosen, else to shared tables.

        An operation that names no model, such as SQL or Python code, belongs to groups if the app has tables there,
        unless `hints={"shared": True}`.
        """
        if not layout().groups:
            return None
        model = hints.get("model")
        if model is not None:
            is_for_groups = is_grouped(model)
        else:
            is_for_groups = app_label in grouped_apps() and not hints.get("shared")
        return is_for_groups == bool(acting.current().group)
