"""What a hit shows of its passage."""

from search.results.passages import LEAD_CHARS, MAX_CHARS, QueryStems, ShownPassage, shortened


def test_words_are_marked_whatever_their_ending_and_stop_words_are_not() -> None:
    text = "The pools were exhausted by one leaking connection."
    marked = [
        text[start:end] for start, end in QueryStems({"pool": 3.0, "leak": 4.0, "the": 0.2, "by": 0.2}).places_in(text)
    ]
    assert marked == ["pools", "leaking"]


def test_a_long_passage_is_shown_from_shortly_before_its_first_marked_word() -> None:
    text = "filler " * 80 + "needle " + "filler " * 20
    place = text.index("needle")
    passage = shortened(ShownPassage(1, 0, 0, len(text), text, ((place, place + 6),)))
    assert len(passage.text) == MAX_CHARS
    ((start, end),) = passage.marks
    assert passage.text[start:end] == "needle"
    assert start >= LEAD_CHARS
    assert (passage.start, passage.end) == (0, len(text))
