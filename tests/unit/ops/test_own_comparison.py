"""Comparing models on one's own archive: the questions that are made, the interval, the ranking in memory."""

from collections.abc import Sequence

import numpy as np
import pytest

from convmemory.core.text import Span
from convmemory.embeddings.embedder import ModelCard, Vector, unit_rows
from convmemory.ops.reembed.comparing import paired_difference
from convmemory.ops.reembed.own_questions import OwnTurn, make_questions
from convmemory.ops.reembed.own_ranking import Bm25, rank_own, words_of

SUBJECTS = ("parrot", "bicycle", "kitchen", "garden", "invoice", "passport", "violin", "server", "recipe", "holiday")


def turn(conversation: int, opening: str, answer: str, title: str = "") -> OwnTurn:
    return OwnTurn(conversation, title, opening, (f"user: {opening}",), (f"assistant: {answer}",))


def archive() -> list[OwnTurn]:
    return [
        turn(
            number,
            f"{asks} I know of my {subject}?",
            f"The {subject} is {number} years old.",
            f"all about the {subject}",
        )
        for number, subject in enumerate(SUBJECTS)
        for asks in ("What do", "How else can")
    ]


class BagOfWords:
    """A model that knows words; one that is `blind` gives every text the same vector."""

    def __init__(self, *, blind: bool = False) -> None:
        self.blind = blind
        self.card = ModelCard("local", "bag", 64, 1_000, "", token_dimensions=0)

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        return [len(text.split()) for text in texts]

    def token_spans(self, text: str) -> list[Span]:
        return []

    def embed_passages(self, texts: Sequence[str]) -> Vector:
        vectors = np.full((len(texts), 64), 0.01, np.float32)
        for row, text in enumerate(texts):
            for subject in SUBJECTS:
                vectors[row, SUBJECTS.index(subject)] += float(subject in text and not self.blind)
        return unit_rows(vectors)

    def embed_query(self, text: str) -> Vector:
        vector: Vector = self.embed_passages([text])[0]
        return vector


def test_question_hides_text_that_it_was_made_of() -> None:
    turns = archive()
    made = make_questions(turns, at_most=100)
    assert {question.kind for question in made} == {"question", "title", "mention"}
    for question in made:
        texts = [turns[place] for place in question.gold]
        assert {each.conversation for each in texts} == {question.conversation}
        if question.by_answers:
            assert not any(question.text in answer for each in texts for answer in each.answered)
        else:
            [own] = question.hidden
            assert turns[own].opening == question.text
            assert own not in question.gold


def test_title_that_repeats_message_makes_no_question() -> None:
    turns = [turn(1, "Where did I put my red bicycle?", "In the shed.", "Where did I put my red bicycle")]
    assert [question.kind for question in make_questions(turns, at_most=9)] == ["question"]


def test_short_openings_and_turns_without_answers_make_no_questions() -> None:
    assert (
        make_questions([turn(1, "go on", "Done."), OwnTurn(2, "", "What about the red one?", ("a",), ())], at_most=9)
        == []
    )


def test_same_seed_draws_same_questions() -> None:
    drawn = [make_questions(archive(), at_most=3, seed=seed) for seed in (1, 1, 2)]
    assert drawn[0] == drawn[1] != drawn[2]
    assert len(drawn[0]) == 9


def test_interval_holds_difference_and_says_when_it_is_sure() -> None:
    homes = [number // 3 for number in range(60)]
    this = [float(number % 2) for number in range(60)]
    same = paired_difference(this, this, homes)
    assert (same.mean, same.low, same.high, same.verdict) == (0, 0, 0, "not told apart")
    better = paired_difference([0.2] * 60, [0.5 + 0.1 * (home % 2) for home in homes], homes)
    assert better.low <= better.mean <= better.high
    assert better.verdict == "better here"
    assert paired_difference([0.5] * 60, [0.2] * 60, homes).verdict == "worse here"


def test_questions_of_one_conversation_are_one_piece_of_evidence() -> None:
    values = np.random.default_rng(3).normal(0.1, 1, 12).repeat(20).tolist()
    none = [0.0] * len(values)
    apart = paired_difference(none, values, list(range(240)))
    together = paired_difference(none, values, [number // 20 for number in range(240)])
    assert together.high - together.low > 2 * (apart.high - apart.low)
    assert paired_difference([0.0] * 50, [1.0] * 50, [1] * 50).verdict == "too few conversations to tell"


def test_words_are_ranked_by_how_rare_they_are() -> None:
    scores = Bm25(["the cat and the dog", "the dog", "the the the", ""]).scores("the cat")
    assert scores.argmax() == 0
    assert scores[3] == 0
    assert scores[2] > 0


@pytest.mark.parametrize(("blind", "found"), [(False, True), (True, False)])
def test_model_is_ranked_by_what_its_vectors_find(blind: bool, found: bool) -> None:
    turns = archive()
    asked = make_questions(turns, at_most=100)
    result = rank_own(turns, asked, BagOfWords(blind=blind), words_of(turns))
    hits = [row["hit@5"] for row in result.vectors]
    assert len(hits) == len(asked)
    assert (min(hits) == 1) is found
    assert sum(row["mrr"] for row in result.fused) > sum(row["mrr"] for row in result.vectors) * 0.99
    assert result.passages_per_second > 0
