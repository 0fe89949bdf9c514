"""The reasons that importers give without values are shown in the language of the page."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.utils.translation import override

from convmemory.conversations import importers, importing
from convmemory.conversations.importing.views import REASONS
from convmemory.core.templatetags.people import for_people

FOLDERS = [Path(str(package.__file__)).parent for package in (importers, importing)]
OF_REQUESTS = {"message_lists.py"}  # whose reasons are answers of the API, in English


def reasons() -> Iterator[str]:
    """Yield the constants that are passed to reports as reasons."""
    for path in (path for folder in FOLDERS for path in folder.rglob("*.py") if path.name not in OF_REQUESTS):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            match node:
                case ast.Call(
                    func=ast.Attribute(attr="note" | "skip" | "repair" | "line_issue"),
                    args=[*_, ast.Constant(value=str(reason))],
                ) if " " in reason:
                    yield reason


def test_reasons_of_importers_without_values_are_among_those_to_translate() -> None:
    assert set(reasons()) <= set(REASONS)


@pytest.mark.parametrize("language", ["de", "he", "ja"])
def test_reasons_of_importers_have_translations(language: str) -> None:
    with override(language):
        assert [reason for reason in REASONS if for_people(reason) == reason] == []
