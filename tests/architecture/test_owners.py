"""Every row of an archive or a person names it in a column, `archive` or `person`."""

from django.contrib.auth.models import User
from django.db import models

from convmemory.accounts.models import Archive
from convmemory.ops.privacy.ownership import SHARED, all_models, foreign_keys, owned_tables

OTHERWISE = {
    "auth.User": "is the person",
    "auth.User_groups": "the framework's own table, with `user`",
    "auth.User_user_permissions": "the framework's own table, with `user`",
    "admin.LogEntry": "the framework's own table, with `user`: who did it",
    "accounts.Archive": "is the archive, of one person or of none",
    "core.OwnerTask": "tasks of the installation are in the same queue, without an archive",
    "ops.Erasure": "a mark on a person, with `user` as its key",
    "sessions.Session": "is found before its person is known, and a visitor's has none",
}
"""Models of persons without `archive` or `person`, and why."""


def reaches_a_person(model: type[models.Model], seen: frozenset[type[models.Model]] = frozenset()) -> bool:
    if model in (User, Archive):
        return True
    nearby = {field.related_model for field in foreign_keys(model)} - seen - {model}
    return any(reaches_a_person(target, seen | {model}) for target in nearby)


def has_owner(model: type[models.Model]) -> bool:
    owners = {"archive": Archive, "person": User}
    return any(owners.get(f.name) is f.related_model and not f.null for f in foreign_keys(model))


def test_every_row_of_person_names_its_owner() -> None:
    of_people = {model._meta.label: model for model in all_models() if reaches_a_person(model)}
    assert "conversations.MessageSource" in of_people
    without = {label for label, model in of_people.items() if not has_owner(model)}
    assert without - set(SHARED) == set(OTHERWISE)


def test_rows_are_chosen_by_their_own_column() -> None:
    tables = {table.label: table for table in owned_tables()}
    others = {label for label, table in tables.items() if table.condition != '"owner_id" = %(owner)s'}
    with_person = {"accounts.Membership", "accounts.SpaceInvitation"}
    assert others | {"core.OwnerTask"} == {*OTHERWISE, *with_person}, "these go with their space or their person"
    assert not any("SELECT" in table.condition for table in tables.values())


def test_unique_constraints_of_derived_rows_name_owner() -> None:
    """So that the database can keep owners apart, and spread them over several places."""
    derived = [model for model in all_models() if model._meta.app_label in {"search", "memory"} and has_owner(model)]
    unique = [c for model in derived for c in model._meta.constraints if isinstance(c, models.UniqueConstraint)]
    assert len(unique) >= 6
    assert {constraint.name for constraint in unique if "archive" not in constraint.fields} == set()
