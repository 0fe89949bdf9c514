"""The share of a query that a text contains: by the stems of its words, never by parts of them."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from convmemory.core.folding import folded, joined_words
from search.languages import CHARACTERS, is_sign
from search.results.matching import QueryStems, stem, stems_of

WORDS = QueryStems({"baking": 2.0, "ovens": 1.0, "rye": 1.0})


@pytest.mark.parametrize(
    ("text", "share"),
    [
        ("We baked bread.", 0.5),
        ("BAKES in an Oven", 0.75),
        ("a bakery is no match, nor are covens", 0.0),
        ("rye baking ovens", 1.0),
        ("nothing of it", 0.0),
        ("", 0.0),
        ("oven_size, _rye", 0.5),
    ],
)
def test_text_holds_share_of_query(text: str, share: float) -> None:
    assert WORDS.share_of(WORDS.held_in(text)) == share


@pytest.mark.parametrize(
    ("text", "held"),
    [
        ("See src/App.ts, line 3.", ["src/app.t"]),
        ("See lib/src/app.ts:3.", ["src/app.t"]),
        ("a pre-commit hook, pre-commits", ["pre-commit"]),
        ("un-pre-committed, pre-committal, pre commit", []),
        ("libsrc/app.ts, src/app.tsx, src/apps", []),
        ("ab.ab.a and /x?y=1", ["ab.a", "/x?y=1"]),
        ("https://example.com/x?y=1", ["/x?y=1"]),
        ("version 72.56 or 2.567", []),
    ],
)
def test_text_contains_paths_and_compounds_as_whole(text: str, held: list[str]) -> None:
    stems = QueryStems(dict.fromkeys(["src/app.ts", "pre-commit", "ab.a", "/x?y=1", "2.56"], 1.0))
    assert stems.held_in(text) == held


WRITTEN = st.text("aeings-. 契約書é", max_size=12)


def holds(text: str, word: str) -> bool:
    """Return whether a word of the text, or one with all that hyphens and dots join to it, has this stem."""
    ends = [at for at in range(len(text) + 1) if at == len(text) or not text[at].isalnum()]
    begins = [at for at in range(len(text)) if at == 0 or not (text[at].isalnum() and text[at - 1].isalnum())]
    return any(stem(text[begin:end]) == word for begin in begins for end in ends if begin < end)


@given(st.dictionaries(WRITTEN.filter(len), st.floats(0.5, 2.0), max_size=4), st.lists(WRITTEN).map(" ".join))
def test_share_is_that_of_stems_among_all_of_text(weights: dict[str, float], text: str) -> None:
    plain = {folded(word): weight for word, weight in weights.items()}
    stems = {stem(word): weight for word, weight in plain.items() if stem(word)}
    joined = {(stem(form), stem(word)) for word in plain for form, _ in joined_words(word)}
    text = folded(text)
    contained = {*stems_of(text), *(stem(form) for form, _ in joined_words(text))}
    contained |= {word for form, word in joined if form in contained}
    beside = {
        match[0]
        for match in re.finditer(rf"(?<=[{CHARACTERS}])[0-9a-z]+|(?<![0-9a-z])[0-9a-z]+(?=[{CHARACTERS}])", text)
    }
    contained |= {stem(word) for word in beside}
    telling = {word: weight for word, weight in stems.items() if weight >= 0.15 * max(weights.values())}
    signs = [word for word in telling if is_sign(word) and word in text]
    held = sum(weight for word, weight in telling.items() if word in {*contained, *signs} or holds(text, word))
    words = QueryStems(weights)
    assert words.share_of(words.held_in(text)) == pytest.approx(held / (sum(weights.values()) or 1.0))
