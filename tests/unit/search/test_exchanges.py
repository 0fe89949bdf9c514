"""The question before: who asked, who answers, and what is left open."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from search.ranking.exchanges import STRICT_QUANTILE, exchange_features, is_question, named_share, names_in
from search.ranking.late_interaction import PassageMatches
from search.retrieval.candidates import Feature, item_keys
from search.sources import Utterance
from search.vectors.texts import is_asking

# One conversation: Ann opens each turn, Ben's answer ends it. In turn 0 Ben asks back, in turn 1 Ann answers.
KEYS = item_keys([1, 1, 1, 1], [0, 1, 2, 3])
SAID = {
    10: Utterance(0, "Ann", "Ben"),
    11: Utterance(1, "Ben", "Ann", ends_item=True),
    12: Utterance(2, "Ann", "Ben"),
    13: Utterance(3, "Ben", "Ann", ends_item=True),
    14: Utterance(4, "Ann", "Ben"),
    15: Utterance(5, "Ben", "Ann", ends_item=True),
    16: Utterance(6, "Ann", "Ben"),
}
ASKED = 11


def matches(scores: dict[int, float], asking: set[int] = frozenset({ASKED})) -> PassageMatches:  # type: ignore[assignment]
    """One passage an element; the query has one token."""
    elements = list(scores)
    return PassageMatches(
        best=np.array([list(scores.values())], np.float32),
        weights=np.ones(1, np.float32),
        items=np.array([(element - 10) // 2 for element in elements]),
        elements=np.array(elements),
        asks=np.array([element in asking for element in elements]),
    )


SCORES = {10: 0.1, 11: 0.9, 12: 0.2, 13: 0.1, 14: 0.3, 15: 0.2, 16: 0.1}


def features(text: str = "Which day suits?", scores: dict[int, float] = SCORES) -> dict[str, list[float]]:
    found = exchange_features(KEYS, KEYS, matches(scores), SAID, text)
    return {name: values.tolist() for name, values in found.items()}


def test_turn_after_question_counts_for_it() -> None:
    answers = features()[Feature.ANSWERS]
    assert answers[1] > 0
    assert [answers[0], *answers[2:]] == [0, 0, 0]


def test_answers_weigh_margin_over_other_turns_in_share_of_spread() -> None:
    own = [0.9, 0.2, 0.3, 0.1]  # the best of each turn
    found = features()
    assert found[Feature.ANSWERS][1] == pytest.approx((0.9 - 0.25) / 0.8, rel=1e-5)
    margin = 0.9 - float(np.quantile(own, STRICT_QUANTILE))
    assert found[Feature.ANSWERS_QUESTION][1] == pytest.approx(margin / 0.8, rel=1e-5)


def test_answers_of_named_speakers_only_count() -> None:
    assert features("Which day suits Ann?")[Feature.ANSWERS][1] > 0
    assert features("Which day suits Ben?")[Feature.ANSWERS] == [0, 0, 0, 0]
    assert features("Which day suits Ann and Ben?")[Feature.ANSWERS][1] > 0


def test_named_speaker_feature_includes_question_asked() -> None:
    of_ann = features("Which day suits Ann?")[Feature.NAMED_SPEAKER]
    assert of_ann.index(max(of_ann)) == 1
    of_ben = features("Which day suits Ben?", {**SCORES, 15: 0.8})[Feature.NAMED_SPEAKER]
    assert of_ben.index(max(of_ben)) == 2
    assert features("Which day suits?")[Feature.NAMED_SPEAKER] == [0, 0, 0, 0]


def test_turn_that_only_asks_has_settled_zero() -> None:
    assert_allclose(features()[Feature.SETTLED], [0, 1, 1, 1], atol=1e-6)


def test_turn_before_is_taken_with_turn() -> None:
    assert_allclose(features()[Feature.MAX_SIM_BEFORE], [0.9, 0.9, 0.3, 0.3], atol=1e-6)


def test_question_outside_candidates_counts_for_its_answer() -> None:
    later = KEYS[1:]
    found = exchange_features(later, KEYS, matches(SCORES), SAID, "Which day?")
    assert found[Feature.ANSWERS][0] > 0
    assert all(len(values) == len(later) for values in found.values())


def test_turns_without_known_speakers_answer_nothing() -> None:
    found = exchange_features(KEYS, KEYS, matches(SCORES), {}, "Which day suits?")
    assert found[Feature.ANSWERS].tolist() == found[Feature.NAMED_SPEAKER].tolist() == [0, 0, 0, 0]
    assert found[Feature.SETTLED].tolist() == [1, 1, 1, 1]


def test_answers_question_is_zero_unless_query_is_question() -> None:
    assert features()[Feature.ANSWERS_QUESTION][1] >= 0
    assert features("day suits")[Feature.ANSWERS_QUESTION] == [0, 0, 0, 0]


def test_gate_opens_by_share_of_names_without_step() -> None:
    def share(*names: str) -> float:
        return named_share([Utterance(place, name) for place, name in enumerate(names)])

    assert share() == share("", "") == share("Ann", "Ann") == share("Ann", "") == 0
    shares = [share(*["Ann", "Ben"] * named, *[""] * (20 - 2 * named)) for named in range(11)]
    assert shares == sorted(shares)
    assert shares[10] > 0.95
    assert max(np.diff(shares)) < 0.35


@pytest.mark.parametrize(
    ("text", "names"),
    [("What did ann say?", {"Ann Lee"}), ("Annual report", set()), ("Ann and Ben", {"Ann Lee", "Ben"}), ("", set())],
)
def test_names_in_finds_names_by_any_of_their_words(text: str, names: set[str]) -> None:
    assert names_in(text, ["Ann Lee", "Ben"]) == names


@pytest.mark.parametrize(
    ("text", "asks"),
    [
        ("When does it leave?", True),
        ("When does it leave? (the night train)", True),
        ('He said "when?"', True),
        ("何時ですか\uff1f", True),
        ("It leaves at ten.", False),
        ("What? " + "It leaves at ten, as it has done for years. " * 5, False),
    ],
)
def test_passage_asks_that_ends_in_question_or_is_short_and_nearly_does(text: str, asks: bool) -> None:
    assert is_asking("user", text) is is_asking("assistant", text) is asks
    assert not is_asking("tool", text)
    assert not is_asking("document", text)


@pytest.mark.parametrize(("text", "asked"), [("when was it", True), ("the egg?", True), ("egg timer", False)])
def test_query_is_question_by_its_first_word_or_its_last_mark(text: str, asked: bool) -> None:
    assert is_question(text) is asked
