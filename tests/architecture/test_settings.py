"""Settings are read in few places: each app's `options.py`; models name the user's model, as Django asks them to."""

import ast
from collections.abc import Iterator
from dataclasses import fields
from importlib import import_module
from pathlib import Path

import pytest
from django.conf import settings

from convmemory.core.options import FromSettings

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("convmemory", "search", "memory", "summaries")
SOURCES = [path for folder in FOLDERS for path in ROOT.glob(f"{folder}/**/*.py")]
DJANGOS_OWN = {"convmemory/core/checks.py"}  # examines what Django's own settings come to


def imports_settings(path: Path) -> bool:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return any(
        isinstance(node, ast.ImportFrom)
        and (
            (node.module == "django.conf" and "settings" in {alias.name for alias in node.names})
            or (node.module == "convmemory" and "settings" in {alias.name for alias in node.names})
        )
        for node in ast.walk(tree)
    )


def names_of_settings(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "settings":
            yield node.attr


def test_only_options_read_settings() -> None:
    readers = {path.relative_to(ROOT).as_posix() for path in SOURCES if imports_settings(path)}
    readers = {reader for reader in readers if "/migrations/" not in reader} - DJANGOS_OWN
    models = {reader for reader in readers if reader.endswith("models.py")}
    assert {Path(reader).name for reader in readers - models} == {"options.py"}, readers
    assert {name for model in models for name in names_of_settings(ROOT / model)} == {"AUTH_USER_MODEL"}


def classes_of_settings() -> list[type[FromSettings]]:
    for path in SOURCES:
        if path.name == "options.py":
            import_module(path.relative_to(ROOT).with_suffix("").as_posix().replace("/", "."))
    return FromSettings.__subclasses__()


@pytest.mark.parametrize("options", classes_of_settings(), ids=lambda options: options.__name__)
def test_every_field_is_a_setting_and_no_secret_is_shown(options: type[FromSettings]) -> None:
    made = options.from_settings()
    for each in fields(options):  # type: ignore[arg-type]
        assert hasattr(settings, each.name.upper())
        if each.name.endswith(("_key", "_token", "redis_url")):
            assert each.name not in repr(made)
