"""Every feature that walks over sources knows every kind of them: a new kind fails here until it has its place."""

from collections.abc import Callable
from pathlib import Path

import pytest
from django.apps import apps
from django.contrib import admin
from django.db import models

from convmemory.core.sql import load_sql
from convmemory.ops.privacy import backup
from convmemory.ops.privacy.ownership import owned_tables
from convmemory.ops.runtime.schedules import SCHEDULES
from search.searching import KINDS
from search.sources import SourceAdapter, registered
from tests.surfaces.isolation_surfaces import ROUTES

ROOT = Path(__file__).resolve().parents[2]
OBJECTS = {"conversation": "conversations.Conversation", "document": "documents.Document"}
"""The models whose rows the sources of each kind stand for."""


def text(path: str) -> str:
    return (ROOT / path).read_text(encoding="utf-8")


def has_files(label: str) -> bool:
    return any(isinstance(field, models.FileField) for field in apps.get_model(label)._meta.concrete_fields)


FEATURES: dict[str, Callable[[str, SourceAdapter], bool]] = {
    "search names it": lambda kind, adapter: kind in KINDS.values(),
    "its items have an address": lambda kind, adapter: adapter.url(1, 2).startswith(f"/{kind}s/1?"),
    "its passages can be in scope": lambda kind, adapter: bool(adapter.passage_kinds),
    "erase, export and quotas by owner": lambda kind, adapter: (
        OBJECTS[kind] in {table.label for table in owned_tables()}
    ),
    "the admin shows its objects": lambda kind, adapter: apps.get_model(OBJECTS[kind]) in admin.site._registry,
    "the doctor looks at its objects": lambda kind, adapter: (
        f"{OBJECTS[kind].split('.')[1]}.objects" in text("convmemory/ops/doctor/rows_area.py")
    ),
    "a sweep puts its sources right": lambda kind, adapter: (
        f"{kind}s_{kind}" in load_sql("search.adapters", f"reconcile_{kind}s")
    ),
    "a sweep finds its unfinished work": lambda kind, adapter: any(
        f"convmemory.{kind}s.tasks" in function for function, _ in SCHEDULES.values()
    ),
    "a backup takes its files along": lambda kind, adapter: (
        not has_files(OBJECTS[kind]) or apps.get_model(OBJECTS[kind])._meta.db_table in backup.STATEMENTS
    ),
    "an erasure drops its files": lambda kind, adapter: (
        not has_files(OBJECTS[kind]) or "models.FileField" in text("convmemory/ops/privacy/erasing.py")
    ),
    "keys are hidden in it": lambda kind, adapter: any(
        "find_keys(" in file.read_text(encoding="utf-8") for file in (ROOT / f"convmemory/{kind}s").rglob("*.py")
    ),
    "isolation covers its routes": lambda kind, adapter: f"GET {kind}" in ROUTES and f"page {kind}" in ROUTES,
    "reembed says whether it is embedded": lambda kind, adapter: isinstance(adapter.is_embedded, bool),
}


@pytest.mark.parametrize("feature", sorted(FEATURES))
def test_every_feature_handles_every_kind_of_source(feature: str) -> None:
    missing = {kind for kind, adapter in registered().items() if not FEATURES[feature](kind, adapter)}
    assert not missing, f"{feature}: {missing}"


def test_every_kind_names_its_objects() -> None:
    assert set(registered()) == set(OBJECTS)
