"""Which share of a query a text holds: by the stems of its words, never by parts of them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

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
    ],
)
def test_a_text_holds_a_share_of_the_query(text: str, share: float) -> None:
    assert WORDS.share_of(WORDS.held_in(text)) == share


WRITTEN = st.text("aeings-. 契約書é", max_size=12)


@given(st.dictionaries(WRITTEN, st.floats(0.5, 2.0), max_size=4), st.lists(WRITTEN).map(" ".join))
def test_the_share_is_that_of_the_stems_among_all_of_the_text(weights: dict[str, float], text: str) -> None:
    stems = {stem(word): weight for word, weight in weights.items() if stem(word)}
    telling = {word: weight for word, weight in stems.items() if weight >= 0.15 * max(weights.values())}
    held = sum(weight for word, weight in telling.items() if word in stems_of(text))
    words = QueryStems(weights)
    assert words.share_of(words.held_in(text)) == pytest.approx(held / (sum(weights.values()) or 1.0))
