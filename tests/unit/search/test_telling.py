"""The sentences of a turn that tell most for a query."""

from search.results.matching import QueryStems
from search.results.telling import TOLD_CHARS, Judged, telling

WORDS = QueryStems({"kiln": 2.0, "temperature": 2.0})


def texts(query: str, *passages: Judged, conclusion: str = "") -> list[str]:
    return [told.text for told in telling(passages, conclusion, WORDS, query, 0.6)]


def test_number_is_told_first_if_question_asks_for_one() -> None:
    warm = Judged("The kiln is warm now.", "assistant", 0.7)
    number = Judged("It fires at 1,240 degrees.", "assistant", 0.6)
    assert texts("how high is the kiln's temperature", warm, number)[0] == number.text
    assert texts("is the kiln warm", warm, number)[0] == warm.text


def test_path_and_command_are_told_first_if_question_asks_for_them() -> None:
    plain = Judged("The settings of the kiln changed.", "assistant", 0.7)
    path = Judged("They are in kiln/settings.toml.", "assistant", 0.6)
    command = Judged("Start it with `make kiln`.", "assistant", 0.6)
    assert texts("where are the settings", plain, path)[0] == path.text
    assert texts("which command starts it", plain, command)[0] == command.text


def test_announcement_is_told_only_if_there_is_no_other_sentence() -> None:
    announced = Judged("Let me look at the kiln's temperature.", "assistant", 1.2)
    measured = Judged("The temperature was too low.", "assistant", 0.9)
    assert texts("what was wrong", announced, measured) == [measured.text]
    assert texts("what was wrong", announced) == [announced.text]


def test_sentence_of_conclusion_is_told_once_and_before_its_like() -> None:
    passages = (
        Judged("**The sensor of the kiln was broken**", "assistant", 0.5),
        Judged("The sensor may be at fault.", "thinking", 0.6),
    )
    told = texts("what broke", *passages, conclusion="The sensor of the kiln was broken. The gate was shut.")
    assert told[0].startswith("The sensor of the kiln was broken")
    assert sum("of the kiln was broken" in text for text in told) == 1


def test_long_sentence_is_cut_shortly_before_words_of_query() -> None:
    (told,) = texts("x", Judged("word " * 80 + "the kiln stands in the yard " + "word " * 80, "assistant", 0.5))
    assert told.startswith("…")
    assert told.index("kiln") < 30
    assert len(told) <= TOLD_CHARS + 1
