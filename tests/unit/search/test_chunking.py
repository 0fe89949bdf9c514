"""Long turns are cut into overlapping chunks."""

import re

from hypothesis import given
from hypothesis import strategies as st

from search.vectors.splitting import chunk_text


def word_spans(text: str) -> list[tuple[int, int]]:
    return [match.span() for match in re.finditer(r"\S+", text)]


def test_text_that_fits_is_whole() -> None:
    assert chunk_text("one two three", max_tokens=3, token_offsets=word_spans) == ["one two three"]


def test_windows_overlap_in_proportion() -> None:
    text = " ".join(str(n) for n in range(20_000))
    chunks = [
        [int(word) for word in chunk.split()] for chunk in chunk_text(text, max_tokens=8_191, token_offsets=word_spans)
    ]
    assert [len(chunk) for chunk in chunks] == [6_000, 6_000, 6_000, 3_500]
    assert chunks[1][0] == 5_500


@given(st.integers(0, 400), st.integers(1, 60))
def test_every_word_is_in_some_chunk_and_no_chunk_is_too_long(words: int, max_tokens: int) -> None:
    text = " ".join(f"w{n}" for n in range(words))
    chunks = chunk_text(text, max_tokens=max_tokens, token_offsets=word_spans)
    assert {word for chunk in chunks for word in chunk.split()} == set(text.split())
    assert all(len(chunk.split()) <= max_tokens for chunk in chunks)
