"""Other forms of words cost a query or a text only as much as it has of them."""

from unittest.mock import Mock

import pytest

from convmemory.core.folding import joined_words
from search.results.matching import QueryStems
from search.retrieval.corpus import asked_forms
from search.word_forms import MARK, indexed_text, queried_text


@pytest.mark.parametrize(
    ("typed", "forms"),
    [
        ("When did Melanie go camping in July 2023?", []),
        ("Where does she run?", [f"{MARK}dos"]),
        ("El café de Zürich", [f"{MARK}cafe", "cafe", f"{MARK}zurich", "zurich", "zuerich"]),
        ("a re-entrant lock", ["reentrant", f"{MARK}reentrant"]),
    ],
)
def test_rows_of_their_own_are_asked_for_other_spellings_alone(typed: str, forms: list[str]) -> None:
    assert asked_forms(queried_text(typed)[1]) == forms


@pytest.mark.parametrize(
    ("text", "is_parsed_twice"), [("A dash \u2014 a \u201cwell-known\u201d rule.", False), ("Un café.", True)]
)
def test_text_without_accents_is_parsed_once(text: str, is_parsed_twice: bool) -> None:
    _, folded = indexed_text(text)
    assert bool(folded) == is_parsed_twice


def test_passages_without_separated_words_are_not_searched_for_them(monkeypatch: pytest.MonkeyPatch) -> None:
    stems = QueryStems({"camping": 2.0, "reentrant": 1.0})
    counted = Mock(wraps=joined_words)
    monkeypatch.setattr("search.results.matching.joined_words", counted)
    for text in ("They don't go camping, she said.", "A well-known lake (about 40 km)."):
        stems.held_in(text)
    assert not counted.called
    assert stems.held_in("the re-entrant lock") == ["reentrant"]
