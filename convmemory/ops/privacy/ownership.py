"""Derives from the models' foreign keys which rows of which tables belong to an archive or to its person.

A table belongs to archives if it has a cascading foreign key to the archive, which nearly all call `archive`, or to the
user: a person's own archive has the person's number. No table is listed by name, so a new model with an archive is
exported and erased from its first day. Tables without such a key must
be named in `SHARED`; tests check both.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from graphlib import TopologicalSorter
from typing import Any

from django.apps import apps
from django.contrib.auth import get_user_model
from django.db import models

from convmemory.accounts.models import Archive

SHARED = {
    "accounts.AuditEntry": "an entry outlives the persons whom it names, without their names",
    "accounts.GroupQuota": "the operator's limits for the members of a group",
    "accounts.Invitation": "an address without an account; deleted once the account is made, or 30 days after its end",
    "accounts.Mail": "deleted with its invitation; others once they are sent or given up",
    "accounts.ProvisionedGroup": "a directory's ids of groups",
    "accounts.ScimToken": "hashes of the operator's tokens",
    "auth.Group": "names of roles",
    "auth.Group_permissions": "rights of roles",
    "auth.Permission": "names of rights",
    "contenttypes.ContentType": "names of tables",
    "django_q.OrmQ": "empty: `core.OwnerTask` is the queue",
    "django_q.Schedule": "periodic tasks of the installation",
    "django_q.Task": "finished tasks name rows in their arguments: `task_arguments.py` finds them",
    "embeddings.EmbeddingSpace": "models, not texts",
    "ops.Alert": "what the doctor has found, by its id",
    "ops.ErasedUser": "ids of accounts that no longer exist",
    "ops.KeyFingerprint": "the digest of SECRET_KEY",
    "ops.KnownModel": "digests of models' files",
    "ops.RestoreCheck": "when a backup was last restored",
    "ops.IndexSample": "counts over everybody, and messages of the index's own errors",
    "ops.Measure": "counts without any text",
    "ops.SweepRun": "counts without any text",
    "retention.RetentionLimit": "the operator's rules for everybody",
    "search.RerankerWeight": "what a reranker counts for everybody",
    "sign_in.PasswordFailures": "counts under keyed hashes, gone a day after the last wrong password",
}
"""Models without a foreign key to a user, with the reason or the module that handles them."""

Foreign = models.ForeignKey[Any, Any]


@dataclass(frozen=True, slots=True)
class OwnedTable:
    """A table with users' rows. `condition` selects those of one user, with the parameter `%(owner)s`."""

    model: type[models.Model]
    name: str
    condition: str
    columns: tuple[str, ...]

    @property
    def label(self) -> str:
        return self.model._meta.label


def owner_field(model: type[models.Model]) -> str | None:
    """Return the field that names the archive, or the person, whose rows the model's table has."""
    return next((field.attname for field in _fields(model) if field.column == "owner_id"), None)


def user_model() -> type[models.Model]:
    return get_user_model()


def all_models() -> list[type[models.Model]]:
    """Return all models with a table of their own."""
    models_of_apps = apps.get_models(include_auto_created=True)
    return [model for model in models_of_apps if model._meta.managed and not model._meta.proxy]


@cache
def owned_tables() -> tuple[OwnedTable, ...]:
    """Return the tables with users' rows, referencing ones before referenced ones; the user's own is the last."""
    roots: tuple[type[models.Model], ...] = (user_model(), Archive)
    owned: set[type[models.Model]] = {*roots, *(model for model in all_models() if _owner_keys(model))}
    order = TopologicalSorter({model: _pointing_at(model, owned) for model in owned}).static_order()
    in_order = [*(model for model in order if model is not user_model()), user_model()]
    tables = []
    for model in in_order:
        columns = [model._meta.pk.column] if model in roots else [field.column for field in _owner_keys(model)]
        tables.append(
            OwnedTable(
                model,
                model._meta.db_table,
                " OR ".join(f'"{column}" = %(owner)s' for column in columns),
                tuple(f.column for f in _fields(model)),
            )
        )
    return tuple(tables)


@cache
def owned_by_name() -> dict[str, OwnedTable]:
    """Return the tables by their models' lower-case names, as used in arguments called `<name>_id`."""
    return {table.model._meta.model_name or "": table for table in owned_tables()}


def foreign_keys(model: type[models.Model]) -> list[Foreign]:
    """Return the model's foreign keys and one-to-one fields."""
    return [field for field in _fields(model) if isinstance(field, models.ForeignKey)]


def loose_references(tables: Sequence[OwnedTable]) -> list[tuple[type[models.Model], Foreign, str]]:
    """Return nullable foreign keys to set to null before rows of `tables` are deleted, with a condition on the rows.

    The condition is "TRUE" for all rows. They are the keys of tables that are not owned, of a table to itself, and of a
    table whose rows are deleted after the row that they name; and those of other users' rows that only mention the
    user.
    """
    numbers = {table.model: number for number, table in enumerate(tables)}
    references: list[tuple[type[models.Model], Foreign, str]] = []
    for model in all_models():
        for field in foreign_keys(model):
            if not field.null or _target(field) not in numbers:
                continue
            number = numbers.get(model, len(numbers))
            if number >= numbers[_target(field)]:
                references.append((model, field, "TRUE"))
            elif _outlives(field):
                references.append((model, field, f"({tables[number].condition}) IS NOT TRUE"))
    return references


def _owner_keys(model: type[models.Model]) -> list[Foreign]:
    """Return foreign keys to the archive or the user, whose deletion cascades to this row."""
    roots = (user_model(), Archive)
    return [field for field in foreign_keys(model) if _target(field) in roots and not _outlives(field)]


def _outlives(field: Foreign) -> bool:
    """Return whether the row stays when the row that it names is deleted."""
    return field.remote_field.on_delete in (models.SET_NULL, models.SET_DEFAULT)


def _pointing_at(model: type[models.Model], owned: Iterable[type[models.Model]]) -> set[type[models.Model]]:
    """Return the owned models whose rows must be deleted before the row of `model` that they name."""
    return {
        other
        for other in owned
        if other is not model
        and any(_target(f) is model and not (f.null and _outlives(f)) for f in foreign_keys(other))
    }


def _target(field: Foreign) -> type[models.Model]:
    target: type[models.Model] = field.related_model
    return target


def _fields(model: type[models.Model]) -> list[Any]:
    return [field for field in model._meta.local_concrete_fields if field.column]
