"""The sentences of a turn that tell most for a query."""

import pytest

from search.results.matching import QueryStems
from search.results.telling import TOLD_CHARS, Judged, plain, telling

WORDS = QueryStems({"kiln": 2.0, "temperature": 2.0})


def texts(query: str, *passages: Judged, conclusion: str = "") -> list[str]:
    return [sentence.text for sentence in telling(passages, conclusion, WORDS, query, 0.6)]


@pytest.mark.parametrize(
    ("question", "sentence"),
    [
        ("how high is the kiln's temperature", "It fires at 1,240 degrees."),
        ("where are the settings", "They are in kiln/settings.toml."),
        ("which command starts it", "Start it with `make kiln`."),
        ("how did we fix the draught", "The kiln's door has a new seal instead."),
    ],
)
def test_sentence_of_form_asked_for_comes_first(question: str, sentence: str) -> None:
    nearer = Judged("The kiln is warm today.", "assistant", 0.7)
    answer = Judged(sentence, "assistant", 0.6)
    assert texts(question, nearer, answer)[0] == sentence
    assert texts("is the kiln warm", nearer, answer)[0] == nearer.text


def test_sentence_with_colon_is_told_with_what_it_names() -> None:
    sentence = Judged("Fire the kiln with:", "assistant", 0.5, "\n\n```sh\nmake fire\n```\n\nThen wait.")
    assert texts("x", sentence) == ["Fire the kiln with: make fire Then wait."]
    (told,) = texts("x", sentence._replace(text="word " * 60 + "with:"))
    assert told.startswith("…")
    assert told.endswith("word with: make fire Then wait.")
    assert len(told) <= TOLD_CHARS


def test_question_tells_less_than_answer_with_fewer_of_its_words() -> None:
    asked = Judged("At which temperature does the kiln fire?", "user", 0.7)
    answer = Judged("It fires hot.", "assistant", 0.55)
    assert texts("is the kiln warm", asked, answer)[0] == answer.text


def test_announcement_is_chosen_only_if_there_is_no_other_sentence() -> None:
    announced = Judged("Let me look at the kiln's temperature.", "assistant", 1.2)
    measured = Judged("The temperature was too low.", "assistant", 0.9)
    assert texts("what was wrong", announced, measured) == [measured.text]
    assert texts("what was wrong", announced) == [announced.text]


def test_sentence_of_conclusion_comes_once_and_before_its_like() -> None:
    passages = (
        Judged("**The sensor of the kiln was broken**", "assistant", 0.5),
        Judged("The sensor may be at fault.", "thinking", 0.6),
    )
    chosen = texts("what broke", *passages, conclusion="The sensor of the kiln was broken. The gate was shut.")
    assert chosen[0].startswith("The sensor of the kiln was broken")
    assert sum("of the kiln was broken" in text for text in chosen) == 1


def test_long_sentence_is_cut_shortly_before_words_of_query() -> None:
    (cut,) = texts("x", Judged("word " * 80 + "the kiln stands in the yard " + "word " * 80, "assistant", 0.5))
    assert cut.startswith("…")
    assert cut.index("kiln") < 30
    assert len(cut) <= TOLD_CHARS + 1


def test_plain_text_keeps_what_only_looks_like_marks_of_items() -> None:
    assert (
        plain("- **Fire** it in [C#](/kiln.cs), see `kilns/**/*.cs` 2.\n  3.")
        == "Fire it in C#, see `kilns/**/*.cs` 2."
    )
    assert plain("The door closes.\n-") == "The door closes."
