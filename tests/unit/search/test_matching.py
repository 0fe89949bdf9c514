"""Which share of a query a text holds: by the stems of its words, never by parts of them."""

import pytest

from search.results.matching import QueryStems

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
    assert WORDS.share_in(text) == share
