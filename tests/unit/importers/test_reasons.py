"""The reasons that importers give are shown in the language of the page, with their values."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.utils.translation import override

from convmemory.conversations import importers, importing
from convmemory.conversations.importing.reasons import MAX_REASON_CHARS, OF_VALUES, WITHOUT_VALUES, translated

FOLDERS = [Path(str(package.__file__)).parent for package in (importers, importing)]
OF_REQUESTS = {"message_lists.py"}  # whose reasons are answers of the API, in English
NAMES = {"note", "skip", "repair", "line_issue", "on_issue"}
LANGUAGES = ["de", "he", "ja"]


def reasons() -> Iterator[ast.expr]:
    """Yield the expressions that are passed to reports as reasons."""
    for path in (path for folder in FOLDERS for path in folder.rglob("*.py") if path.name not in OF_REQUESTS):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            match node:
                case ast.Call(func=ast.Attribute(attr=name) | ast.Name(id=name), args=[*_, last]) if name in NAMES:
                    yield from (last.body, last.orelse) if isinstance(last, ast.IfExp) else (last,)


def with_gaps(sentence: str) -> str:
    """Return a sentence with one gap for each value, or for several that follow each other."""
    return re.sub(r"(?:\{\w*\})+", "{}", sentence)


def test_reasons_of_importers_without_values_are_among_those_to_translate() -> None:
    constants = {node.value for node in reasons() if isinstance(node, ast.Constant)}
    assert {reason for reason in constants if isinstance(reason, str) and " " in reason} <= {*WITHOUT_VALUES}


def test_reasons_of_importers_with_values_are_among_those_to_translate() -> None:
    sentences = {
        "".join(str(part.value) if isinstance(part, ast.Constant) else "{}" for part in node.values)
        for node in reasons()
        if isinstance(node, ast.JoinedStr)
    }
    assert {with_gaps(sentence) for sentence in sentences} == {with_gaps(sentence) for sentence in OF_VALUES}


@pytest.mark.parametrize("language", LANGUAGES)
def test_reasons_of_importers_have_translations(language: str) -> None:
    with override(language):
        assert [reason for reason in WITHOUT_VALUES if translated(reason) == reason] == []


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("sentence", OF_VALUES)
def test_translated_reason_has_the_values_of_the_reason(language: str, sentence: str) -> None:
    values = {name: "1,204" if name in {"n", "total"} else f"<{name}>" for name in re.findall(r"\{(\w+)\}", sentence)}
    reason = sentence.format(**values)
    assert translated(reason) == reason
    with override(language):
        shown = translated(reason)
    assert shown != reason
    assert all(value in shown for value in values.values())


def test_reason_in_a_reason_is_translated_and_an_unknown_one_stays() -> None:
    with override("de"):
        assert "enthält keine Nachrichten" in translated("c-7: left out: it holds no messages")
        assert translated("no such table: messages") == "no such table: messages"


def test_reason_that_is_too_long_to_match_is_shown_whole() -> None:
    reason = f"{'a' * MAX_REASON_CHARS}: no message to store"
    with override("de"):
        assert translated(reason) == reason
