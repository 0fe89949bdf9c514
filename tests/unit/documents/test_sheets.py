"""The passage on the picture of a page: found in spite of other spacing, and at the right one of several places."""

from convmemory.documents.sheets import Mark, marks_of, squeezed, text_lines

LINES = [
    [("The", 0, 0, 30, 10), ("sun", 40, 0, 70, 10), ("is", 80, 0, 90, 10), ("bright\u00ad", 100, 0, 160, 10)],
    [("er.", 0, 20, 30, 30), ("The", 40, 20, 70, 30), ("sun", 80, 20, 110, 30), ("sets.", 120, 20, 170, 30)],
]


def marked(passage: str, before: str = "") -> list[Mark]:
    return marks_of(LINES, passage=passage, before=before)


def test_passage_over_two_lines_has_mark_on_each() -> None:
    assert marked("sun is\nbrighter.", "The ") == [Mark(40, 0, 120, 10), Mark(0, 20, 30, 10)]


def test_repeated_passage_is_marked_after_its_preceding_text() -> None:
    assert marked("The sun") == [Mark(0, 0, 70, 10)]
    assert marked("The sun", "The sun is brighter. ") == [Mark(40, 20, 70, 10)]


def test_part_of_word_marks_word() -> None:
    assert marked("un is") == [Mark(40, 0, 50, 10)]


def test_text_that_is_not_on_page_is_not_marked() -> None:
    assert marked("The moon") == []
    assert marked("  ") == []
    assert marks_of([], passage="x", before="") == []


def test_words_of_line_are_joined_to_one_text() -> None:
    first, second = text_lines(LINES)
    assert (first.text, first.x, first.y, first.size, first.width) == ("The sun is bright\u00ad", 0, 8, 10, 160)
    assert second.y == 28


def test_comparing_ignores_space_and_hyphens() -> None:
    assert squeezed(" a\u00adb-\tc\n\x00") == "abc"
