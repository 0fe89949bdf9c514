"""Words that direct an assistant are told from words that name a subject."""

import pytest

from search.steering import is_steering


@pytest.mark.parametrize("word", ["same", "file", "Datei", "montre-moi", "l'autre", "siguiente", "继续", "して", "c"])
def test_words_of_any_subject_are_steering(word: str) -> None:
    assert is_steering(word)


@pytest.mark.parametrize("word", ["fuse", "deadlock", "Mietsicherheit", "violonchelo", "连接", "e0597", "argon2"])
def test_words_of_a_subject_are_not(word: str) -> None:
    assert not is_steering(word)
