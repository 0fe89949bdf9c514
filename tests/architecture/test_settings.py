"""Settings are declared once, in `core/config.py`, which alone reads them; `docs/settings.md` is made from it."""

import ast
from collections.abc import Iterator
from pathlib import Path

from django.conf import settings

from convmemory.core import conf
from convmemory.core.config import Config, declared, documented
from convmemory.core.setting_kinds import Computed
from tests.architecture.trees import ROOT, nodes_with

FOLDERS = ("convmemory", "search", "memory", "summaries")
SOURCES = [path for folder in FOLDERS for path in ROOT.glob(f"{folder}/**/*.py")]
READERS = {
    "convmemory/core/checks.py",  # examines what Django's own settings come to
    "convmemory/core/setting_kinds.py",
}


def imports_settings(path: Path) -> bool:
    return any(
        isinstance(node, ast.ImportFrom)
        and (
            (node.module == "django.conf" and "settings" in {alias.name for alias in node.names})
            or (node.module == "convmemory" and "settings" in {alias.name for alias in node.names})
        )
        for node in nodes_with(path, "settings")
    )


def names_of_settings(path: Path) -> Iterator[str]:
    for node in nodes_with(path, "settings"):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "settings":
            yield node.attr


def test_only_declarations_read_settings() -> None:
    readers = {path.relative_to(ROOT).as_posix() for path in SOURCES if imports_settings(path)}
    readers = {reader for reader in readers if "/migrations/" not in reader}
    models = {reader for reader in readers if reader.endswith("models.py")}
    assert readers - models == READERS
    assert {name for model in models for name in names_of_settings(ROOT / model)} == {"AUTH_USER_MODEL"}


def test_variables_are_read_by_declarations_alone() -> None:
    """Readers of the environment are called nowhere else, so that no setting is missing in the documentation."""
    names = {name for name in vars(conf) if name.startswith("env_")}
    callers = {
        path.relative_to(ROOT).as_posix()
        for path in SOURCES
        for node in nodes_with(path, *names)
        if isinstance(node, ast.Attribute) and node.attr in names
    }
    assert callers == {"convmemory/core/config.py", "convmemory/core/setting_kinds.py"}


def test_every_declaration_is_setting_with_meaning() -> None:
    for each in vars(Config).values():
        if isinstance(each, Computed):
            assert hasattr(settings, each.name)
    for setting in declared():
        assert setting.meaning, setting.variable
        assert not {"|", "\n"} & set(setting.meaning + setting.shown), setting.variable
    assert len({setting.variable for setting in declared()}) == len(list(declared())) > 80


def test_secrets_are_masked() -> None:
    for setting in declared():
        if setting.name.endswith(("_KEY", "_TOKEN")):
            assert setting._reader is conf.env_secret, setting.name


def test_page_of_settings_is_made_from_declarations() -> None:
    page = (ROOT / "docs" / "settings.md").read_text(encoding="utf-8")
    assert documented(page) == page, "run `make settings`"
