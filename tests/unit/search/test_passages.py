"""The excerpt of its passage that a hit shows."""

import pytest

from search.results.matching import QueryStems
from search.results.passages import LEAD_CHARS, MAX_CHARS, ShownPassage, shortened


def test_words_are_marked_whatever_their_ending_and_stop_words_are_not() -> None:
    text = "The pools were exhausted by one leaking connection."
    marked = [
        text[start:end] for start, end in QueryStems({"pool": 3.0, "leak": 4.0, "the": 0.2, "by": 0.2}).places_in(text)
    ]
    assert marked == ["pools", "leaking"]


def test_long_passage_is_shown_from_shortly_before_its_first_marked_word() -> None:
    text = "filler " * 80 + "needle " + "filler " * 20
    place = text.index("needle")
    passage = shortened(ShownPassage(1, 0, 0, len(text), text, ((place, place + 6),)), anchor=place)
    assert len(passage.text) == MAX_CHARS
    ((start, end),) = passage.marks
    assert passage.text[start:end] == "needle"
    assert start >= LEAD_CHARS
    assert (passage.start, passage.end) == (0, len(text))


@pytest.mark.parametrize(
    ("text", "marked"),
    [
        ("The night train leaves at ten; another train at night.", ["night train", "leaves"]),
        ("A night-train leaves.", ["night-train", "leaves"]),
        ("Trains at night, left to themselves, leave.", ["Trains", "night", "leave"]),
        ("Night training leaves us tired; the NIGHT TRAIN does not.", ["Night training", "leaves", "NIGHT TRAIN"]),
        ("", []),
    ],
)
def test_phrase_is_marked_as_one_and_its_words_nowhere_else(text: str, marked: list[str]) -> None:
    stems = QueryStems({"night": 3.0, "train": 3.0, "leaves": 2.0}, ["night train"])
    assert [text[start:end] for start, end in stems.places_in(text)] == marked


def test_long_passage_is_cut_around_its_phrase_or_its_rarest_word() -> None:
    text = "The train is late. " * 40 + "We took the night train then. " + "It was a train. " * 40
    assert text[QueryStems({"night": 3.0, "train": 3.0}, ["night train"]).anchor_in(text) :].startswith("night train")
    assert text[QueryStems({"night": 5.0, "train": 2.0}).anchor_in(text) :].startswith("night train")
    assert QueryStems({"ship": 1.0}).anchor_in(text) == 0


def test_text_contains_words_that_count_whatever_their_ending() -> None:
    stems = QueryStems({"walrus": 6.0, "feed": 2.0, "the": 0.1})
    assert stems.held_in("The walrus feeds.") == ["walru", "feed"]
    assert stems.counted(["feed", "walrus", "the"]) == {"walru", "feed"}
    assert stems.held_in("They feed.") == ["feed"]
    assert stems.held_in("A walrus-like thing") == ["walru"]
    assert QueryStems({}).held_in("The walrus feeds.") == []


def test_longest_stem_of_each_phrase_is_used() -> None:
    assert QueryStems({}, ["the zinc lids", "rattling"]).longest_of_phrases == ["zinc", "rattl"]
